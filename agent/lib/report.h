/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the program's log call: kept here until the worker hands them
 * over, or a start that fails, each cause once.
 */
#ifndef FGT_AGENT_LIB_REPORT_H
#define FGT_AGENT_LIB_REPORT_H

#include <stdbool.h>

#include "agent/lib/fgtrace.h"
#include "ringbuf/base/why.h"

/*
 * Keeps a line for the log call. The cause is the format itself: the same
 * format again is not told, whatever its arguments. Dropped when 16 lines wait.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_report(const char *format, ...) FGT_PRINTF(1, 2);

/* The same, but told each time: of what goes on, by callers who see to it that
 * it is seldom. False: it is not kept, and will not be told. */
bool fgt_report_each(const char *format, ...) FGT_PRINTF(1, 2);

/* As fgt_backend_options.log: the line itself is the cause. */
void fgt_report_line(void *context, const char *line);

/* Worker, or who stands in for it: hands over what is kept; nothing while
 * another thread is about it. */
void fgt_report_all(const struct fgt_options *options);

/* Tells nothing more until the next start. Waits for a call of the program's
 * log that is under way, at most a second (it may wait for us). */
void fgt_report_mute(void);

/* Forgets what is kept and what has been told: of a new start. */
void fgt_report_reset(void);
/* In the child of a fork, where nobody holds the lock any more. */
void fgt_report_forked(void);

#endif
