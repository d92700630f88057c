/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves stacks by other ways than returning: longjmp out of deep calls,
 * siglongjmp out of handlers, coroutines on separate stacks.
 *
 * jumps SECONDS
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "zoo.h"

#define DEPTH	     40
#define COROUTINES   64
#define STACK_BYTES  32768u
#define GUARD_BYTES  4096u
#define SWITCH_TURNS 200u

struct coroutine {
	ucontext_t context;
	unsigned long work;
};

static uint64_t end_ns;
static unsigned long jumped_wrong, left_wrong, switched_wrong;
static struct coroutine coroutines[COROUTINES];
static ucontext_t scheduler;
static unsigned int current;
static volatile unsigned long sink;

static ZOO_NOINLINE int zoo_burn_dive(int depth, jmp_buf back)
{
	volatile int own = depth;

	for (unsigned int i = 0; i < 50; i++)
		sink += i;
	if (depth == 0)
		longjmp(back, 7);
	return zoo_burn_dive(depth - 1, back) + own;
}

static void *jump(void *argument)
{
	jmp_buf back;

	(void)argument;
	while (zoo_now_ns() < end_ns) {
		volatile unsigned int before = (unsigned int)sink;
		volatile unsigned int kept = before;
		int value = setjmp(back);

		if (value == 0)
			zoo_burn_dive(DEPTH, back);
		if (value != 7 || kept != before)
			jumped_wrong++;
	}
	return NULL;
}

static __thread sigjmp_buf out;

static void leave(int number)
{
	zoo_burn_dive(3, out);
	(void)number;
}

/* Out of a handler, with the mask that was there before it. */
static void *leave_handlers(void *argument)
{
	sigset_t before, after;

	(void)argument;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	while (zoo_now_ns() < end_ns) {
		if (sigsetjmp(out, 1) == 0) {
			raise(SIGUSR1);
			left_wrong++;
		}
		pthread_sigmask(SIG_BLOCK, NULL, &after);
		left_wrong += memcmp(&before, &after, 8) != 0;
	}
	return NULL;
}

static void run_coroutine(void)
{
	unsigned int self = current;
	unsigned long expected = 0;

	for (;;) {
		coroutines[self].work += self;
		expected += self;
		for (unsigned int i = 0; i < SWITCH_TURNS; i++)
			sink += i;
		if (coroutines[self].work != expected || current != self)
			switched_wrong++;
		swapcontext(&coroutines[self].context, &scheduler);
	}
}

static bool make_coroutines(void)
{
	for (unsigned int i = 0; i < COROUTINES; i++) {
		ucontext_t *context = &coroutines[i].context;
		char *stack = mmap(NULL, STACK_BYTES + GUARD_BYTES,
				   PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (stack == MAP_FAILED)
			return false;
		mprotect(stack, GUARD_BYTES, PROT_NONE);
		getcontext(context);
		context->uc_stack.ss_sp = stack + GUARD_BYTES;
		context->uc_stack.ss_size = STACK_BYTES;
		makecontext(context, run_coroutine, 0);
	}
	return true;
}

int main(int argc, char **argv)
{
	pthread_t jumper, leaver;
	bool is_harmed;

	zoo_begin();
	end_ns = zoo_now_ns() +
		 (uint64_t)(argc > 1 ? atoi(argv[1]) : 2) * 1000000000u;
	zoo_handle(SIGUSR1, leave, 0);
	pthread_create(&jumper, NULL, jump, NULL);
	pthread_create(&leaver, NULL, leave_handlers, NULL);
	if (!make_coroutines())
		return 3;
	while (zoo_now_ns() < end_ns) {
		current = (current + 1) % COROUTINES;
		swapcontext(&scheduler, &coroutines[current].context);
	}
	pthread_join(jumper, NULL);
	pthread_join(leaver, NULL);
	is_harmed = zoo_note("longjmp", jumped_wrong) |
		    zoo_note("siglongjmp", left_wrong) |
		    zoo_note("swapcontext", switched_wrong);
	zoo_end();
	return is_harmed;
}
