/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, for the other files of this room.
 */
#ifndef FGT_AGENT_LIB_SPANS_TASK_H
#define FGT_AGENT_LIB_SPANS_TASK_H

#include "agent/lib/spans/journal.h"
#include "agent/lib/spans/task_table.h"

/* Bytes of a name that are kept, 0: the name is invalid. */
size_t fgt_name_len(const char *name);

/*
 * Writes live tasks and spans to the log again, so that their begins are not
 * overwritten. Call it once a second: it does nothing until half of the log has
 * been overwritten. Not on a thread that writes to the log meanwhile.
 */
void fgt_tasks_rewrite(void);

#endif
