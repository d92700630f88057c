/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that switches between its own stacks, which have less room left
 * than the frame of a signal takes. The memory below them must not change,
 * except by the one signal that shows that the thread switches stacks.
 *
 * coroutines SECONDS [first]	first: that thread is the program's first one
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "zoo.h"

#define COUNT	     64
#define CALLS_BYTES  1024u /* of switching, and of reading the clock */
#define CANARY_BYTES 65536u
#define CANARY	     0xab
#define HIT_MAX	     2 /* one, and one that was under way */

static ucontext_t home, coroutines[COUNT];
static unsigned char *memory[COUNT];
static size_t stack_bytes;
static uint64_t end_ns;

static void run(int self)
{
	for (;;) {
		zoo_burn_ms(1);
		swapcontext(&coroutines[self], &home);
	}
}

static void make(int i)
{
	ucontext_t *context = &coroutines[i];

	memory[i] = mmap(NULL, CANARY_BYTES + stack_bytes,
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (memory[i] == MAP_FAILED)
		exit(3);
	memset(memory[i], CANARY, CANARY_BYTES);
	getcontext(context);
	context->uc_stack.ss_sp = memory[i] + CANARY_BYTES;
	context->uc_stack.ss_size = stack_bytes;
	context->uc_link = NULL;
	makecontext(context, (void (*)(void))run, 1, i);
}

static void *schedule(void *unused)
{
	while (zoo_now_ns() < end_ns)
		for (int i = 0; i < COUNT; i++)
			swapcontext(&home, &coroutines[i]);
	return unused;
}

static char *volatile handler_sp;

static void note_sp(int number)
{
	(void)number;
	handler_sp = __builtin_frame_address(0);
}

/* What the kernel writes for a signal now. What it needs at most, by
 * AT_MINSIGSTKSZ, may be many times more: registers that a program has not used
 * are left out. */
static size_t measure_frame(void)
{
	const struct sigaction action = { .sa_handler = note_sp };
	struct sigaction before;

	sigaction(SIGUSR2, &action, &before);
	raise(SIGUSR2);
	sigaction(SIGUSR2, &before, NULL);
	return (size_t)((char *)__builtin_frame_address(0) - handler_sp);
}

static unsigned int count_hit(void)
{
	unsigned int count = 0;

	for (int i = 0; i < COUNT; i++) {
		size_t at = 0;

		while (at < CANARY_BYTES && memory[i][at] == CANARY)
			at++;
		count += at < CANARY_BYTES;
	}
	return count;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	unsigned int hit;

	if (argc < 2)
		return 2;
	zoo_begin();
	/* Half of what a signal needs. */
	stack_bytes = CALLS_BYTES + (measure_frame() / 2 & ~15ul);
	zoo_start_burners(1);
	end_ns = zoo_now_ns() + strtoull(argv[1], NULL, 10) * 1000000000;
	zoo_burn_ms(1); /* its functions are found, which takes stack, too */
	for (int i = 0; i < COUNT; i++)
		make(i);
	if (argc > 2)
		(void)schedule(NULL);
	else if (pthread_create(&thread, NULL, schedule, NULL))
		return 1;
	else
		pthread_join(thread, NULL);
	hit = count_hit();
	printf("# %u of %d stacks were written below\n", hit, COUNT);
	zoo_end();
	return zoo_note("written below", hit > HIT_MAX ? hit : 0);
}
