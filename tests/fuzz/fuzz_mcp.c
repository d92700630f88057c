/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a line of a client: what is no tool's call is answered, and the
 * arguments of one become words, none of which is run.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/cli/mcp/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* A file must be behind "--", a text behind the '=' of its flag. */
static void check(const struct fgt_mcp_command *command)
{
	for (int i = 0; i < command->count; i++) {
		if (strncmp(command->words[i], "--output", 8) == 0)
			abort();
		if (strcmp(command->words[i], "--") == 0)
			return;
	}
	abort();
}

static void call(const struct fgt_mcp_request *request)
{
	struct json_t *arguments =
		fgt_mcp_get(request->params, "arguments").object;

	for (const struct fgt_mcp_tool *tool = fgt_mcp_tools; tool->name;
	     tool++) {
		struct fgt_mcp_command command;
		struct fgt_why why = { "" };

		if (fgt_mcp_command_make(tool, arguments, "/s", "/j", &command,
					 &why) == 0) {
			check(&command);
			fgt_mcp_command_done(&command);
		} else if (!why.text[0]) {
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	FGT_AUTO(fgt_mcp_message_free) struct json_t *message = NULL;
	struct fgt_mcp_request request;
	struct fgt_why why = { "" };

	if (fgt_mcp_message_parse((const char *)bytes, len, &message, &why) <
	    0) {
		if (!why.text[0])
			abort();
		return 0;
	}
	if (fgt_mcp_request_read(message, &request, &why) == FGT_MCP_OK)
		call(&request);
	else if (!why.text[0])
		abort();
	if (request.id)
		free(fgt_mcp_json_of(request.id));
	return 0;
}
