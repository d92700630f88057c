/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the maps of a process into an immutable table. Runs in any thread; must
 * survive maps that change while they are read (fault X11).
 */
#include "agent/unwind/maps/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/unwind/maps/maps_open.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"

#define MAPPINGS_MAX   65536u
#define IMAGES_MAX     8192u
#define TEXT_BYTES_MAX (16u << 20)
#define PIECE_BYTES    4096u /* procfs gives no more at once */
#define TRIES	       3

/* What is remembered between the lines of one file. */
struct builder {
	struct fgt_maps *maps;
	struct fgt_maps_owner owner;
	struct fgt_image_cache *cache;
	uint64_t listed_end; /* of the last mapping */
	uint64_t head_dev, head_ino, head_start; /* last mapping of offset 0 */
	bool is_inconsistent;
};

static void describe_image(struct fgt_maps_image *slot,
			   const struct fgt_maps_line *line)
{
	struct fgt_image *image = &slot->image;
	const struct fgt_elf *elf;

	memcpy(image->path, line->path, strlen(line->path) + 1);
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
		       const struct fgt_maps_image *wanted, uint32_t *ret_index)
{
	for (size_t i = maps->image_count; i > 0; i--) {
		const struct fgt_maps_image *slot = &maps->images[i - 1];

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

/* Of the image that is added next. */
static void note_refusal(struct builder *builder, int error)
{
	struct fgt_maps *maps = builder->maps;

	if (error != -EREMOTEIO && !builder->owner.is_late)
		return;
	maps->is_incomplete |= builder->owner.is_late;
	builder->owner.is_late = false;
	maps->refused_image = maps->image_count;
	snprintf(maps->refused_type, sizeof(maps->refused_type), "%s",
		 builder->owner.refused_type);
}

/* Finds or makes the image of an executable mapping. */
static int assign_image(struct builder *builder,
			const struct fgt_maps_line *line, uint32_t *ret_index)
{
	struct fgt_maps *maps = builder->maps;
	struct fgt_maps_image slot = { .file = NULL };
	struct fgt_image *image;
	int r, error;

	*ret_index = FGT_MAPS_NO_IMAGE;
	/* Anonymous code has no image; [vsyscall] cannot be unwound. */
	if (!line->ino && strcmp(line->path, "[vdso]") != 0)
		return 0;
	r = open_file(builder, line, &slot.file);
	if (r == -ENOMEM)
		return r;
	error = r;
	if (r == -ESTALE || r == -ENOENT)
		builder->is_inconsistent = true;
	maps->is_unanswered |= r == -EINPROGRESS;
	describe_image(&slot, line);
	if (!find_image(maps, &slot, ret_index)) {
		r = maps->image_count == IMAGES_MAX
			    ? -ENOSPC
			    : FGT_ARRAY_GROW(maps->images, maps->image_count,
					     maps->image_capacity);
		if (r == 0) {
			*ret_index = (uint32_t)maps->image_count;
			note_refusal(builder, error);
			maps->images[maps->image_count++] = slot;
			return 0;
		}
		fgt_image_file_put(slot.file);
		return r == -ENOMEM ? r : 0;
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
	if (maps->count == MAPPINGS_MAX)
		return 0;
	if (FGT_ARRAY_GROW(maps->mappings, maps->count, maps->capacity))
		return -ENOMEM;
	maps->mappings[maps->count++] = *mapping;
	return 0;
}

static int list_mapping(struct builder *builder,
			const struct fgt_maps_line *line)
{
	struct fgt_maps *maps = builder->maps;
	struct fgt_mapping mapping;

	/* Read in pieces, maps may repeat or overlap mappings that moved during
	 * the read. */
	if (line->start < builder->listed_end) {
		builder->is_inconsistent = true;
		return 0;
	}
	builder->listed_end = line->end;
	/* Half of the mappings of a process with many threads are the guards of
	 * their stacks. */
	if (!line->is_readable && !line->is_executable)
		return 0;
	if (maps->context_count < FGT_MAPS_CONTEXTS &&
	    fgt_maps_line_is_context(line))
		maps->contexts[maps->context_count++] = line->start;
	mapping = (struct fgt_mapping){
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.is_executable = line->is_executable,
		.is_writable = line->is_writable,
		.is_memory = fgt_maps_is_memory(line->dev, line->ino),
		.image = FGT_MAPS_NO_IMAGE,
	};
	return append_mapping(maps, &mapping);
}

static struct fgt_mapping *find_listed(struct fgt_maps *maps,
				       const struct fgt_maps_line *line)
{
	struct fgt_mapping *mapping =
		(struct fgt_mapping *)fgt_maps_find(maps, line->start);

	return mapping && mapping->start == line->start &&
			       mapping->end == line->end
		       ? mapping
		       : NULL;
}

static int find_images(struct builder *builder,
		       const struct fgt_maps_line *line)
{
	struct fgt_mapping *mapping;

	if (!line->offset && line->ino) {
		builder->head_dev = line->dev;
		builder->head_ino = line->ino;
		builder->head_start = line->start;
	}
	if (!line->is_executable)
		return 0;
	mapping = find_listed(builder->maps, line);
	return mapping ? assign_image(builder, line, &mapping->image) : 0;
}

/* Further mappings of the same file extend its image: start … end. */
static int stretch_image(struct builder *builder,
			 const struct fgt_maps_line *line)
{
	uint64_t guessed = line->start - line->offset;
	struct fgt_maps *maps = builder->maps;

	for (size_t i = 0; line->ino && i < maps->image_count; i++) {
		struct fgt_maps_image *slot = &maps->images[i];
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
	return 0;
}

/* ---- Text ---------------------------------------------------------------- */

typedef int take_line(struct builder *builder,
		      const struct fgt_maps_line *line);

static int for_each_line(const char *text, size_t len, struct builder *builder,
			 take_line *take)
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
		r = take(builder, &line);
		if (r < 0)
			return r;
	}
	return 0;
}

struct maps_bytes {
	char *bytes;
	size_t len, capacity;
	size_t listed; /* bytes of lines that are listed already */
};

/* Lists the lines that came, and keeps those that images may be found by. */
static int list_text(struct builder *builder, struct maps_bytes *text)
{
	char *at = text->bytes + text->listed, *to = at, *newline;
	char *end = text->bytes + text->len;
	struct fgt_maps_line line;
	int r;

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t len = (size_t)(newline + 1 - at);

		if (fgt_maps_line_parse(at, len - 1, &line) == 0) {
			r = list_mapping(builder, &line);
			if (r < 0)
				return r;
			if (line.ino || line.is_executable) {
				memmove(to, at, len);
				to += len;
			}
		}
		at += len;
	}
	memmove(to, at, (size_t)(end - at));
	text->listed = (size_t)(to - text->bytes);
	text->len = text->listed + (size_t)(end - at);
	return 0;
}

static int grow_text(struct maps_bytes *text)
{
	char *grown;

	if (text->capacity >= TEXT_BYTES_MAX)
		return -EFBIG;
	text->capacity = text->capacity ? text->capacity * 2 : 16384;
	grown = realloc(text->bytes, text->capacity);
	if (!grown)
		return -ENOMEM;
	text->bytes = grown;
	return 0;
}

/* In pieces: thousands of threads have thousands of stacks to list. */
static int read_text(int proc_fd, struct builder *builder,
		     struct maps_bytes *text)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_heartbeat *heartbeat;
	off_t offset = 0;
	ssize_t got;
	int r;

	heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	fgt_call_leave(heartbeat, fd);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	do {
		r = text->capacity - text->len < PIECE_BYTES ? grow_text(text)
							     : 0;
		if (r < 0)
			return r;
		heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
		got = fgt_fd_pread(&fd, text->bytes + text->len,
				   text->capacity - text->len, offset);
		fgt_call_leave(heartbeat, fd);
		if (got < 0 && errno != EINTR)
			return -errno;
		text->len += got > 0 ? (size_t)got : 0;
		offset += got > 0 ? got : 0;
		r = got > 0 ? list_text(builder, text) : 0;
		if (r < 0)
			return r;
	} while (got);
	/* A zombie has no memory. */
	return builder->listed_end ? 0 : -ESRCH;
}

static _Atomic uint64_t next_serial = 1;

static struct fgt_maps *new_maps(void)
{
	struct fgt_maps *maps = calloc(1, sizeof(*maps));

	/* Relaxed: only that no two are equal matters. */
	if (maps)
		maps->serial = atomic_fetch_add_explicit(&next_serial, 1,
							 memory_order_relaxed);
	return maps;
}

/* Gives back what was room to grow: maps stay for long. */
static void *fit(void *array, size_t count, size_t size)
{
	void *fitted = count ? reallocarray(array, count, size) : NULL;

	return fitted ? fitted : array;
}

/* After all mappings were listed. */
static int finish(struct builder *builder, const char *text, size_t len)
{
	struct fgt_maps *maps = builder->maps;
	int r = for_each_line(text, len, builder, find_images);

	if (r < 0)
		return r;
	for_each_line(text, len, builder, stretch_image);
	maps->mappings =
		fit(maps->mappings, maps->count, sizeof(*maps->mappings));
	maps->images =
		fit(maps->images, maps->image_count, sizeof(*maps->images));
	return 0;
}

/* *ret_is_inconsistent: maps seem to have changed while they were read. */
static int read_once(const struct fgt_maps_owner *owner,
		     struct fgt_image_cache *cache, struct fgt_maps **ret_maps,
		     bool *ret_is_inconsistent)
{
	FGT_AUTO(fgt_maps_free) struct fgt_maps *maps = new_maps();
	struct builder builder = { .maps = maps,
				   .owner = *owner,
				   .cache = cache };
	struct maps_bytes text = { .bytes = NULL };
	int r = maps ? read_text(owner->proc_fd, &builder, &text) : -ENOMEM;

	if (r == 0)
		r = finish(&builder, text.bytes, text.listed);
	free(text.bytes);
	if (r < 0)
		return r;
	*ret_is_inconsistent = builder.is_inconsistent;
	*ret_maps = FGT_TAKE(maps);
	return 0;
}

static uint32_t owner_of(int proc_fd)
{
	struct stat status;

	return fstat(proc_fd, &status) < 0 ? 0 : status.st_uid;
}

int fgt_maps_parse(const char *text, size_t len, int proc_fd, int32_t pid,
		   struct fgt_image_cache *cache, struct fgt_maps **ret_maps)
{
	FGT_AUTO(fgt_maps_free) struct fgt_maps *maps = new_maps();
	struct builder builder = { .maps = maps,
				   .owner = { .pid = pid,
					      .uid = owner_of(proc_fd),
					      .proc_fd = proc_fd },
				   .cache = cache };
	int r = len ? -ENOMEM : -ESRCH;

	if (len && maps)
		r = for_each_line(text, len, &builder, list_mapping);
	if (r == 0)
		r = finish(&builder, text, len);
	if (r == 0)
		*ret_maps = FGT_TAKE(maps);
	return r;
}

static int explain(int error, int32_t pid, struct fgt_why *why)
{
	switch (error) {
	case -ESRCH:
		return fgt_why_set(why, error, FGT_PROCESS_HAS_ENDED, pid);
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
		  unsigned int wait_ms, struct fgt_maps **ret_maps,
		  struct fgt_why *why)
{
	const struct fgt_maps_owner owner = {
		.pid = pid,
		.uid = owner_of(proc_fd),
		.proc_fd = proc_fd,
		.user = fgt_image_cache_is_served(cache)
				? fgt_maps_user(proc_fd)
				: 0,
		.wait_ms = wait_ms,
	};
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
