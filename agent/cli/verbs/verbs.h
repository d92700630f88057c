/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of fgtrace-agent: a file for each, a table of them in main.c.
 */
#ifndef FGT_AGENT_CLI_VERBS_VERBS_H
#define FGT_AGENT_CLI_VERBS_VERBS_H

#include "agent/cli/verb.h"

extern const struct fgt_verb fgt_verb_attach, fgt_verb_config, fgt_verb_convert,
	fgt_verb_daemon, fgt_verb_detach, fgt_verb_diff, fgt_verb_record,
	fgt_verb_slice, fgt_verb_mcp, fgt_verb_metrics, fgt_verb_spool,
	fgt_verb_stacks, fgt_verb_status, fgt_verb_tail, fgt_verb_targets,
	fgt_verb_triggers, fgt_verb_version, fgt_verb_why;

#endif
