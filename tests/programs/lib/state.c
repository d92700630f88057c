/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the state of a thread does not change between two instructions:
 * errno, the floating-point environment, vector registers, the signal mask and
 * the alternate stack: fault S14.
 *
 * state SECONDS
 */
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "zoo.h"

#define LANES 8
#define TURNS 20000u

typedef double vector __attribute__((vector_size(LANES * sizeof(double))));

struct watcher {
	const char *name;
	unsigned long (*look)(unsigned int turn); /* number of changes */
	unsigned long wrong;
	pthread_t thread;
};

static uint64_t end_ns;

static unsigned long look_at_errno(unsigned int turn)
{
	unsigned long wrong = 0;
	int own = 1000 + (int)(turn % 1000);

	errno = own;
	for (unsigned int i = 0; i < TURNS; i++) {
		__asm__ volatile("" : : : "memory");
		wrong += errno != own;
	}
	return wrong;
}

static unsigned long look_at_rounding(unsigned int turn)
{
	static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
				     FE_TOWARDZERO };
	int mode = modes[turn % 4];
	volatile double one = 1, three = 3;
	volatile long double lone = 1, lthree = 3;
	unsigned long wrong = 0;
	double quotient;
	long double lquotient;

	fesetround(mode);
	feclearexcept(FE_ALL_EXCEPT);
	quotient = one / three;
	lquotient = lone / lthree;
	feclearexcept(FE_ALL_EXCEPT);
	for (unsigned int i = 0; i < TURNS; i++)
		wrong += one / three != quotient || lone / lthree != lquotient;
	return wrong + (fegetround() != mode) +
	       (fetestexcept(FE_ALL_EXCEPT) != FE_INEXACT);
}

static ZOO_NOINLINE vector turn_lanes(vector lanes, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		lanes = lanes * 1.0000001 + 0.5;
	return lanes;
}

static unsigned long look_at_vectors(unsigned int turn)
{
	static vector expected;
	static bool is_known;
	vector lanes = { 1, 2, 3, 4, 5, 6, 7, 8 };

	(void)turn;
	lanes = turn_lanes(lanes, TURNS);
	if (!is_known)
		expected = lanes;
	is_known = true;
	return memcmp(&lanes, &expected, sizeof(lanes)) != 0;
}

static unsigned long look_at_mask(unsigned int turn)
{
	stack_t own, now = { .ss_flags = SS_DISABLE };
	static char room[65536];
	sigset_t mask, seen;
	unsigned long wrong = 0;

	sigemptyset(&mask);
	sigaddset(&mask, turn % 2 ? SIGUSR1 : SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	own = turn % 3 ? (stack_t){ .ss_flags = SS_DISABLE }
		       : (stack_t){ .ss_sp = room, .ss_size = sizeof(room) };
	sigaltstack(&own, NULL);
	for (unsigned int i = 0; i < TURNS / 20; i++) {
		pthread_sigmask(SIG_SETMASK, NULL, &seen);
		sigaltstack(NULL, &now);
		wrong += memcmp(&seen, &mask, 8) != 0 ||
			 (now.ss_flags & SS_DISABLE) !=
				 (own.ss_flags & SS_DISABLE) ||
			 (!own.ss_flags && now.ss_sp != own.ss_sp);
	}
	return wrong;
}

/* The name is what prctl returns, and the timer slack is its own. */
static unsigned long look_at_thread(unsigned int turn)
{
	char name[16] = "";

	(void)turn;
	prctl(PR_GET_NAME, name);
	zoo_burn_ms(1);
	return strncmp(name, program_invocation_short_name, 15) != 0 ||
	       prctl(PR_GET_TIMERSLACK) != 50000;
}

static struct watcher watchers[] = {
	{ .name = "errno", .look = look_at_errno },
	{ .name = "rounding", .look = look_at_rounding },
	{ .name = "vectors", .look = look_at_vectors },
	{ .name = "mask", .look = look_at_mask },
	{ .name = "thread", .look = look_at_thread },
};
#define WATCHERS (sizeof(watchers) / sizeof(watchers[0]))

static void *watch(void *argument)
{
	struct watcher *watcher = argument;

	for (unsigned int turn = 0; zoo_now_ns() < end_ns; turn++)
		watcher->wrong += watcher->look(turn);
	return NULL;
}

int main(int argc, char **argv)
{
	bool is_harmed = false;

	zoo_begin();
	end_ns = zoo_now_ns() +
		 (uint64_t)(argc > 1 ? atoi(argv[1]) : 2) * 1000000000u;
	for (size_t i = 0; i < WATCHERS; i++)
		pthread_create(&watchers[i].thread, NULL, watch, &watchers[i]);
	for (size_t i = 0; i < WATCHERS; i++)
		pthread_join(watchers[i].thread, NULL);
	for (size_t i = 0; i < WATCHERS; i++)
		is_harmed |= zoo_note(watchers[i].name, watchers[i].wrong);
	zoo_end();
	return is_harmed;
}
