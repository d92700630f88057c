/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans and their misuse, for the other files of this room.
 */
#ifndef FGT_AGENT_LIB_SPANS_SPANS_H
#define FGT_AGENT_LIB_SPANS_SPANS_H

#include "agent/lib/spans/journal.h"
#include "agent/lib/spans/task_table.h"

/* ---- Tasks (task.c) ---------------------------------------------------- */

/* Bytes of a name that are kept, 0: the name is invalid. */
size_t fgt_name_len(const char *name);

/*
 * Writes live tasks and spans to the log again, so that their begins are not
 * overwritten. Call it once a second: it does nothing until half of the log has
 * been overwritten. Not on a thread that writes to the log meanwhile.
 */
void fgt_tasks_rewrite(void);

/* ---- Spans (span.c) ---------------------------------------------------- */

/* The innermost active span of the current task, and the track of that task. 0:
 * none. */
uint64_t fgt_span_innermost(const struct fgt_caller *self, uint32_t *ret_track);

/* In the child of a fork. AS-Safe */
void fgt_spans_forked(void);

/* ---- Misuse (misuse.c) ------------------------------------------------- */

/*
 * Counts the error of a call, and logs the first of its kind between start and
 * stop. Returns error. Only errors that the program causes are counted. name:
 * of the span, mark and so on; NULL: unknown. MT-Safe | AS-Unsafe
 */
int fgt_misuse(int error, const char *name);

uint64_t fgt_misuse_count(void);

/* Logs the kinds that came before the start. */
void fgt_misuse_started(void);
/* Each kind may be logged again. MT-Safe | AS-Safe */
void fgt_misuse_stopped(void);

#endif
