/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that have little stack left: faults S9 and S10. Each size is printed
 * before it is tried, so that the last line is the one of a crash.
 *
 * stack_room headroom         threads that compute so many bytes above the end
 * stack_room alternate BYTES  a handler that computes on an alternate stack,
 *                             down to one of so many bytes
 * stack_room unused BYTES     threads that have such a stack, and are not on it
 * stack_room crowded BYTES    a handler that uses 3 KiB of such a stack
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zoo.h"

#define PAGE_BYTES  4096u
#define STACK_BYTES (128 * 1024u)
#define LARGE_BYTES (1024 * 1024u)
#define STEP_BYTES  16384u
#define SPIN_MS	    15

struct dive {
	char *bottom;
	size_t headroom;
	enum {
		AT_ONCE, /* never seen anywhere else */
		FROM_THE_TOP, /* in one step */
		BY_CALLS, /* down a large stack */
	} way;
};

static atomic_bool is_over;
static atomic_bool is_down;
static volatile unsigned long sink;

/* A stack with nothing that can be touched below it. */
static char *map_stack(size_t bytes)
{
	char *stack = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		return NULL;
	mprotect(stack, PAGE_BYTES, PROT_NONE);
	return stack + PAGE_BYTES;
}

/* Calls nothing: it needs no more stack than it has. */
static ZOO_NOINLINE void zoo_burn_deep(const struct dive *dive)
{
	char *here = __builtin_frame_address(0);
	char *room =
		alloca((size_t)(here - dive->bottom) - dive->headroom - 128);

	*(volatile char *)room = 1; /* as a call would */
	atomic_store(&is_down, true);
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		sink += 1;
}

static ZOO_NOINLINE void zoo_burn_down(const struct dive *dive)
{
	volatile char own[STEP_BYTES];

	own[0] = 1;
	for (unsigned int i = 0; i < 100000; i++)
		sink += i;
	if (own > dive->bottom + 2 * STEP_BYTES + dive->headroom)
		zoo_burn_down(dive);
	else
		zoo_burn_deep(dive);
	own[1] = own[0];
}

static void *dive(void *argument)
{
	const struct dive *dive = argument;

	if (dive->way != AT_ONCE)
		zoo_burn_ms(5);
	if (dive->way == BY_CALLS)
		zoo_burn_down(dive);
	else
		zoo_burn_deep(dive);
	return NULL;
}

static int sweep_headroom(void)
{
	for (size_t headroom = 24576; headroom <= 24576;
	     headroom -= headroom > 8192 ? 2048 : 256) {
		unsigned int way = headroom / 256 % 3;
		size_t bytes = way == BY_CALLS ? LARGE_BYTES : STACK_BYTES;
		char *stack = map_stack(bytes);
		struct dive deep = { .bottom = stack,
				     .headroom = headroom,
				     .way = way };
		pthread_attr_t attributes;
		pthread_t thread;

		printf("# headroom %zu\n", headroom);
		atomic_store(&is_over, false);
		atomic_store(&is_down, false);
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stack, bytes);
		if (pthread_create(&thread, &attributes, dive, &deep) != 0)
			return 3;
		while (!atomic_load(&is_down))
			zoo_sleep_ms(1);
		zoo_sleep_ms(SPIN_MS);
		atomic_store(&is_over, true);
		pthread_join(thread, NULL);
	}
	puts("headroom: survived");
	return 0;
}

static ZOO_NOINLINE void zoo_burn_aside(int number)
{
	(void)number;
	atomic_store(&is_down, true);
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		sink += 1;
}

static ZOO_NOINLINE void zoo_burn_crowded(int number)
{
	volatile char used[3072];

	(void)number;
	for (size_t i = 0; i < sizeof(used); i++)
		used[i] = 1;
	zoo_burn_ms(300);
	sink += (unsigned long)used[0];
}

/* Known to the sampler before, as a thread of a program is. */
static void *crowd(void *context)
{
	const size_t *bytes = context;
	const stack_t aside = { .ss_size = *bytes,
				.ss_sp = map_stack(STACK_BYTES) };

	if (!aside.ss_sp || sigaltstack(&aside, NULL) < 0)
		return NULL;
	zoo_burn_ms(300);
	for (int i = 0; i < 3; i++) {
		pthread_kill(pthread_self(), SIGUSR1);
		zoo_burn_ms(50);
	}
	return context;
}

/* The second thread is sampled by an event, where that is permitted, before any
 * signal has come to it. */
static int crowd_aside(size_t bytes)
{
	pthread_t thread;
	void *later = NULL;

	zoo_handle(SIGUSR1, zoo_burn_crowded, SA_ONSTACK);
	if (!crowd(&bytes) || pthread_create(&thread, NULL, crowd, &bytes) != 0)
		return 3;
	pthread_join(thread, &later);
	if (!later)
		return 3;
	puts("crowded: survived");
	return 0;
}

struct aside {
	size_t bytes;
	bool is_used;
};

static void *have_aside(void *argument)
{
	const struct aside *wanted = argument;
	stack_t none = { .ss_flags = SS_DISABLE };
	stack_t aside = { .ss_size = wanted->bytes };
	char *stack = map_stack(STACK_BYTES);

	/* Its lower end is at the guard, whatever its size. */
	aside.ss_sp = stack;
	if (!stack || sigaltstack(&aside, NULL) < 0)
		return NULL;
	if (wanted->is_used)
		pthread_kill(pthread_self(), SIGUSR1);
	else
		zoo_burn_aside(0);
	sigaltstack(&none, NULL);
	return NULL;
}

static int sweep_asides(size_t least, bool is_used)
{
	zoo_handle(SIGUSR1, zoo_burn_aside, SA_ONSTACK);
	for (size_t bytes = 32768; bytes >= least;
	     bytes -= bytes > 16384 ? 4096 : 512) {
		struct aside aside = { .bytes = bytes, .is_used = is_used };
		pthread_t thread;

		printf("# aside %zu\n", bytes);
		atomic_store(&is_over, false);
		atomic_store(&is_down, false);
		if (pthread_create(&thread, NULL, have_aside, &aside) != 0)
			return 3;
		zoo_sleep_ms(SPIN_MS);
		atomic_store(&is_over, true);
		pthread_join(thread, NULL);
		if (!atomic_load(&is_down))
			return 3;
	}
	puts("aside: survived");
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int status = 2;

	zoo_begin();
	if (strcmp(mode, "headroom") == 0)
		status = sweep_headroom();
	else if (argc == 3 && strcmp(mode, "crowded") == 0)
		status = crowd_aside((size_t)atoi(argv[2]));
	else if (argc == 3)
		status = sweep_asides((size_t)atoi(argv[2]),
				      strcmp(mode, "alternate") == 0);
	zoo_end();
	return status;
}
