/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's log: one line an event on stderr, logfmt or JSON.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_LOOP_LOG_H
#define FGT_AGENT_DAEMON_LOOP_LOG_H

#include <stdint.h>

#include "ringbuf/base/why.h"

enum fgt_log_level {
	FGT_LOG_ERROR,
	FGT_LOG_WARNING,
	FGT_LOG_INFO,
	FGT_LOG_DEBUG,
	FGT_LOG_LEVEL_COUNT
};

/*
 * level: error warning info debug; format: logfmt json; unknown words mean
 * info and logfmt (the configuration has been checked). Any thread, any time.
 */
void fgt_log_set(const char *level, const char *format);

/* Where lines go; 2 by default. For tests. */
void fgt_log_set_fd(int fd);

/*
 * Writes one line: time, level, event (a word of this program), message.
 * Text from outside is escaped. At most 50 lines of an event at once and 10
 * a second after that; what was left out is counted on the next line. Never
 * waits for a reader of stderr: a line that finds no room is left out too.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_log(enum fgt_log_level level, const char *event, const char *format,
	     ...) FGT_PRINTF(3, 4);

#endif
