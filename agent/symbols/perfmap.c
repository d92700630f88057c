/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads perf maps. Runs in the daemon; must not block on what is not a file,
 * follow a link, or read what another user put there.
 */
#include "agent/symbols/perfmap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/files/open_file.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/strings.h"

#define READ_MAX_NS 2000000000ull
#define NO_LINE	    UINT32_MAX

struct map_line {
	uint64_t start, end;
	uint32_t name; /* offset in text */
};

/* Once flattened: sorted by start, none overlaps another. */
struct fgt_perfmap {
	char *text; /* the file; names are NUL-terminated in it */
	size_t len;
	struct map_line *lines;
	size_t count, capacity;
	struct fgt_file_version version;
};

/* The part of memory from one start or end of a line to the next one. */
struct memory_part {
	uint64_t start;
	uint32_t line; /* that covers it; NO_LINE: none yet */
	uint32_t next; /* the part itself if it has no line; else a later one,
			* before which all have one */
};

void fgt_perfmap_free(struct fgt_perfmap *map)
{
	if (!map)
		return;
	free(map->text);
	free(map->lines);
	free(map);
}

/* Its bytes, unless they are those of the known version. */
static int open_file(int root_fd, int32_t ns_pid, uint32_t uid,
		     const struct fgt_file_version *known,
		     struct fgt_opened_file *ret_file)
{
	char path[64];
	const struct fgt_open_request request = {
		.place = FGT_OPEN_BELOW,
		.dir_fd = root_fd,
		.path = path,
		.is_link_refused = true,
		.is_copied = true,
		.uid = uid,
		.is_of_user = true,
		.size_max = FGT_PERFMAP_BYTES_MAX,
		.known = known,
	};

	snprintf(path, sizeof(path), "/tmp/perf-%" PRId32 ".map", ns_pid);
	return fgt_file_open(&request, ret_file);
}

/* Reads as much as the file had at first; it may shrink during the read. */
static int read_text(struct fgt_perfmap *map,
		     const struct fgt_opened_file *file)
{
	uint64_t deadline_ns = fgt_clock_ns(CLOCK_MONOTONIC) + READ_MAX_NS;
	size_t size = (size_t)file->status.st_size;

	fgt_file_version_of(&file->status, &map->version);
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
		got = pread(file->fd, map->text + map->len, step,
			    (off_t)map->len);
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

/* One to sixteen hexadecimal digits, "0x" allowed, and a blank after them. The
 * text ends with NUL. */
static const char *parse_hex(const char *at, uint64_t *ret)
{
	size_t digits;

	if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	digits = strspn(at, "0123456789abcdefABCDEF");
	if (digits < 1 || digits > 16 || at[digits] != ' ')
		return NULL;
	*ret = strtoull(at, NULL, 16);
	return at + digits + 1;
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

static int parse_line(struct fgt_perfmap *map, char *start, char *end)
{
	struct map_line line;
	uint64_t size;
	const char *at = parse_hex(start, &line.start);

	if (at)
		at = parse_hex(at, &size);
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

	for (size_t i = 0; i < FGT_PERFMAP_LINES_MAX && at < end && !error;
	     i++) {
		char *newline = memchr(at, '\n', (size_t)(end - at));

		if (!newline)
			newline = end;
		error = parse_line(map, at, newline);
		at = newline + 1;
	}
	return error;
}

static int compare_starts(const void *left, const void *right)
{
	const struct memory_part *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

/* The parts of memory, in order, none of which has a line yet. */
static void list_parts(const struct map_line *lines, size_t line_count,
		       struct memory_part *parts)
{
	const size_t count = 2 * line_count;

	for (size_t i = 0; i < line_count; i++) {
		parts[2 * i].start = lines[i].start;
		parts[2 * i + 1].start = lines[i].end;
	}
	FGT_ARRAY_SORT(parts, count, compare_starts);
	for (uint32_t i = 0; i < count; i++) {
		parts[i].line = NO_LINE;
		parts[i].next = i;
	}
}

/* The first part from at on without a line. */
static uint32_t skip_covered(struct memory_part *parts, uint32_t at)
{
	while (parts[at].next != at) {
		/* Halves the way for the next time. */
		parts[at].next = parts[parts[at].next].next;
		at = parts[at].next;
	}
	return at;
}

/* Gives the lines their parts, the later ones first. The last part begins at
 * the highest end: no line covers it. */
static void cover_parts(const struct map_line *lines, size_t line_count,
			struct memory_part *parts)
{
	for (size_t i = line_count; i > 0; i--) {
		const struct map_line *line = &lines[i - 1];
		uint32_t at = (uint32_t)FGT_ARRAY_BISECT(
			part, 2 * line_count, parts[part].start < line->start);

		at = skip_covered(parts, at);
		while (parts[at].start < line->end) {
			parts[at].line = (uint32_t)i - 1;
			parts[at].next = at + 1;
			at = skip_covered(parts, at);
		}
	}
}

/* Appends a piece, to the piece before it if that is of the same line. */
static int add_piece(struct fgt_perfmap *map, const struct map_line *piece)
{
	struct map_line *last = map->count ? &map->lines[map->count - 1] : NULL;

	if (!last || last->name != piece->name || last->end != piece->start)
		return add_line(map, piece);
	last->end = piece->end;
	return 0;
}

/* Replaces the lines by pieces of them that do not overlap. */
static int flatten(struct fgt_perfmap *map)
{
	struct map_line *lines = map->lines;
	const size_t line_count = map->count;
	struct memory_part *parts;
	int error = 0;

	if (!FGT_ARRAY_NEW(parts, 2 * line_count))
		return -ENOMEM;
	list_parts(lines, line_count, parts);
	cover_parts(lines, line_count, parts);
	map->lines = NULL;
	map->count = map->capacity = 0;
	for (size_t i = 0; i + 1 < 2 * line_count && !error; i++) {
		struct map_line piece = { .start = parts[i].start,
					  .end = parts[i + 1].start };

		if (parts[i].line == NO_LINE || piece.start == piece.end)
			continue;
		piece.name = lines[parts[i].line].name;
		error = add_piece(map, &piece);
	}
	free(parts);
	free(lines);
	return error;
}

static int read_map(const struct fgt_opened_file *file,
		    struct fgt_perfmap **ret_map)
{
	FGT_AUTO(fgt_perfmap_free)
	struct fgt_perfmap *map = calloc(1, sizeof(*map));
	int error;

	if (!map)
		return -ENOMEM;
	error = read_text(map, file);
	if (!error)
		error = parse(map);
	if (!error)
		error = flatten(map);
	if (error)
		return error;
	*ret_map = FGT_TAKE(map);
	return 0;
}

int fgt_perfmap_refresh(int root_fd, int32_t ns_pid, uint32_t uid,
			struct fgt_perfmap **map)
{
	FGT_AUTO(fgt_perfmap_free) struct fgt_perfmap *old = FGT_TAKE(*map);
	struct fgt_opened_file file;
	int error = open_file(root_fd, ns_pid, uid, old ? &old->version : NULL,
			      &file);

	if (error == -EALREADY) {
		*map = FGT_TAKE(old);
		return 0;
	}
	if (error)
		return error;
	error = read_map(&file, map);
	fgt_fd_close(file.fd);
	return error;
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
