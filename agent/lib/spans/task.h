/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, for the other files of the library.
 */
#ifndef FGT_AGENT_LIB_SPANS_TASK_H
#define FGT_AGENT_LIB_SPANS_TASK_H

#include "agent/lib/spans/journal.h"
#include "agent/lib/spans/task_table.h"

/* Bytes of a name that can be kept, 0: it is none. */
size_t fgt_name_len(const char *name);

/*
 * Tells the log again what lives, so that it does not forget what has begun
 * long ago; to be called now and then, does nothing until half of the log has
 * been overwritten. Not on a thread that says something meanwhile.
 */
void fgt_tasks_retell(void);

#endif
