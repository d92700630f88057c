/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses signals: faults S2 to S5 and S11.
 *
 * signals swap SECONDS    changes the handler of the recorder's signal again
 *                         and again, and sends it to itself
 * signals raise [early]   sends it 10000 times; early: its handler is there
 *                         before the recorder is
 * signals default NUMBER  sends itself a signal that it does not handle
 * signals masked SECONDS  computes with all signals blocked
 * signals wait SECONDS    takes all signals by sigwait and signalfd
 * signals storm SECONDS   gets 50000 a second from another process
 * signals profile SECONDS [posix]
 *                         has a timer on its CPU time, as profilers have, and
 *                         threads that sleep; posix: of timer_create
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zoo.h"

#define RAISES	    10000u
#define STORM_BURST 50 /* a millisecond */
#define GROWTH_MAX  2048u /* pages */

static atomic_uint received;
static atomic_bool is_over;
static int our_signal;
static uint64_t end_ns;

static void count_one(int number)
{
	(void)number;
	atomic_fetch_add(&received, 1);
}

static void count_other(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&received, 1, memory_order_relaxed);
}

/* ---- Its own handler --------------------------------------------------- */

static void *swap_handlers(void *argument)
{
	(void)argument;
	for (unsigned int i = 0; !atomic_load(&is_over); i++) {
		zoo_sleep_ms(10);
		zoo_handle(our_signal, i % 2 ? count_one : count_other,
			   SA_RESTART);
	}
	return NULL;
}

static int swap(void)
{
	unsigned int own = 0;
	pthread_t swapper;

	zoo_handle(our_signal, count_one, SA_RESTART);
	zoo_start_burners(2);
	pthread_create(&swapper, NULL, swap_handlers, NULL);
	while (zoo_now_ns() < end_ns) {
		zoo_burn_ms(1);
		raise(our_signal);
		own++;
	}
	atomic_store(&is_over, true);
	pthread_join(swapper, NULL);
	printf("# own %u, received %u\n", own, atomic_load(&received));
	return zoo_note("swap", own > atomic_load(&received)
					? own - atomic_load(&received)
					: atomic_load(&received) - own);
}

static int raise_often(void)
{
	zoo_start_burners(2);
	for (unsigned int i = 0; i < RAISES; i++) {
		raise(our_signal);
		if (i % 10 == 0)
			zoo_burn_ms(1);
	}
	printf("raise: %u of %u received\n", atomic_load(&received), RAISES);
	return atomic_load(&received) != RAISES;
}

static int raise_unhandled(int number)
{
	zoo_start_burners(2);
	zoo_burn_ms(300);
	raise(number);
	zoo_burn_ms(50);
	printf("default: %d does not end it\n", number);
	return 0;
}

/* ---- Signals blocked --------------------------------------------------- */

static bool has_pending(void)
{
	sigset_t set;

	sigpending(&set);
	return !sigisemptyset(&set);
}

struct masked {
	bool is_always;
	unsigned int pending; /* looks at which a signal waited */
};

/* Who masks only now and then may have had one sent just before. */
static void *burn_masked(void *argument)
{
	struct masked *masked = argument;
	sigset_t all, before;

	sigfillset(&all);
	while (zoo_now_ns() < end_ns) {
		pthread_sigmask(SIG_BLOCK, &all, &before);
		for (unsigned int i = 0; i < 40; i++) {
			zoo_burn_ms(10);
			masked->pending += has_pending();
		}
		if (masked->is_always)
			continue;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		zoo_burn_ms(100);
	}
	return NULL;
}

static int burn_all_masked(void)
{
	struct masked masked[2] = { { .is_always = true } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, burn_masked, &masked[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("# now and then: %u looks at a pending signal\n",
	       masked[1].pending);
	return zoo_note("masked", masked[0].pending);
}

static void *wait_for_any(void *argument)
{
	const struct timespec limit = { .tv_nsec = 3000000 };
	unsigned int *foreign = argument;
	sigset_t all;

	sigfillset(&all);
	while (zoo_now_ns() < end_ns) {
		*foreign += sigtimedwait(&all, NULL, &limit) > 0;
		zoo_burn_ms(3); /* blocked all the same while it runs */
	}
	return NULL;
}

static void *read_any(void *argument)
{
	unsigned int *foreign = argument;
	struct signalfd_siginfo info;
	sigset_t all;
	int fd;

	sigfillset(&all);
	fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	while (zoo_now_ns() < end_ns) {
		zoo_burn_ms(2);
		*foreign += read(fd, &info, sizeof(info)) > 0;
	}
	close(fd);
	return NULL;
}

static int wait_for_all(void)
{
	unsigned int foreign[2] = { 0 };
	pthread_t threads[2];
	sigset_t all;

	/* Before they begin: they inherit it. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	zoo_start_burners(1);
	pthread_create(&threads[0], NULL, wait_for_any, &foreign[0]);
	pthread_create(&threads[1], NULL, read_any, &foreign[1]);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return zoo_note("sigwait", foreign[0]) |
	       zoo_note("signalfd", foreign[1]);
}

/* ---- A storm ----------------------------------------------------------- */

static int send_storm(pid_t pid, unsigned int seconds)
{
	uint64_t until_ns = zoo_now_ns() + seconds * 1000000000ull;
	unsigned long sent = 0;

	while (zoo_now_ns() < until_ns) {
		for (int i = 0; i < STORM_BURST; i++, sent++)
			kill(pid, i % 2 ? SIGURG : SIGUSR1);
		zoo_sleep_ms(1);
	}
	printf("# sent %lu\n", sent);
	return 0;
}

static pid_t start_storm(unsigned int seconds)
{
	char pid[16], duration[16];
	pid_t child = fork();

	if (child != 0)
		return child;
	snprintf(pid, sizeof(pid), "%d", (int)getppid());
	snprintf(duration, sizeof(duration), "%u", seconds);
	unsetenv("LD_PRELOAD");
	unsetenv("ZOO_START");
	execl("/proc/self/exe", "signals", "send", pid, duration, (char *)NULL);
	_exit(3);
}

static unsigned long resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident = 0;

	if (file && fscanf(file, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident;
}

static atomic_uint stormed;

/* Some of the storm come after its sender's end. */
static void count_storm(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&stormed, 1, memory_order_relaxed);
}

static int stand_storm(unsigned int seconds)
{
	const union sigval value = { .sival_int = 1 };
	unsigned long before;
	unsigned int queued = 0;
	bool is_harmed;
	pid_t sender;

	zoo_handle(SIGUSR1, count_storm, SA_RESTART);
	zoo_start_burners(2);
	zoo_burn_ms(500);
	before = resident_pages();
	sender = start_storm(seconds);
	while (waitpid(sender, NULL, WNOHANG) == 0)
		zoo_burn_ms(20);
	printf("# %u of the storm received, grew by %ld pages\n",
	       atomic_load(&stormed), (long)(resident_pages() - before));
	is_harmed = zoo_note("storm, growth",
			     resident_pages() > before + GROWTH_MAX);
	/* The queue of the user's signals has not been used up. */
	zoo_handle(SIGRTMIN + 4, count_one, SA_RESTART);
	for (unsigned int i = 0; i < 1000; i++)
		queued += sigqueue(getpid(), SIGRTMIN + 4, value) == 0;
	zoo_burn_ms(20);
	return is_harmed |
	       zoo_note("storm, queue", 2000 - queued - atomic_load(&received));
}

/* ---- A profiler in the program ---------------------------------------------- */

#define SLEEPERS   4
#define WOKEN_MAX  10u /* CPU time of the recorder makes signals, too */
#define PROFILE_US 10000

static void *sleep_in_poll(void *ret_woken)
{
	atomic_uint *woken = ret_woken;

	while (!atomic_load(&is_over))
		if (poll(NULL, 0, 100) < 0 && errno == EINTR)
			atomic_fetch_add(woken, 1);
	return NULL;
}

static void start_profile(bool is_posix)
{
	const struct itimerval often = { { 0, PROFILE_US }, { 0, PROFILE_US } };
	const struct itimerspec as_often = { { 0, PROFILE_US * 1000 },
					     { 0, PROFILE_US * 1000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGPROF };
	timer_t timer;

	zoo_handle(SIGPROF, count_one, SA_RESTART);
	if (!is_posix)
		setitimer(ITIMER_PROF, &often, NULL);
	else if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0)
		timer_settime(timer, 0, &as_often, NULL);
}

static int profile_itself(bool is_posix)
{
	static atomic_uint woken;
	pthread_t sleepers[SLEEPERS];

	start_profile(is_posix);
	zoo_start_burners(2);
	zoo_burn_ms(1200); /* such timers are looked for once a second */
	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&sleepers[i], NULL, sleep_in_poll, &woken);
	while (zoo_now_ns() < end_ns)
		zoo_burn_ms(10);
	atomic_store(&is_over, true);
	printf("# %u signals, %u of them woke a thread\n",
	       atomic_load(&received), atomic_load(&woken));
	for (int i = 0; i < SLEEPERS; i++)
		pthread_join(sleepers[i], NULL);
	return zoo_note("profile", atomic_load(&woken) > WOKEN_MAX
					   ? atomic_load(&woken)
					   : 0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned int seconds = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	bool is_early = argc > 2 && strcmp(argv[2], "early") == 0;
	int status = 2;

	if (strcmp(mode, "send") == 0 && argc == 4)
		return send_storm((pid_t)seconds, (unsigned int)atoi(argv[3]));
	our_signal = SIGURG;
	if (is_early)
		zoo_handle(our_signal, count_one, SA_RESTART);
	zoo_begin();
	if (!is_early)
		our_signal = zoo_our_signal();
	end_ns = zoo_now_ns() + seconds * 1000000000ull;
	if (strcmp(mode, "raise") == 0 && !is_early)
		zoo_handle(our_signal, count_one, SA_RESTART);
	if (strcmp(mode, "swap") == 0)
		status = swap();
	else if (strcmp(mode, "raise") == 0)
		status = raise_often();
	else if (strcmp(mode, "default") == 0)
		status = raise_unhandled((int)seconds);
	else if (strcmp(mode, "masked") == 0)
		status = burn_all_masked();
	else if (strcmp(mode, "wait") == 0)
		status = wait_for_all();
	else if (strcmp(mode, "profile") == 0)
		status = profile_itself(argc > 3);
	else if (strcmp(mode, "storm") == 0)
		status = stand_storm(seconds);
	zoo_end();
	return status;
}
