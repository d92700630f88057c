/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel shows of a thread, and whether it may get a signal then.
 */
#include "agent/embed/signal/signal_permission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"

#define STATUS(state, blocked, filters)                                        \
	"Name:\tx\nState:\t" state "\nSigBlk:\t00000000" blocked               \
	"\nSeccomp:\t2\nSeccomp_filters:\t" filters "\n"

static void status_shows_which_threads_may_be_signalled(void **state)
{
	static const char plain[] = STATUS("R (running)", "00000000", "0");
	static const char urgent[] = STATUS("R (running)", "00400000", "0");
	static const char filtered[] = STATUS("R (running)", "00000000", "2");
	static const char asleep[] = STATUS("S (sleeping)", "00000000", "0");

	(void)state;
	assert_int_equal(fgt_signal_permission_parse(plain, SIGURG, 0), 0);
	assert_int_equal(fgt_signal_permission_parse(urgent, SIGURG, 0),
			 -EACCES);
	assert_int_equal(fgt_signal_permission_parse(urgent, SIGWINCH, 0), 0);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 0),
			 -EPERM);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 1),
			 -EPERM);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 2), 0);
	assert_int_equal(fgt_signal_permission_parse("", SIGURG, 0), -EPERM);
	/* In sigwait(3) it seems to block less than it does. */
	assert_int_equal(fgt_signal_permission_parse(asleep, SIGURG, 0),
			 -EAGAIN);
}

#define ASLEEP(blocked, sleeps)                                                \
	STATUS("S (sleeping)", blocked, "0")                                   \
	"voluntary_ctxt_switches:\t" sleeps "\n"

/* Seen in this call between two statuses. */
static int judge(long call, const char *before, const char *after)
{
	char line[64];

	snprintf(line, sizeof(line), "%ld 0x7f0 0x80", call);
	return fgt_signal_permission_judge(before, line, after, SIGURG);
}

static void one_sleep_in_a_plain_call_shows_the_mask(void **state)
{
	static const char open[] = ASLEEP("00000000", "7");
	static const char blocked[] = ASLEEP("00400000", "7");
	static const char later[] = ASLEEP("00000000", "8");
	static const char never[] = ASLEEP("00000000", "0");
	static const char awake[] = STATUS("R (running)", "00000000",
					   "0") "voluntary_ctxt_switches:\t7\n";

	(void)state;
	assert_int_equal(judge(SYS_futex, open, open), 0);
	assert_int_equal(judge(SYS_read, open, open), 0);
	assert_int_equal(judge(SYS_read, blocked, blocked), -EACCES);
	assert_int_equal(judge(SYS_rt_sigtimedwait, open, open), -EAGAIN);
	assert_int_equal(judge(SYS_rt_sigsuspend, open, open), -EAGAIN);
	assert_int_equal(judge(SYS_ppoll, open, open), -EAGAIN);
	/* What stood above in the first was of the sleep before. */
	assert_int_equal(judge(SYS_read, open, blocked), -EACCES);
	/* Another sleep, or none. */
	assert_int_equal(judge(SYS_futex, open, later), -EAGAIN);
	assert_int_equal(judge(SYS_futex, open, awake), -EAGAIN);
	assert_int_equal(judge(SYS_futex, never, never), -EAGAIN);
	assert_int_equal(
		fgt_signal_permission_judge(open, "running", open, SIGURG),
		-EAGAIN);
	assert_int_equal(fgt_signal_permission_judge(open, "-1 0x7ffd 0x7f",
						     open, SIGURG),
			 -EAGAIN);
	assert_int_equal(fgt_signal_permission_judge(open, "", open, SIGURG),
			 -EAGAIN);
}

/* ---- Of a thread that sleeps ------------------------------------------- */

struct sleeper {
	bool is_in_sigwait, has_blocked;
	int pipe[2];
	_Atomic int tid;
};

static void *sleep_so(void *context)
{
	struct sleeper *sleeper = context;
	sigset_t set;
	char byte;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	if (sleeper->has_blocked || sleeper->is_in_sigwait)
		pthread_sigmask(SIG_BLOCK, &set, NULL);
	atomic_store(&sleeper->tid, gettid());
	if (sleeper->is_in_sigwait)
		assert_int_equal(sigwaitinfo(&set, NULL), SIGURG);
	else
		assert_int_equal(read(sleeper->pipe[0], &byte, 1), 1);
	return NULL;
}

static bool is_asleep(int tid)
{
	char path[64], text[64];
	long call;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	assert_true(fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) > 0);
	call = strtol(text, NULL, 10);
	return call == SYS_rt_sigtimedwait ||
	       (call == SYS_read && text[0] != 'r');
}

/* What is shown of it once it sleeps. */
static int ask_sleeper(struct sleeper *sleeper)
{
	pthread_t thread;
	int rc;

	assert_int_equal(pipe(sleeper->pipe), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_so, sleeper), 0);
	for (int i = 0; i < 10000; i++) {
		if (atomic_load(&sleeper->tid) &&
		    is_asleep(atomic_load(&sleeper->tid)))
			break;
		usleep(1000);
	}
	rc = fgt_signal_permission_ask(atomic_load(&sleeper->tid), SIGURG,
				       fgt_signal_permission_filters());
	if (sleeper->is_in_sigwait)
		pthread_kill(thread, SIGURG);
	else
		assert_int_equal(write(sleeper->pipe[1], "x", 1), 1);
	pthread_join(thread, NULL);
	close(sleeper->pipe[0]);
	close(sleeper->pipe[1]);
	return rc;
}

static void a_thread_that_sleeps_in_a_plain_call_is_believed(void **state)
{
	struct sleeper open = { 0 }, blocked = { .has_blocked = true };
	struct sleeper waiting = { .is_in_sigwait = true };

	(void)state;
	assert_int_equal(ask_sleeper(&open), 0);
	assert_int_equal(ask_sleeper(&blocked), -EACCES);
	assert_int_equal(ask_sleeper(&waiting), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_shows_which_threads_may_be_signalled),
		cmocka_unit_test(one_sleep_in_a_plain_call_shows_the_mask),
		cmocka_unit_test(
			a_thread_that_sleeps_in_a_plain_call_is_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
