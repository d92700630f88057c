/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent version.
 */
#include <stdio.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/protocol/protocol.h"
#include "ringbuf/slice/slice_codec.h"

static const struct fgt_option options[] = {
	{ "json", 0, NULL, "print JSON", NULL },
	{ .name = NULL },
};

static int run(const struct fgt_arguments *arguments)
{
	if (fgt_options_has(arguments, "json"))
		printf("{\"version\":\"%s\",\"protocol\":%d,\"slice\":%d}\n",
		       FGT_VERSION, FGT_PROTOCOL_VERSION, FGT_SLICE_VERSION);
	else
		printf("fgtrace-agent %s (protocol %d, .fgt version %d)\n",
		       FGT_VERSION, FGT_PROTOCOL_VERSION, FGT_SLICE_VERSION);
	return fgt_finish_stdout(arguments->verb->name);
}

const struct fgt_verb fgt_verb_version = {
	.name = "version",
	.synopsis = "[--json]",
	.summary = "which release this is",
	.options = options,
	.run = run,
	.help = "Example:\n  fgtrace-agent version\n",
};
