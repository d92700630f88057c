/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads perf maps. Runs in the daemon; must not block on what is not a file,
 * follow a link, or read what another user put there.
 */
#include "agent/symbols/perfmap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/strings.h"

#define READ_MAX_NS 2000000000ull

struct map_line {
	uint64_t start, end;
	uint32_t name; /* offset in text */
	uint32_t order;
};

/* Once flattened: sorted by start, none overlaps another. */
struct fgt_perfmap {
	char *text; /* the file; names are NUL-terminated in it */
	size_t len;
	struct map_line *lines;
	size_t count, capacity;
	struct stat status;
};

/* A heap of lines, the latest on top. */
struct heap {
	const struct map_line **items;
	size_t count;
};

void fgt_perfmap_free(struct fgt_perfmap *map)
{
	if (!map)
		return;
	free(map->text);
	free(map->lines);
	free(map);
}

static int check_file(int fd, uint32_t uid)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (S_ISLNK(status.st_mode))
		return -ELOOP;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_uid != uid && status.st_uid)
		return -EPERM;
	return status.st_size > (off_t)FGT_PERFMAP_BYTES_MAX ? -EFBIG : 0;
}

static int open_file(int root_fd, int32_t ns_pid, uint32_t uid, int *ret_fd)
{
	/* O_PATH first: to open a FIFO or a device is to touch it. */
	const struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FGT_AUTO(fgt_fd_close) int path_fd = -1;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/tmp/perf-%" PRId32 ".map", ns_pid);
	path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0)
		return -errno;
	error = check_file(path_fd, uid);
	if (error)
		return error;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

/* As much as the file had at fstat(); it may shrink during the read. */
static int read_text(struct fgt_perfmap *map, int fd)
{
	uint64_t deadline_ns = fgt_clock_ns(CLOCK_MONOTONIC) + READ_MAX_NS;
	size_t size;

	if (fstat(fd, &map->status) < 0)
		return -EIO;
	size = (size_t)map->status.st_size;
	if (size > FGT_PERFMAP_BYTES_MAX)
		size = FGT_PERFMAP_BYTES_MAX;
	map->text = malloc(size + 1);
	if (!map->text)
		return -ENOMEM;
	while (map->len < size) {
		size_t step = size - map->len;
		ssize_t got;

		if (fgt_clock_ns(CLOCK_MONOTONIC) > deadline_ns)
			return -ETIMEDOUT;
		if (step > 1u << 20)
			step = 1u << 20;
		got = pread(fd, map->text + map->len, step, (off_t)map->len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -EIO;
		if (!got)
			break;
		map->len += (size_t)got;
	}
	map->text[map->len] = '\0';
	return 0;
}

/* One to sixteen hexadecimal digits, "0x" allowed, and a blank after them. */
static const char *parse_hex(const char *at, const char *end, uint64_t *ret)
{
	uint64_t value = 0;
	int digits = 0;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	for (; at < end && *at != ' '; at++, digits++) {
		unsigned char c = (unsigned char)*at;
		unsigned int digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (c | 32) - 'a' + 10u;
		else
			return NULL;
		if (digits == 16)
			return NULL;
		value = value << 4 | digit;
	}
	*ret = value;
	return digits && at < end ? at + 1 : NULL;
}

static int add_line(struct fgt_perfmap *map, const struct map_line *line)
{
	if (FGT_ARRAY_GROW(map->lines, map->count, map->capacity))
		return -ENOMEM;
	map->lines[map->count++] = *line;
	return 0;
}

/* Makes a name that can be shown: NUL-terminated, no control characters. */
static void clean_name(char *name, char *end)
{
	if (end - name >= FGT_STRING_MAX)
		end = name + FGT_STRING_MAX - 1;
	*end = '\0';
	for (; name < end; name++)
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			*name = '?';
}

static int parse_line(struct fgt_perfmap *map, char *start, char *end,
		      uint32_t order)
{
	struct map_line line = { .order = order };
	uint64_t size;
	const char *at = parse_hex(start, end, &line.start);

	if (at)
		at = parse_hex(at, end, &size);
	if (!at || at == end || !size || line.start + size < line.start)
		return 0;
	line.end = line.start + size;
	line.name = (uint32_t)(at - map->text);
	clean_name(map->text + line.name, end);
	return add_line(map, &line);
}

static int parse(struct fgt_perfmap *map)
{
	char *at = map->text, *end = map->text + map->len;
	int error = 0;

	for (uint32_t i = 0; i < FGT_PERFMAP_LINES_MAX && at < end && !error;
	     i++) {
		char *newline = memchr(at, '\n', (size_t)(end - at));

		if (!newline)
			newline = end;
		error = parse_line(map, at, newline, i);
		at = newline + 1;
	}
	return error;
}

static int compare_lines(const void *left, const void *right)
{
	const struct map_line *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static void heap_swap(struct heap *heap, size_t a, size_t b)
{
	const struct map_line *line = heap->items[a];

	heap->items[a] = heap->items[b];
	heap->items[b] = line;
}

static bool heap_is_later(const struct heap *heap, size_t a, size_t b)
{
	return heap->items[a]->order > heap->items[b]->order;
}

static void heap_push(struct heap *heap, const struct map_line *line)
{
	size_t at = heap->count++;

	heap->items[at] = line;
	while (at && heap_is_later(heap, at, (at - 1) / 2)) {
		heap_swap(heap, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void heap_pop(struct heap *heap)
{
	size_t at = 0;

	heap->items[0] = heap->items[--heap->count];
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= heap->count)
			return;
		if (child + 1 < heap->count &&
		    heap_is_later(heap, child + 1, child))
			child++;
		if (!heap_is_later(heap, child, at))
			return;
		heap_swap(heap, at, child);
		at = child;
	}
}

/*
 * Sweeps over sorted lines and emits, piece by piece, the latest line that
 * covers it: at most two pieces for each line.
 */
static int sweep(struct fgt_perfmap *map, const struct map_line *lines,
		 size_t count, struct heap *heap)
{
	uint64_t at = 0;
	size_t next = 0;
	int error = 0;

	while (!error && (next < count || heap->count)) {
		struct map_line piece;

		if (!heap->count)
			at = lines[next].start;
		while (next < count && lines[next].start <= at)
			heap_push(heap, &lines[next++]);
		while (heap->count && heap->items[0]->end <= at)
			heap_pop(heap);
		if (!heap->count)
			continue;
		piece = *heap->items[0];
		piece.start = at;
		if (next < count && lines[next].start < piece.end)
			piece.end = lines[next].start;
		at = piece.end;
		error = add_line(map, &piece);
	}
	return error;
}

static int flatten(struct fgt_perfmap *map)
{
	FGT_AUTO(free) void *lines = NULL;
	FGT_AUTO(free) void *items = NULL;
	struct heap heap = { 0 };
	size_t count = map->count;

	if (!count)
		return 0;
	lines = map->lines;
	map->lines = NULL;
	map->count = map->capacity = 0;
	items = malloc(count * sizeof(*heap.items));
	if (!items)
		return -ENOMEM;
	heap.items = items;
	qsort(lines, count, sizeof(struct map_line), compare_lines);
	return sweep(map, lines, count, &heap);
}

static bool is_current(const struct fgt_perfmap *map, int fd)
{
	struct stat status;

	return !fstat(fd, &status) && status.st_dev == map->status.st_dev &&
	       status.st_ino == map->status.st_ino &&
	       status.st_size == map->status.st_size &&
	       !memcmp(&status.st_mtim, &map->status.st_mtim,
		       sizeof(status.st_mtim));
}

int fgt_perfmap_refresh(int root_fd, int32_t ns_pid, uint32_t uid,
			struct fgt_perfmap **map)
{
	FGT_AUTO(fgt_perfmap_free) struct fgt_perfmap *old = FGT_TAKE(*map);
	FGT_AUTO(fgt_perfmap_free) struct fgt_perfmap *fresh = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int error = open_file(root_fd, ns_pid, uid, &fd);

	if (error)
		return error;
	if (old && is_current(old, fd)) {
		*map = FGT_TAKE(old);
		return 0;
	}
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	error = read_text(fresh, fd);
	if (!error)
		error = parse(fresh);
	if (!error)
		error = flatten(fresh);
	if (error)
		return error;
	*map = FGT_TAKE(fresh);
	return 0;
}

const char *fgt_perfmap_find(const struct fgt_perfmap *map, uint64_t pc)
{
	size_t found =
		FGT_ARRAY_BISECT(at, map->count, map->lines[at].end <= pc);

	if (found == map->count || map->lines[found].start > pc)
		return NULL;
	return map->text + map->lines[found].name;
}

size_t fgt_perfmap_count_bytes(const struct fgt_perfmap *map)
{
	return map->len + map->capacity * sizeof(*map->lines);
}
