/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads without thread-local storage, fault S8: made by clone(2), they share
 * that of the first thread, which checks that it does not change. Only these
 * threads take signals.
 *
 * raw_threads SECONDS
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "zoo.h"

#define COUNT	    2
#define STACK_BYTES (256 * 1024)
#define OWN_ERRNO   4711

static __thread unsigned char own[4096];
static atomic_bool is_over;
static atomic_uint ended;
static volatile unsigned long sink;

static ZOO_NOINLINE int zoo_burn_raw(void *argument)
{
	(void)argument;
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		for (unsigned int i = 0; i < 1000; i++)
			sink += i;
	atomic_fetch_add(&ended, 1);
	return 0;
}

static bool start_raw(void)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return stack != MAP_FAILED &&
	       clone(zoo_burn_raw, stack + STACK_BYTES,
		     CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
			     CLONE_THREAD | CLONE_SYSVSEM,
		     NULL) > 0;
}

int main(int argc, char **argv)
{
	uint64_t end_ns;
	unsigned long wrong = 0;
	sigset_t all;

	zoo_begin();
	end_ns = zoo_now_ns() +
		 (uint64_t)(argc > 1 ? atoi(argv[1]) : 2) * 1000000000u;
	for (int i = 0; i < COUNT; i++)
		if (!start_raw())
			return 3;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	memset(own, 0x5a, sizeof(own));
	errno = OWN_ERRNO;
	while (zoo_now_ns() < end_ns) {
		wrong += errno != OWN_ERRNO;
		for (size_t i = 0; i < sizeof(own); i++)
			wrong += own[i] != 0x5a;
	}
	atomic_store(&is_over, true);
	while (atomic_load(&ended) < COUNT)
		zoo_sleep_ms(1);
	zoo_sleep_ms(20); /* they return on their own stacks */
	zoo_end();
	return zoo_note("thread-local storage", wrong);
}
