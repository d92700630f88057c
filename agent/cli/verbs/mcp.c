/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent mcp: what is recorded, for programs that speak the Model
 * Context Protocol. It only reads, with the rights of its user.
 */
#include <errno.h>
#include <unistd.h>

#include "agent/cli/complaint.h"
#include "agent/cli/mcp/mcp.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"

#define NAME fgt_verb_mcp.name

static const struct fgt_option options[] = {
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

static int run(const struct fgt_arguments *arguments)
{
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_why why = { "" };
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 &why);

	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	if (isatty(STDIN_FILENO))
		fgt_note(NAME, "waiting for JSON-RPC on standard input, one "
			       "object a line; ^D ends it");
	r = fgt_mcp_serve(STDIN_FILENO, STDOUT_FILENO, socket_path);
	if (r < 0 && r != -EPIPE)
		return fgt_complain(NAME, FGT_EXIT_FAILURE,
				    "cannot go on: %s; start it again",
				    fgt_error_text(r));
	return r < 0 ? FGT_EXIT_FAILURE : FGT_EXIT_OK; /* the client left */
}

const struct fgt_verb fgt_verb_mcp = {
	.name = "mcp",
	.synopsis = "[--socket PATH]",
	.summary = "answer an assistant's questions (Model Context Protocol)",
	.options = options,
	.run = run,
	.help = "A server on standard input and output, which the client "
		"starts: revisions\n2024-11-05 to 2025-11-25, and 2026-07-28. "
		"Its tools are targets, threads,\nsummary, why, stacks and "
		"diff. They only read, with your rights: what you may\ntrace, "
		"and the .fgt files that the client names. An answer takes at "
		"most 30 s\nand 1 MiB.\n"
		"\nExamples:\n"
		"  claude mcp add fgtrace -- fgtrace-agent mcp\n"
		"  {\"mcpServers\": {\"fgtrace\": {\"command\": "
		"\"fgtrace-agent\", \"args\": [\"mcp\"]}}}\n",
};
