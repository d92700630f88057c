/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the Model Context Protocol on two descriptors: one JSON object a
 * line. https://modelcontextprotocol.io/specification, revision 2025-11-25 and
 * older ones, whose clients begin with "initialize", and 2026-07-28, in which
 * each request has its version; clients of both kinds may take turns.
 *
 * MT-Unsafe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_MCP_H
#define FGT_AGENT_CLI_MCP_MCP_H

/*
 * Answers each request, in their order, until the input ends: 0. errno of
 * read(2) and write(2), -ENOMEM. socket_path: the daemon's, for the verbs.
 */
int fgt_mcp_serve(int in_fd, int out_fd, const char *socket_path);

#endif
