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

static int digit_value(char c, unsigned int base)
{
	unsigned int value;

	if (c >= '0' && c <= '9')
		value = (unsigned int)(c - '0');
	else if (c >= 'a' && c <= 'f')
		value = (unsigned int)(c - 'a') + 10;
	else
		return -EINVAL;
	return value < base ? (int)value : -EINVAL;
}

/* A number, and the character behind it, unless the line ends there. */
static int read_number(struct maps_cursor *text, unsigned int base,
		       char follower, uint64_t *ret_value)
{
	const char *first = text->at;
	uint64_t value = 0;
	int digit;

	for (; text->at < text->end; text->at++) {
		digit = digit_value(*text->at, base);
		if (digit < 0)
			break;
		if (value > (UINT64_MAX - (unsigned int)digit) / base)
			return -EBADMSG;
		value = value * base + (unsigned int)digit;
	}
	if (text->at == first)
		return -EBADMSG;
	if (text->at < text->end && *text->at++ != follower)
		return -EBADMSG;
	*ret_value = value;
	return 0;
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

int fgt_maps_line_parse(const char *line, size_t len,
			struct fgt_maps_line *ret_line)
{
	struct maps_cursor text = { .at = line, .end = line + len };
	/* A name is long where there is one: most mappings have none. */
	const size_t head_bytes = offsetof(struct fgt_maps_line, path);
	struct fgt_maps_line parsed;
	uint64_t major, minor;

	memset(&parsed, 0, head_bytes);
	if (read_number(&text, 16, '-', &parsed.start) < 0 ||
	    read_number(&text, 16, ' ', &parsed.end) < 0 ||
	    read_flags(&text, &parsed) < 0 ||
	    read_number(&text, 16, ' ', &parsed.offset) < 0 ||
	    read_number(&text, 16, ':', &major) < 0 ||
	    read_number(&text, 16, ' ', &minor) < 0 ||
	    read_number(&text, 10, ' ', &parsed.ino) < 0 ||
	    parsed.start >= parsed.end)
		return -EBADMSG;
	parsed.dev = makedev((unsigned int)major, (unsigned int)minor);
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
