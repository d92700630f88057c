/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a descriptor. Runs in the main thread; memory does not grow with a
 * line.
 */
#include "agent/cli/mcp/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (FGT_MCP_LINE_MAX + 1)

int fgt_mcp_lines_init(int fd, struct fgt_mcp_lines *ret_lines)
{
	char *bytes = malloc(BUFFER_BYTES);

	if (!bytes)
		return -ENOMEM;
	*ret_lines = (struct fgt_mcp_lines){ .fd = fd, .bytes = bytes };
	return 0;
}

void fgt_mcp_lines_done(struct fgt_mcp_lines *lines)
{
	free(FGT_TAKE(lines->bytes));
}

bool fgt_mcp_lines_has_room(const struct fgt_mcp_lines *lines)
{
	return !lines->is_at_end && lines->end - lines->begin < BUFFER_BYTES;
}

/* Behind the bytes that are left, which move to the front. */
int fgt_mcp_lines_fill(struct fgt_mcp_lines *lines)
{
	size_t len = lines->end - lines->begin;
	ssize_t n;

	memmove(lines->bytes, lines->bytes + lines->begin, len);
	lines->begin = 0;
	lines->end = len;
	do
		n = read(lines->fd, lines->bytes + len, BUFFER_BYTES - len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	lines->is_at_end = n == 0;
	lines->end += (size_t)n;
	return 0;
}

bool fgt_mcp_lines_peek(const struct fgt_mcp_lines *lines, size_t *at,
			const char **ret_line, size_t *ret_len)
{
	const char *line = lines->bytes + lines->begin + *at;
	const char *newline =
		memchr(line, '\n', lines->end - lines->begin - *at);

	if (!newline)
		return false;
	*ret_line = line;
	*ret_len = (size_t)(newline - line);
	*at += *ret_len + 1;
	return true;
}

/* Up to a newline, or up to the end of the file. False: there is no such end
 * yet. */
static bool take(struct fgt_mcp_lines *lines, char **ret_line, size_t *ret_len)
{
	char *line = lines->bytes + lines->begin;
	size_t len = lines->end - lines->begin;
	char *newline = memchr(line, '\n', len);

	if (!newline && (!lines->is_at_end || len == 0))
		return false;
	*ret_line = line;
	*ret_len = newline ? (size_t)(newline - line) : len;
	lines->begin += *ret_len + (newline ? 1 : 0);
	return true;
}

int fgt_mcp_lines_next(struct fgt_mcp_lines *lines, char **ret_line,
		       size_t *ret_len)
{
	bool was_skipping;
	int r = 0;

	while (r == 0) {
		if (take(lines, ret_line, ret_len)) {
			if (!lines->is_skipping)
				return 1;
			lines->is_skipping = false;
			continue;
		}
		if (lines->is_at_end)
			return 0;
		if (lines->end - lines->begin == BUFFER_BYTES) {
			was_skipping = lines->is_skipping;
			lines->is_skipping = true;
			lines->begin = lines->end;
			if (!was_skipping)
				return -EMSGSIZE;
		}
		r = fgt_mcp_lines_fill(lines);
	}
	return r;
}
