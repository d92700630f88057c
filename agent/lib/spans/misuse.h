/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misuse of tasks and spans: counted, and logged once for each kind between
 * start and stop.
 */
#ifndef FGT_AGENT_LIB_SPANS_MISUSE_H
#define FGT_AGENT_LIB_SPANS_MISUSE_H

#include <stdint.h>

/* Returns error. Only errors that the program causes are counted. name: of the
 * span, mark and so on; NULL: unknown. MT-Safe | AS-Unsafe */
int fgt_misuse(int error, const char *name);

uint64_t fgt_misuse_count(void);

/* Logs the kinds that came before the start. */
void fgt_misuse_started(void);
/* Each kind may be logged again. MT-Safe | AS-Safe */
void fgt_misuse_stopped(void);

#endif
