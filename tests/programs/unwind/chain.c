/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the two functions of a chain: CHAIN_SELF is its name, CHAIN_OTHER
 * the one that it calls. Leaves stale words on the stack on purpose.
 */
#include "chain.h"

__attribute__((noinline, noclone)) int CHAIN_SELF(int depth, chain_end end,
						  void *context)
{
	/* Never written: holds what earlier calls left behind. */
	char stale[CHAIN_STALE_BYTES];
	int result;

	__asm__ volatile("" : : "r"(stale) : "memory");
	if (depth == 0)
		result = end(context);
	else
		result = CHAIN_OTHER(depth - 1, end, context);
	__asm__ volatile("" : : "r"(stale) : "memory");
	return result + depth;
}
