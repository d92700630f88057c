/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a tool as those of its verb. No value of a client becomes a
 * flag: each is behind the '=' of a flag of the table, or a file behind "--".
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_COMMAND_H
#define FGT_AGENT_CLI_MCP_COMMAND_H

#include "agent/cli/mcp/tools.h"

#define FGT_MCP_WORDS_MAX 32 /* flags and files of one command */

struct fgt_mcp_command {
	char *words[FGT_MCP_WORDS_MAX + 1]; /* of argv; ended by NULL */
	int count;
};

/*
 * arguments: an object, or NULL. json_path: where the verb writes its JSON.
 * -EINVAL: an argument that the tool has not, or of another type, with why;
 * -ENOMEM.
 */
int fgt_mcp_command_make(const struct fgt_mcp_tool *tool,
			 struct json_t *arguments, const char *socket_path,
			 const char *json_path,
			 struct fgt_mcp_command *ret_command,
			 struct fgt_why *why);

void fgt_mcp_command_done(struct fgt_mcp_command *command);
static inline void fgt_mcp_command_done_auto(struct fgt_mcp_command *command)
{
	fgt_mcp_command_done(command);
}

#endif
