/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses SIGPROF and SIGURG itself: a timer on its CPU time,
 * and SIGURG as a message between threads.
 * own_signals MODE SOCKET SECONDS → "prof N urg SENT RECEIVED foreign N …"
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <fgtrace.h>

static atomic_ulong profs, urgs, foreign;

static void on_prof(int number)
{
	(void)number;
	profs++;
}

/* Signals of this program carry a number, others do not. */
static void on_urg(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == 4711)
		urgs++;
	else
		foreign++;
}

static void install(void)
{
	struct sigaction action;
	const struct itimerval often = { .it_interval = { .tv_usec = 5000 },
					 .it_value = { .tv_usec = 5000 } };

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_prof;
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, NULL);
	action.sa_sigaction = on_urg;
	action.sa_flags = SA_RESTART | SA_SIGINFO;
	sigaction(SIGURG, &action, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
}

int main(int argc, char **argv)
{
	struct fgt_options options = { .size = sizeof(options) };
	struct fgt_slice *slice = NULL;
	struct fgt_slice_info info = { .size = sizeof(info) };
	unsigned long sent = 0;
	uint64_t end_ns;
	int r;

	if (argc != 4)
		return 2;
	options.mode = strcmp(argv[1], "agent") == 0 ? FGT_AGENT : FGT_EMBEDDED;
	options.socket = argv[2];
	options.hz = 1000;
	install();
	r = fgt_start(&options);
	if (r != 0) {
		printf("start %d\n", r);
		return 1;
	}
	end_ns = fgt_now() + (uint64_t)(atof(argv[3]) * 1e9);
	while (fgt_now() < end_ns) {
		const union sigval value = { .sival_int = 4711 };
		unsigned long before = urgs;

		for (volatile int i = 0; i < 100000; i++)
			;
		if (sigqueue(getpid(), SIGURG, value) == 0)
			sent++;
		while (urgs == before)
			; /* one after the other: equal ones are merged */
	}
	r = fgt_get_slice(0, fgt_now(), &slice);
	if (r == 0)
		fgt_slice_get_info(slice, &info);
	fgt_slice_free(slice);
	fgt_stop();
	printf("prof %lu urg %lu %lu foreign %lu slice %d ticks %lu\n",
	       (unsigned long)profs, sent, (unsigned long)urgs,
	       (unsigned long)foreign, r, (unsigned long)info.ticks);
	return 0;
}
