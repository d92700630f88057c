/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools that a client may call: each is a verb that only reads.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_TOOLS_H
#define FGT_AGENT_CLI_MCP_TOOLS_H

#include "agent/cli/mcp/message.h"
#include "ringbuf/base/json.h"

struct fgt_mcp_argument {
	const char *name;
	enum fgt_mcp_type type; /* FGT_MCP_TEXT, _NUMBER or _SWITCH */
	const char *flag; /* of the verb; NULL: an operand, a .fgt file */
	const char *description;
};

struct fgt_mcp_tool {
	const char *name, *title, *description;
	const char *verb;
	const char *
		flag; /* that the verb gets if no argument has it; NULL: none */
	const struct fgt_mcp_argument
		*arguments; /* ended by one without name */
};

/* Ended by one without a name. */
extern const struct fgt_mcp_tool fgt_mcp_tools[];

/* What a model should know before it calls one. */
extern const char fgt_mcp_instructions[];

/* NULL: there is none of that name. */
const struct fgt_mcp_tool *fgt_mcp_tool_find(const char *name);

/* The array "tools" of tools/list, in an open object. */
void fgt_mcp_tools_put(struct fgt_json *json);

#endif
