/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches symbol files and the answers they gave. Runs where slices are
 * resolved, in several threads at once.
 */
#include "agent/symbols/symbol_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "agent/symbols/demangle.h"
#include "agent/symbols/image_open.h"
#include "agent/symbols/image_symbols.h"
#include "ringbuf/strings.h"

#define FILES_MAX   128u /* kept when nobody uses them */
#define ANSWERS_MAX 32768u /* per file; then it starts afresh */

/* All names of one address. */
struct answer {
	uint64_t address; /* + 1; 0: empty */
	uint32_t first, count;
};

struct fgt_symbol_file {
	struct fgt_symbol_cache *cache;
	struct fgt_symbol_file *next; /* most recently used first */
	unsigned int references; /* protected by cache->mutex */
	struct fgt_slice_image key;
	char path[FGT_IMAGE_PATH_MAX];

	/* Protects all below; taken without cache->mutex held. */
	pthread_mutex_t mutex;
	bool is_opened;
	enum fgt_symbol_reason reason; /* why symbols is NULL */
	struct fgt_image_symbols *symbols;
	struct fgt_strings strings;
	struct fgt_symbol *names;
	uint32_t name_count, name_capacity;
	struct answer *answers; /* open addressing */
	uint32_t answer_count, answer_capacity;
};

struct fgt_symbol_cache {
	const struct fgt_symbolizer_options *options;
	pthread_mutex_t mutex; /* protects the list and the references */
	struct fgt_symbol_file *files;
	unsigned int count;
};

int fgt_symbol_cache_new(const struct fgt_symbolizer_options *options,
			 struct fgt_symbol_cache **ret_cache)
{
	struct fgt_symbol_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->options = options;
	pthread_mutex_init(&cache->mutex, NULL);
	*ret_cache = cache;
	return 0;
}

static void free_file(struct fgt_symbol_file *file)
{
	fgt_image_symbols_close(file->symbols);
	fgt_strings_done(&file->strings);
	free(file->names);
	free(file->answers);
	pthread_mutex_destroy(&file->mutex);
	free(file);
}

void fgt_symbol_cache_free(struct fgt_symbol_cache *cache)
{
	if (!cache)
		return;
	while (cache->files) {
		struct fgt_symbol_file *file = cache->files;

		cache->files = file->next;
		free_file(file);
	}
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

/* ---- Finding an entry ---------------------------------------------------- */

static bool is_key(const struct fgt_symbol_file *file,
		   const struct fgt_slice_image *image, const char *path)
{
	if (image->build_id_len)
		return file->key.build_id_len == image->build_id_len &&
		       !memcmp(file->key.build_id, image->build_id,
			       image->build_id_len);
	return !file->key.build_id_len && file->key.dev == image->dev &&
	       file->key.ino == image->ino && !strcmp(file->path, path);
}

/* Drops the least recently used entry that nobody holds. */
static void shrink(struct fgt_symbol_cache *cache)
{
	struct fgt_symbol_file **link, **victim = NULL;

	for (link = &cache->files; *link; link = &(*link)->next)
		if (!(*link)->references)
			victim = link;
	if (!victim)
		return;
	struct fgt_symbol_file *file = *victim;

	*victim = file->next;
	cache->count--;
	free_file(file);
}

static struct fgt_symbol_file *add_file(struct fgt_symbol_cache *cache,
					const struct fgt_slice_image *image,
					const char *path)
{
	struct fgt_symbol_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	if (fgt_strings_init(&file->strings) < 0) {
		free(file);
		return NULL;
	}
	file->cache = cache;
	file->key = *image;
	snprintf(file->path, sizeof(file->path), "%s", path);
	pthread_mutex_init(&file->mutex, NULL);
	if (cache->count >= FILES_MAX)
		shrink(cache);
	cache->count++;
	file->next = cache->files;
	cache->files = file;
	return file;
}

static struct fgt_symbol_file *find_file(struct fgt_symbol_cache *cache,
					 const struct fgt_slice_image *image,
					 const char *path)
{
	struct fgt_symbol_file **link;

	for (link = &cache->files; *link; link = &(*link)->next) {
		struct fgt_symbol_file *file = *link;

		if (!is_key(file, image, path))
			continue;
		*link = file->next;
		file->next = cache->files;
		cache->files = file;
		return file;
	}
	return NULL;
}

static void open_file(struct fgt_symbol_file *file,
		      const struct fgt_slice *slice,
		      const struct fgt_slice_image *image,
		      const struct fgt_debug_search *search)
{
	int fd = -1, r;

	r = fgt_image_open(file->cache->options, slice, image, search->root_fd,
			   &fd, &file->reason);
	if (r < 0)
		return;
	file->is_opened = true;
	file->reason = FGT_SYMBOL_STRIPPED;
	if (fgt_image_symbols_open(fd, file->path, search, &file->symbols) < 0)
		file->reason = FGT_SYMBOL_BAD_FILE;
}

int fgt_symbol_cache_get(struct fgt_symbol_cache *cache,
			 const struct fgt_slice *slice,
			 const struct fgt_slice_image *image,
			 const struct fgt_debug_search *search,
			 struct fgt_symbol_file **ret_file)
{
	const char *path = fgt_slice_string(slice, image->path);
	struct fgt_symbol_file *file;

	pthread_mutex_lock(&cache->mutex);
	file = find_file(cache, image, path);
	if (!file)
		file = add_file(cache, image, path);
	if (file)
		file->references++;
	pthread_mutex_unlock(&cache->mutex);
	if (!file)
		return -ENOMEM;
	pthread_mutex_lock(&file->mutex);
	/* A file that was not found may be there for another target's root. */
	if (!file->is_opened)
		open_file(file, slice, image, search);
	pthread_mutex_unlock(&file->mutex);
	*ret_file = file;
	return 0;
}

void fgt_symbol_file_put(struct fgt_symbol_file *file)
{
	if (!file)
		return;
	pthread_mutex_lock(&file->cache->mutex);
	file->references--;
	pthread_mutex_unlock(&file->cache->mutex);
}

/* ---- Answers ------------------------------------------------------------- */

static struct answer *find_slot(struct fgt_symbol_file *file, uint64_t address)
{
	uint64_t hash = address * 0x9e3779b97f4a7c15ull;
	uint32_t mask = file->answer_capacity - 1, at;

	at = (uint32_t)(hash >> 32) & mask;
	while (file->answers[at].address &&
	       file->answers[at].address != address + 1)
		at = (at + 1) & mask;
	return &file->answers[at];
}

static int make_room(struct fgt_symbol_file *file)
{
	struct answer *old = file->answers;
	uint32_t old_capacity = file->answer_capacity;
	uint32_t capacity = old_capacity ? old_capacity * 2 : 256;
	struct answer *answers;

	if (file->answer_count * 4 < old_capacity * 3)
		return 0;
	answers = calloc(capacity, sizeof(*answers));
	if (!answers)
		return -ENOMEM;
	file->answers = answers;
	file->answer_capacity = capacity;
	for (uint32_t i = 0; i < old_capacity; i++)
		if (old[i].address)
			*find_slot(file, old[i].address - 1) = old[i];
	free(old);
	return 0;
}

static int forget_answers(struct fgt_symbol_file *file)
{
	memset(file->answers, 0, file->answer_capacity * sizeof(struct answer));
	file->answer_count = file->name_count = 0;
	fgt_strings_done(&file->strings);
	return fgt_strings_init(&file->strings);
}

static int add_name(struct fgt_symbol_file *file,
		    const struct fgt_found_symbol *found)
{
	char function[FGT_STRING_MAX];
	struct fgt_symbol name = { .line = found->line };
	int r;

	if (file->name_count == file->name_capacity) {
		uint32_t capacity = file->name_capacity * 2 + 64;
		struct fgt_symbol *names =
			realloc(file->names, capacity * sizeof(*names));

		if (!names)
			return -ENOMEM;
		file->names = names;
		file->name_capacity = capacity;
	}
	fgt_demangle_name(found->function, file->cache->options->demangle,
			  function, sizeof(function));
	r = fgt_strings_intern(&file->strings, function, strlen(function),
			       &name.function);
	if (r == 0 && found->file)
		r = fgt_strings_intern(&file->strings, found->file,
				       strlen(found->file), &name.file);
	if (r == 0)
		file->names[file->name_count++] = name;
	return r;
}

static int look_up(struct fgt_symbol_file *file, uint64_t address,
		   struct answer **ret_answer)
{
	struct fgt_found_symbol found[FGT_INLINE_DEPTH_MAX];
	struct answer *answer;
	size_t count;
	int r = 0;

	if (file->answer_count >= ANSWERS_MAX)
		r = forget_answers(file);
	if (r == 0)
		r = make_room(file);
	if (r < 0)
		return r;
	answer = find_slot(file, address);
	*ret_answer = answer;
	if (answer->address)
		return 0;
	count = fgt_image_symbols_find(file->symbols, address, found);
	answer->first = file->name_count;
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_name(file, &found[i]);
	if (r < 0)
		return r;
	answer->count = (uint32_t)count;
	answer->address = address + 1;
	file->answer_count++;
	return 0;
}

static int give(const struct fgt_symbol_file *file, const struct answer *answer,
		struct fgt_slice *slice, uint32_t frame)
{
	struct fgt_symbol_text texts[FGT_INLINE_DEPTH_MAX];

	for (uint32_t i = 0; i < answer->count; i++) {
		const struct fgt_symbol *name = &file->names[answer->first + i];

		texts[i] = (struct fgt_symbol_text){
			.function =
				fgt_strings_get(&file->strings, name->function),
			.file = name->file ? fgt_strings_get(&file->strings,
							     name->file)
					   : NULL,
			.line = name->line,
		};
	}
	return fgt_slice_add_symbols(slice, frame, texts, answer->count);
}

int fgt_symbol_file_name(struct fgt_symbol_file *file, struct fgt_slice *slice,
			 uint32_t frame, uint64_t address,
			 enum fgt_symbol_reason *ret_reason)
{
	struct answer *answer = NULL;
	int r = -ENOENT;

	pthread_mutex_lock(&file->mutex);
	*ret_reason = file->reason;
	if (file->symbols)
		r = look_up(file, address, &answer);
	if (r == 0)
		r = answer->count ? give(file, answer, slice, frame) : -ENOENT;
	pthread_mutex_unlock(&file->mutex);
	return r;
}
