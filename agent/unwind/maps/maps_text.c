/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of /proc/PID/maps lines (proc(5)). Runs in any thread on bytes in
 * memory; must not read past the line.
 */
#include "agent/unwind/maps/maps_open.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

static const char deleted_suffix[] = " (deleted)";

struct maps_cursor {
	const char *at, *end;
};

/* Behind a number, which ends at at, and the character that follows it
 * unless the line ends there. */
static int end_number(struct maps_cursor *text, const char *at, char follower)
{
	if (at == text->at || (at < text->end && *at != follower))
		return -EBADMSG;
	text->at = at < text->end ? at + 1 : at;
	return 0;
}

/* Most of the work on a line: a process of 1000 threads has 2000 lines. */
static int read_hex(struct maps_cursor *text, char follower,
		    uint64_t *ret_value)
{
	const char *at = text->at, *end = text->end;
	uint64_t value = 0;

	for (; at < end; at++) {
		unsigned int digit = (unsigned int)(*at - '0');

		if (digit > 9) {
			digit = (unsigned int)(*at - 'a');
			if (digit > 5)
				break;
			digit += 10;
		}
		if (value >> 60)
			return -EBADMSG;
		value = value << 4 | digit;
	}
	*ret_value = value;
	return end_number(text, at, follower);
}

static int read_decimal(struct maps_cursor *text, char follower,
			uint64_t *ret_value)
{
	const char *at = text->at;
	uint64_t value = 0;

	for (; at < text->end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *at - '0', &value))
			return -EBADMSG;
	*ret_value = value;
	return end_number(text, at, follower);
}

static int read_flags(struct maps_cursor *text, struct fgt_maps_line *line)
{
	const char *flags = text->at;

	if (text->end - text->at < 5 || flags[4] != ' ')
		return -EBADMSG;
	line->is_readable = flags[0] == 'r';
	line->is_writable = flags[1] == 'w';
	line->is_executable = flags[2] == 'x';
	text->at += 5;
	return 0;
}

/* The kernel writes a newline in a name as \012, and nothing else so. */
static size_t unescape(const char *from, size_t len, char *to, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < len; i++, at++) {
		if (at == size)
			return size + 1;
		if (len - i >= 4 && !memcmp(from + i, "\\012", 4)) {
			to[at] = '\n';
			i += 3;
		} else {
			to[at] = from[i];
		}
	}
	return at;
}

static void read_path(struct maps_cursor *text, struct fgt_maps_line *line)
{
	const size_t suffix_len = sizeof(deleted_suffix) - 1;
	size_t len;

	while (text->at < text->end && *text->at == ' ')
		text->at++;
	len = (size_t)(text->end - text->at);
	/* A file that is really named so looks the same here: the code
	 * that opens it verifies the inode. */
	if (len > suffix_len &&
	    !memcmp(text->end - suffix_len, deleted_suffix, suffix_len)) {
		line->is_deleted = true;
		len -= suffix_len;
	}
	len = unescape(text->at, len, line->path, sizeof(line->path) - 1);
	line->is_path_cut = len >= sizeof(line->path);
	line->path[line->is_path_cut ? 0 : len] = 0;
}

/* Offset, device and inode; most mappings, the stacks of threads, have none. */
static int read_place(struct maps_cursor *text, struct fgt_maps_line *line)
{
	static const char none[] = "00000000 00:00 0 ";
	const size_t none_len = sizeof(none) - 1;
	uint64_t major, minor;

	if ((size_t)(text->end - text->at) >= none_len &&
	    !memcmp(text->at, none, none_len)) {
		text->at += none_len;
		return 0;
	}
	if (read_hex(text, ' ', &line->offset) < 0 ||
	    read_hex(text, ':', &major) < 0 ||
	    read_hex(text, ' ', &minor) < 0 ||
	    read_decimal(text, ' ', &line->ino) < 0)
		return -EBADMSG;
	line->dev = makedev((unsigned int)major, (unsigned int)minor);
	return 0;
}

int fgt_maps_line_parse(const char *line, size_t len,
			struct fgt_maps_line *ret_line)
{
	struct maps_cursor text = { .at = line, .end = line + len };
	/* A name is long where there is one: most mappings have none. */
	const size_t head_bytes = offsetof(struct fgt_maps_line, path);
	struct fgt_maps_line parsed;

	memset(&parsed, 0, head_bytes);
	if (read_hex(&text, '-', &parsed.start) < 0 ||
	    read_hex(&text, ' ', &parsed.end) < 0 ||
	    read_flags(&text, &parsed) < 0 || read_place(&text, &parsed) < 0 ||
	    parsed.start >= parsed.end)
		return -EBADMSG;
	memcpy(ret_line, &parsed, head_bytes);
	read_path(&text, ret_line);
	return 0;
}

bool fgt_maps_line_is_context(const struct fgt_maps_line *line)
{
	static const char *const names[] = { "/memfd:OTEL_CTX",
					     "[anon_shmem:OTEL_CTX]",
					     "[anon:OTEL_CTX]" };

	/* Two letters exclude nearly all lines of all targets' maps. */
	if (line->is_executable || !line->is_readable || !line->path[0] ||
	    (line->path[1] != 'm' && line->path[1] != 'a'))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(line->path, names[i], strlen(names[i])))
			return true;
	return false;
}
