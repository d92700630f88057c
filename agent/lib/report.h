/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the program's log call: kept until the worker, or a start that
 * fails, passes them on. Each cause once.
 */
#ifndef FGT_AGENT_LIB_REPORT_H
#define FGT_AGENT_LIB_REPORT_H

#include <stdbool.h>

#include "agent/lib/fgtrace.h"
#include "ringbuf/base/why.h"

/*
 * Keeps a line for the log call. The cause is the format: the same format is
 * logged once, with any arguments. Dropped if 16 lines wait.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_report(const char *format, ...) FGT_PRINTF(1, 2);

/* The same, but logged each time: for what continues. The caller limits the
 * rate. False: the line was dropped. */
bool fgt_report_each(const char *format, ...) FGT_PRINTF(1, 2);

/* The line itself is the cause. context: not used. */
void fgt_report_line(void *context, const char *line);

/* On the worker, or the thread that replaces it: passes the lines to the log
 * call. Does nothing while another thread does so. */
void fgt_report_all(const struct fgt_options *options);

/* Logs nothing until the next start. Waits for a log call that is under way, at
 * most a second (that call may wait for this thread). */
void fgt_report_mute(void);

/* At the end of a recording: forgets its lines. */
void fgt_report_reset(void);
/* At a start: logs again, also what was kept since that end; forgets causes. */
void fgt_report_unmute(void);
/* In the child of a fork, where no thread holds the lock. */
void fgt_report_forked(void);

#endif
