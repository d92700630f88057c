/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a verb of this program as a child, with the rights of this process, up
 * to a time and a size.
 *
 * MT-Unsafe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_RUN_VERB_H
#define FGT_AGENT_CLI_MCP_RUN_VERB_H

#include <stdbool.h>

#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

#define FGT_MCP_JSON_PATH "/proc/self/fd/3" /* where the verb writes its JSON */

/* What may end a verb early; looked at when fd can be read. */
struct fgt_mcp_stop {
	bool (*is_asked)(void *context, int *fd); /* fd -1: look no more */
	void *context;
	int fd;
};

struct fgt_mcp_output {
	struct fgt_memory_sink text; /* standard output and error */
	struct fgt_memory_sink json;
	int status; /* of exit, or 128 + signal */
};

/*
 * The whole output; if the verb failed, its text is the error. -ETIMEDOUT,
 * -EMSGSIZE, -EREMOTEIO: it failed without a text; -ECANCELED: by stop, without
 * why; errno of fork(2).
 * fgt_mcp_output_done() in any case.
 */
int fgt_mcp_run_verb(char *const words[], struct fgt_mcp_stop stop,
		     struct fgt_mcp_output *ret_output, struct fgt_why *why);

void fgt_mcp_output_done(struct fgt_mcp_output *output);
static inline void fgt_mcp_output_done_auto(struct fgt_mcp_output *output)
{
	fgt_mcp_output_done(output);
}

#endif
