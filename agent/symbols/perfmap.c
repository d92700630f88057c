/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf maps of JIT compilers. Runs where slices are resolved; must not block
 * on a FIFO, follow a link or trust a count.
 */
#include "agent/symbols/perfmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FILE_MAX_BYTES (64u << 20)
#define LINES_MAX      1000000u
#define NAME_MAX_BYTES 4096u

struct entry {
	uint64_t start, end;
	uint32_t name; /* offset into text */
	uint32_t order; /* line number: later wins */
};

struct fgt_perfmap {
	char *text; /* the file; lines' ends replaced by NUL */
	struct entry *entries;
	size_t count;
};

void fgt_perfmap_free(struct fgt_perfmap *map)
{
	if (!map)
		return;
	free(map->text);
	free(map->entries);
	free(map);
}

static int by_start(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Hex digits without sign or prefix; returns what follows, NULL if bad. */
static const char *parse_hex(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	int digits = 0;

	for (; digits < 17; text++, digits++) {
		int digit;

		if (*text >= '0' && *text <= '9')
			digit = *text - '0';
		else if ((*text | 32) >= 'a' && (*text | 32) <= 'f')
			digit = (*text | 32) - 'a' + 10;
		else
			break;
		value = value << 4 | (unsigned int)digit;
	}
	if (digits == 0 || digits > 16)
		return NULL;
	*ret_value = value;
	return text;
}

/* "START SIZE name": both hex, some writers prefix 0x. */
static bool parse_line(struct fgt_perfmap *map, char *line, uint32_t order)
{
	struct entry *entry = &map->entries[map->count];
	const char *at = line;
	uint64_t size;

	if (!strncmp(at, "0x", 2))
		at += 2;
	at = parse_hex(at, &entry->start);
	if (!at || *at++ != ' ')
		return false;
	if (!strncmp(at, "0x", 2))
		at += 2;
	at = parse_hex(at, &size);
	if (!at || *at++ != ' ' || !*at || size == 0 ||
	    __builtin_add_overflow(entry->start, size, &entry->end))
		return false;
	entry->name = (uint32_t)(at - map->text);
	entry->order = order;
	if (strlen(at) > NAME_MAX_BYTES)
		map->text[entry->name + NAME_MAX_BYTES] = '\0';
	map->count++;
	return true;
}

static size_t count_lines(const char *text, size_t len)
{
	size_t lines = 1;

	for (size_t i = 0; i < len && lines < LINES_MAX; i++)
		lines += text[i] == '\n';
	return lines;
}

/* Later entries cut what earlier ones claim, so that bsearch finds one. */
static void settle_overlaps(struct fgt_perfmap *map)
{
	size_t kept = 0;

	qsort(map->entries, map->count, sizeof(*map->entries), by_start);
	for (size_t i = 0; i < map->count; i++) {
		struct entry entry = map->entries[i];

		while (kept && map->entries[kept - 1].end > entry.start) {
			struct entry *last = &map->entries[kept - 1];

			if (last->order > entry.order) {
				entry.start = last->end;
				break;
			}
			last->end = entry.start;
			if (last->start >= last->end)
				kept--;
		}
		if (entry.start < entry.end)
			map->entries[kept++] = entry;
	}
	map->count = kept;
}

int fgt_perfmap_parse(const char *text, size_t len,
		      struct fgt_perfmap **ret_map)
{
	FGT_AUTO(fgt_perfmap_free) struct fgt_perfmap *map = NULL;
	size_t lines = count_lines(text, len);
	uint32_t order = 0;
	char *line;

	if (len > FILE_MAX_BYTES)
		return -EFBIG;
	map = calloc(1, sizeof(*map));
	if (!map)
		return -ENOMEM;
	map->text = malloc(len + 1);
	map->entries = calloc(lines, sizeof(*map->entries));
	if (!map->text || !map->entries)
		return -ENOMEM;
	memcpy(map->text, text, len);
	map->text[len] = '\0';
	line = map->text;
	while (line && order < lines) {
		char *end =
			memchr(line, '\n', (size_t)(map->text + len - line));

		if (end)
			*end = '\0';
		parse_line(map, line, order++);
		line = end ? end + 1 : NULL;
	}
	settle_overlaps(map);
	*ret_map = FGT_TAKE(map);
	return 0;
}

static int open_map(int root_fd, const char *path, uint32_t uid, int *ret_fd,
		    size_t *ret_size)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_SYMLINKS,
	};
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct stat status;

	fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_uid != uid && status.st_uid != 0)
		return -EPERM;
	if (status.st_size > (off_t)FILE_MAX_BYTES)
		return -EFBIG;
	*ret_size = (size_t)status.st_size;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

int fgt_perfmap_read(int root_fd, int32_t pid, uint32_t uid,
		     struct fgt_perfmap **ret_map)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	FGT_AUTO(free) void *text = NULL;
	size_t size = 0, len = 0;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	r = open_map(root_fd, path, uid, &fd, &size);
	if (r < 0)
		return r;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	while (len < size) {
		ssize_t got = read(fd, (char *)text + len, size - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break; /* it shrank: what is there counts */
		len += (size_t)got;
	}
	return fgt_perfmap_parse(text, len, ret_map);
}

const char *fgt_perfmap_find(const struct fgt_perfmap *map, uint64_t address)
{
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map->entries[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || map->entries[low - 1].end <= address)
		return NULL;
	return map->text + map->entries[low - 1].name;
}
