/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside inside JSON strings: always one line, always UTF-8.
 */
#ifndef FGT_AGENT_DAEMON_ESCAPE_H
#define FGT_AGENT_DAEMON_ESCAPE_H

#include <stddef.h>

#include "ringbuf/sink.h"

/*
 * Writes text[len] as a JSON string, quotes included. Control characters are
 * escaped, bytes that are not UTF-8 become U+FFFD. Errors: the sink's.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_escape_json(const struct fgt_sink *sink, const char *text, size_t len);

#endif
