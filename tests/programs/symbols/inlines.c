/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain of inlined calls, for the symbolizer's test: where_am_i() prints
 * addresses that lie inside them.
 */
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))
#define INLINE	 static inline __attribute__((always_inline))

volatile uint64_t anchor;

/* The address of the instruction behind the call: in the innermost inline. */
NOINLINE void where_am_i(const char *name)
{
	printf("%s %lx\n", name, (unsigned long)__builtin_return_address(0));
	anchor++;
}

INLINE void innermost(void)
{
	where_am_i("inlined"); /* line of innermost */
	anchor++;
}

INLINE void middle(void)
{
	innermost(); /* line of middle */
	anchor++;
}

NOINLINE void outermost(void)
{
	middle(); /* line of outermost */
	anchor++;
}

static NOINLINE void plain(void)
{
	where_am_i("plain"); /* line of plain */
	anchor++;
}

int main(void)
{
	outermost();
	plain();
	return 0;
}
