/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two functions that call each other down to a given depth; chain.c is built
 * twice, so that one may keep frame pointers and the other not.
 */
#ifndef FGT_TESTS_PROGRAMS_UNWIND_CHAIN_H
#define FGT_TESTS_PROGRAMS_UNWIND_CHAIN_H

typedef int (*chain_end)(void *context);

/* chain_a calls chain_b with depth - 1 and so on; at 0: end(context). */
int chain_a(int depth, chain_end end, void *context);
int chain_b(int depth, chain_end end, void *context);

#endif
