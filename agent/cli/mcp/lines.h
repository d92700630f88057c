/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a descriptor, up to a length.
 *
 * MT-Unsafe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_LINES_H
#define FGT_AGENT_CLI_MCP_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "ringbuf/base/owner.h"

#define FGT_MCP_LINE_MAX ((size_t)1 << 20) /* without its newline */

struct fgt_mcp_lines {
	int fd; /* borrowed */
	char *bytes;
	size_t begin, end; /* what was read and not returned yet */
	bool is_skipping; /* to the end of a line that was too long */
	bool is_at_end;
};

/* -ENOMEM. */
int fgt_mcp_lines_init(int fd, struct fgt_mcp_lines *ret_lines);
void fgt_mcp_lines_done(struct fgt_mcp_lines *lines);

/*
 * The next line, valid until the next call: 1. 0: there is none. -EMSGSIZE: it
 * is too long, and the next call returns the one after it; errno of read(2).
 */
int fgt_mcp_lines_next(struct fgt_mcp_lines *lines, char **ret_line,
		       size_t *ret_len);

/* False: there will be no more, or there is no room for more. */
bool fgt_mcp_lines_has_room(const struct fgt_mcp_lines *lines);

/* One read(2): the lines that were returned are not valid any more. */
int fgt_mcp_lines_fill(struct fgt_mcp_lines *lines);

/* Looks at the lines that will be returned; *at is 0 before the first one. */
bool fgt_mcp_lines_peek(const struct fgt_mcp_lines *lines, size_t *at,
			const char **ret_line, size_t *ret_len);

#endif
