/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose functions the tests of symbols look up: inlined calls two
 * deep, a static function, one called through the PLT. Prints the addresses
 * that it saw itself in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURN_ADDRESS() __builtin_return_address(0)

__attribute__((noinline)) static void *where_am_i(void)
{
	return RETURN_ADDRESS();
}

static inline __attribute__((always_inline)) void *innermost(int *work)
{
	*work += 3;
	return where_am_i(); /* line of innermost */
}

static inline __attribute__((always_inline)) void *middle(int *work)
{
	*work *= 5;
	return innermost(work); /* line of middle */
}

__attribute__((noinline)) void *outer_function(int *work)
{
	void *address = middle(work); /* line of outer */

	*work += (int)strlen(getenv("HOME") ? "home" : "none");
	return address;
}

__attribute__((noinline)) static void *hidden_function(int *work)
{
	void *address = where_am_i();

	*work += 1;
	return address;
}

int main(void)
{
	int work = 1;

	printf("outer %p\n", outer_function(&work));
	printf("hidden %p\n", hidden_function(&work));
	printf("main %p\n", (void *)main);
	return work == -1;
}
