/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and spans used wrongly: counted, told once for each kind.
 */
#ifndef FGT_AGENT_LIB_MISUSE_H
#define FGT_AGENT_LIB_MISUSE_H

#include <stdint.h>

/* Returns error; those that are none of the program's faults are not counted.
 * MT-Safe | AS-Unsafe */
int fgt_misuse(int error);

uint64_t fgt_misuse_count(void);

#endif
