/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and spans used wrongly: counted, told once for each kind from one
 * start to the next stop.
 */
#ifndef FGT_AGENT_LIB_SPANS_MISUSE_H
#define FGT_AGENT_LIB_SPANS_MISUSE_H

#include <stdint.h>

/* Returns error; those that are none of the program's faults are not counted.
 * name: of what was to begin or to be said; NULL: it is not known.
 * MT-Safe | AS-Unsafe */
int fgt_misuse(int error, const char *name);

uint64_t fgt_misuse_count(void);

/* The log can be told now, also of what came before. */
void fgt_misuse_started(void);
/* Who starts next is told anew. MT-Safe | AS-Safe */
void fgt_misuse_stopped(void);

#endif
