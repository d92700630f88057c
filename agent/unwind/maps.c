/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the maps of a process into an immutable table. Runs in any thread;
 * must survive maps that change while they are read (FAULTS X11).
 */
#include "agent/unwind/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/unwind/maps_open.h"
#include "agent/unwind/maps_text.h"

#define MAPPINGS_MAX   65536u
#define IMAGES_MAX     8192u
#define TEXT_BYTES_MAX (16u << 20)
#define TRIES	       3

struct image_slot {
	struct fgt_image image;
	struct fgt_image_file *file; /* NULL: could not be opened */
};

struct fgt_maps {
	uint64_t serial;
	struct fgt_mapping *mappings; /* sorted, disjoint */
	size_t count, capacity;
	struct image_slot *images;
	size_t image_count, image_capacity;
};

/* What is remembered between the lines of one file. */
struct builder {
	struct fgt_maps *maps;
	struct fgt_maps_owner owner;
	struct fgt_image_cache *cache;
	uint64_t head_dev, head_ino, head_start; /* last mapping of offset 0 */
	bool is_inconsistent;
};

void fgt_maps_free(struct fgt_maps *maps)
{
	if (!maps)
		return;
	for (size_t i = 0; i < maps->image_count; i++)
		fgt_image_file_put(maps->images[i].file);
	free(maps->images);
	free(maps->mappings);
	free(maps);
}

/* Reads a proc file whole. -EFBIG beyond TEXT_BYTES_MAX. */
static int read_text(int proc_fd, char **ret_text, size_t *ret_len)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	FGT_AUTO(free) void *text = NULL;
	size_t len = 0, capacity = 0;
	ssize_t got;

	fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	do {
		if (capacity - len < 4096) {
			char *grown;

			if (capacity >= TEXT_BYTES_MAX)
				return -EFBIG;
			capacity = capacity ? capacity * 2 : 65536;
			grown = realloc(text, capacity);
			if (!grown)
				return -ENOMEM;
			text = grown;
		}
		got = read(fd, (char *)text + len, capacity - len);
		if (got < 0 && errno != EINTR)
			return -errno;
		len += got > 0 ? (size_t)got : 0;
	} while (got);
	*ret_text = FGT_TAKE(text);
	*ret_len = len;
	return 0;
}

static int append_image(struct fgt_maps *maps, uint32_t *ret_index)
{
	struct image_slot *grown;
	size_t capacity;

	if (maps->image_count == maps->image_capacity) {
		capacity = maps->image_capacity ? maps->image_capacity * 2 : 32;
		grown = reallocarray(maps->images, capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		maps->images = grown;
		maps->image_capacity = capacity;
	}
	*ret_index = (uint32_t)maps->image_count;
	memset(&maps->images[maps->image_count++], 0, sizeof(*maps->images));
	return 0;
}

static void describe_image(struct image_slot *slot,
			   const struct fgt_maps_line *line)
{
	struct fgt_image *image = &slot->image;
	const struct fgt_elf *elf;

	memcpy(image->path, line->path, sizeof(image->path));
	image->is_deleted = line->is_deleted;
	image->start = line->start;
	image->end = line->end;
	image->dev = line->dev;
	image->ino = line->ino;
	/* Most files are linked so that offset and address agree. */
	image->bias = line->start - line->offset;
	if (!slot->file)
		return;
	elf = fgt_image_file_elf(slot->file);
	memcpy(image->build_id, elf->build_id, sizeof(image->build_id));
	image->build_id_len = elf->build_id_len;
	fgt_elf_find_bias(elf, line->start, line->offset, line->is_executable,
			  &image->bias);
}

/* The image of the same file at the same place, if it was seen before. */
static bool find_image(const struct fgt_maps *maps,
		       const struct image_slot *wanted, uint32_t *ret_index)
{
	for (size_t i = maps->image_count; i > 0; i--) {
		const struct image_slot *slot = &maps->images[i - 1];

		if (slot->file != wanted->file ||
		    slot->image.bias != wanted->image.bias ||
		    slot->image.dev != wanted->image.dev ||
		    slot->image.ino != wanted->image.ino ||
		    strcmp(slot->image.path, wanted->image.path) != 0)
			continue;
		*ret_index = (uint32_t)(i - 1);
		return true;
	}
	return false;
}

static int open_file(struct builder *builder, const struct fgt_maps_line *line,
		     struct fgt_image_file **ret_file)
{
	uint64_t base = 0;

	if (!line->ino && !strcmp(line->path, "[vdso]"))
		return fgt_maps_open_vdso(&builder->owner, builder->cache, line,
					  ret_file);
	if (!line->ino)
		return -ENOENT;
	if (builder->head_dev == line->dev && builder->head_ino == line->ino)
		base = builder->head_start;
	return fgt_maps_open(&builder->owner, builder->cache, line, base,
			     ret_file);
}

/* Finds or makes the image of an executable mapping. */
static int assign_image(struct builder *builder,
			const struct fgt_maps_line *line, uint32_t *ret_index)
{
	struct fgt_maps *maps = builder->maps;
	struct image_slot slot = { .file = NULL };
	struct fgt_image *image;
	int r;

	*ret_index = FGT_MAPS_NO_IMAGE;
	/* Anonymous code has no image; [vsyscall] cannot be unwound. */
	if (!line->ino && strcmp(line->path, "[vdso]") != 0)
		return 0;
	r = open_file(builder, line, &slot.file);
	if (r == -ENOMEM)
		return r;
	if (r == -ESTALE || r == -ENOENT)
		builder->is_inconsistent = true;
	describe_image(&slot, line);
	if (!find_image(maps, &slot, ret_index)) {
		if (maps->image_count == IMAGES_MAX)
			r = -ENOSPC;
		else
			r = append_image(maps, ret_index);
		if (r == -ENOMEM || r == -ENOSPC) {
			fgt_image_file_put(slot.file);
			return r == -ENOMEM ? r : 0;
		}
		maps->images[*ret_index] = slot;
		return 0;
	}
	fgt_image_file_put(slot.file);
	image = &maps->images[*ret_index].image;
	if (line->end > image->end)
		image->end = line->end;
	return 0;
}

static int append_mapping(struct fgt_maps *maps,
			  const struct fgt_mapping *mapping)
{
	struct fgt_mapping *grown;
	size_t capacity;

	if (maps->count == MAPPINGS_MAX)
		return 0;
	if (maps->count == maps->capacity) {
		capacity = maps->capacity ? maps->capacity * 2 : 64;
		grown = reallocarray(maps->mappings, capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		maps->mappings = grown;
		maps->capacity = capacity;
	}
	maps->mappings[maps->count++] = *mapping;
	return 0;
}

static int take_line(struct builder *builder, const struct fgt_maps_line *line)
{
	struct fgt_maps *maps = builder->maps;
	struct fgt_mapping mapping = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.is_executable = line->is_executable,
		.is_writable = line->is_writable,
		.image = FGT_MAPS_NO_IMAGE,
	};
	int r;

	/* Read in pieces, maps may repeat or overlap what moved meanwhile. */
	if (maps->count && line->start < maps->mappings[maps->count - 1].end) {
		builder->is_inconsistent = true;
		return 0;
	}
	if (!line->offset && line->ino) {
		builder->head_dev = line->dev;
		builder->head_ino = line->ino;
		builder->head_start = line->start;
	}
	if (line->is_executable) {
		r = assign_image(builder, line, &mapping.image);
		if (r < 0)
			return r;
	}
	return append_mapping(maps, &mapping);
}

/* Other mappings of the same file stretch its image: start … end. */
static void stretch_image(struct fgt_maps *maps,
			  const struct fgt_maps_line *line)
{
	uint64_t guessed = line->start - line->offset;

	for (size_t i = 0; line->ino && i < maps->image_count; i++) {
		struct image_slot *slot = &maps->images[i];
		uint64_t bias = guessed;

		if (slot->image.dev != line->dev ||
		    slot->image.ino != line->ino)
			continue;
		if (slot->file)
			fgt_elf_find_bias(fgt_image_file_elf(slot->file),
					  line->start, line->offset,
					  line->is_executable, &bias);
		if (bias != slot->image.bias)
			continue;
		if (line->start < slot->image.start)
			slot->image.start = line->start;
		if (line->end > slot->image.end)
			slot->image.end = line->end;
	}
}

static int for_each_line(const char *text, size_t len, struct builder *builder,
			 bool is_second_pass)
{
	const char *end = text + len, *newline;
	struct fgt_maps_line line;
	int r;

	for (; text < end; text = newline + 1) {
		newline = memchr(text, '\n', (size_t)(end - text));
		if (!newline)
			break; /* cut off: the kernel ends every line */
		if (fgt_maps_line_parse(text, (size_t)(newline - text), &line) <
		    0)
			continue;
		if (is_second_pass) {
			stretch_image(builder->maps, &line);
			continue;
		}
		r = take_line(builder, &line);
		if (r < 0)
			return r;
	}
	return 0;
}

static _Atomic uint64_t next_serial = 1;

/* *ret_is_inconsistent: maps seem to have changed while they were read. */
static int build(const char *text, size_t len,
		 const struct fgt_maps_owner *owner,
		 struct fgt_image_cache *cache, struct fgt_maps **ret_maps,
		 bool *ret_is_inconsistent)
{
	FGT_AUTO(fgt_maps_free) struct fgt_maps *maps = NULL;
	struct builder builder = { .owner = *owner, .cache = cache };
	int r;

	if (!len)
		return -ESRCH; /* a zombie has no memory */
	maps = calloc(1, sizeof(*maps));
	if (!maps)
		return -ENOMEM;
	/* Relaxed: only that no two are equal matters. */
	maps->serial = atomic_fetch_add_explicit(&next_serial, 1,
						 memory_order_relaxed);
	builder.maps = maps;
	r = for_each_line(text, len, &builder, false);
	if (r < 0)
		return r;
	for_each_line(text, len, &builder, true);
	*ret_is_inconsistent = builder.is_inconsistent;
	*ret_maps = FGT_TAKE(maps);
	return 0;
}

static int read_once(const struct fgt_maps_owner *owner,
		     struct fgt_image_cache *cache, struct fgt_maps **ret_maps,
		     bool *ret_is_inconsistent)
{
	FGT_AUTO(free) void *text = NULL;
	char *read_bytes;
	size_t len;
	int r;

	r = read_text(owner->proc_fd, &read_bytes, &len);
	if (r < 0)
		return r;
	text = read_bytes;
	return build(text, len, owner, cache, ret_maps, ret_is_inconsistent);
}

static int open_root(int proc_fd)
{
	return openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int fgt_maps_parse(const char *text, size_t len, int proc_fd, int32_t pid,
		   struct fgt_image_cache *cache, struct fgt_maps **ret_maps)
{
	FGT_AUTO(fgt_fd_close) int root_fd = open_root(proc_fd);
	const struct fgt_maps_owner owner = { pid, proc_fd, root_fd };
	bool is_inconsistent;

	return build(text, len, &owner, cache, ret_maps, &is_inconsistent);
}

static int explain(int error, int32_t pid, struct fgt_why *why)
{
	switch (error) {
	case -ESRCH:
		return fgt_why_set(why, error, "process %d has ended", pid);
	case -EACCES:
	case -EPERM:
		return fgt_why_set(why, error,
				   "memory map of process %d is not readable: "
				   "run as its user or with CAP_SYS_PTRACE",
				   pid);
	default:
		return fgt_why_set(why, error, "memory map of process %d: %s",
				   pid, strerror(-error));
	}
}

int fgt_maps_read(int proc_fd, int32_t pid, struct fgt_image_cache *cache,
		  struct fgt_maps **ret_maps, struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int root_fd = open_root(proc_fd);
	const struct fgt_maps_owner owner = { pid, proc_fd, root_fd };
	struct fgt_maps *maps = NULL;
	bool is_inconsistent = true;
	int r;

	for (int i = 0; i < TRIES && is_inconsistent; i++) {
		fgt_maps_free(FGT_TAKE(maps));
		r = read_once(&owner, cache, &maps, &is_inconsistent);
		if (r < 0)
			return explain(r, pid, why);
	}
	*ret_maps = maps;
	return 0;
}

const struct fgt_mapping *fgt_maps_find(const struct fgt_maps *maps,
					uint64_t address)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (maps->mappings[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == maps->count || address < maps->mappings[low].start)
		return NULL;
	return &maps->mappings[low];
}

uint64_t fgt_maps_serial(const struct fgt_maps *maps)
{
	return maps->serial;
}

size_t fgt_maps_image_count(const struct fgt_maps *maps)
{
	return maps->image_count;
}

const struct fgt_image *fgt_maps_image(const struct fgt_maps *maps,
				       uint32_t image)
{
	return &maps->images[image].image;
}

struct fgt_image_file *fgt_maps_image_file(const struct fgt_maps *maps,
					   uint32_t image)
{
	return maps->images[image].file;
}

/* The next executable mapping from *at on, NULL at the end. */
static const struct fgt_mapping *next_executable(const struct fgt_maps *maps,
						 size_t *at)
{
	while (*at < maps->count) {
		const struct fgt_mapping *mapping = &maps->mappings[(*at)++];

		if (mapping->is_executable)
			return mapping;
	}
	return NULL;
}

static bool is_same_image(const struct fgt_maps *a, uint32_t image_a,
			  const struct fgt_maps *b, uint32_t image_b)
{
	const struct image_slot *left, *right;

	if (image_a == FGT_MAPS_NO_IMAGE || image_b == FGT_MAPS_NO_IMAGE)
		return image_a == image_b;
	left = &a->images[image_a];
	right = &b->images[image_b];
	return left->file == right->file &&
	       left->image.bias == right->image.bias &&
	       left->image.dev == right->image.dev &&
	       left->image.ino == right->image.ino &&
	       left->image.is_deleted == right->image.is_deleted &&
	       !strcmp(left->image.path, right->image.path);
}

bool fgt_maps_is_equal(const struct fgt_maps *a, const struct fgt_maps *b)
{
	const struct fgt_mapping *left, *right;
	size_t at_a = 0, at_b = 0;

	for (;;) {
		left = next_executable(a, &at_a);
		right = next_executable(b, &at_b);
		if (!left || !right)
			return !left && !right;
		if (left->start != right->start || left->end != right->end ||
		    left->offset != right->offset ||
		    !is_same_image(a, left->image, b, right->image))
			return false;
	}
}
