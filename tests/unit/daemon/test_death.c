/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How processes ended that are not this process's children: here a
 * grandchild, whose parent waits for it at once, later or never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "agent/daemon/targets/death.h"

struct victim {
	pid_t parent;
	struct fgt_process process;
	int go, reap; /* write ends: it ends, its parent waits for it */
};

static void end_as(int how)
{
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	if (how < 0)
		_exit(-how - 1);
	signal(how, SIG_DFL);
	raise(how);
	pause();
}

static void wait_byte(int fd)
{
	char byte;

	(void)!read(fd, &byte, 1);
}

/* The process between: writes the pid, waits for its child on request. */
static void be_parent(int how, int go, int reap, int result)
{
	pid_t pid = fork();

	if (pid == 0) {
		wait_byte(go);
		end_as(how);
	}
	(void)!write(result, &pid, sizeof(pid));
	wait_byte(reap);
	waitpid(pid, NULL, 0);
	pause();
}

static void start(struct victim *victim, int how)
{
	int go[2], reap[2], result[2];
	struct fgt_why why;
	pid_t pid;

	assert_int_equal(pipe(go) | pipe(reap) | pipe(result), 0);
	victim->parent = fork();
	if (victim->parent == 0)
		be_parent(how, go[0], reap[0], result[1]);
	assert_int_equal(read(result[0], &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(fgt_process_open(pid, &victim->process, &why), 0);
	victim->go = go[1];
	victim->reap = reap[1];
	close(go[0]);
	close(reap[0]);
	close(result[0]);
	close(result[1]);
}

static void look(const struct victim *victim, struct fgt_death *ret_death)
{
	fgt_death_look(victim->process.pidfd, victim->process.pid,
		       victim->process.start_time, ret_death);
}

static void wait_for_end(const struct victim *victim)
{
	struct pollfd poll_fd = { .fd = victim->process.pidfd,
				  .events = POLLIN };

	assert_int_equal(write(victim->go, "", 1), 1);
	assert_int_equal(poll(&poll_fd, 1, 10000), 1);
}

static bool is_gone(const struct victim *victim)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", victim->process.pid);
	return access(path, F_OK) != 0;
}

static void reap(const struct victim *victim)
{
	assert_int_equal(write(victim->reap, "", 1), 1);
	for (int i = 0; i < 1000 && !is_gone(victim); i++)
		usleep(10000);
	assert_true(is_gone(victim));
}

static void finish(struct victim *victim)
{
	kill(victim->parent, SIGKILL);
	waitpid(victim->parent, NULL, 0);
	fgt_process_close(&victim->process);
	close(victim->go);
	close(victim->reap);
}

static void zombie_reports_its_signal(void **state)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGKILL, SIGTERM,
				       SIGBUS };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct victim victim;
		struct fgt_death death;

		start(&victim, signals[i]);
		look(&victim, &death);
		assert_int_equal(death.kind, FGT_DEATH_NOT_YET);
		wait_for_end(&victim);
		look(&victim, &death);
		assert_int_equal(death.kind, FGT_DEATH_SIGNAL);
		assert_int_equal(death.signal, signals[i]);
		finish(&victim);
	}
}

static void exit_is_not_a_signal(void **state)
{
	static const int codes[] = { 0, 1, 11, 139, 255 };

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct victim victim;
		struct fgt_death death;

		start(&victim, -codes[i] - 1);
		wait_for_end(&victim);
		look(&victim, &death);
		assert_int_equal(death.kind, FGT_DEATH_EXIT);
		finish(&victim);
	}
}

/* Kernels before 6.15 do not know any more; never a guess. */
static void reaped_process_reports_its_signal_or_is_unknown(void **state)
{
	struct victim victim;
	struct fgt_death death;

	(void)state;
	start(&victim, SIGSEGV);
	wait_for_end(&victim);
	reap(&victim);
	look(&victim, &death);
	if (death.kind == FGT_DEATH_SIGNAL)
		assert_int_equal(death.signal, SIGSEGV);
	else
		assert_int_equal(death.kind, FGT_DEATH_UNKNOWN);
	print_message("a reaped process is %s here\n",
		      death.kind == FGT_DEATH_SIGNAL ? "known" : "unknown");
	finish(&victim);
}

static void only_term_int_and_hup_are_requests_to_end(void **state)
{
	static const int crashes[] = { SIGSEGV, SIGABRT, SIGBUS,  SIGKILL,
				       SIGQUIT, SIGPIPE, SIGXCPU, SIGALRM };
	static const int requests[] = { SIGTERM, SIGINT, SIGHUP };
	struct fgt_death death = { FGT_DEATH_SIGNAL, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
		death.signal = crashes[i];
		assert_false(fgt_death_is_asked_for(&death));
	}
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		death.signal = requests[i];
		assert_true(fgt_death_is_asked_for(&death));
	}
	death.kind = FGT_DEATH_UNKNOWN;
	assert_false(fgt_death_is_asked_for(&death));
}

static void death_has_the_name_of_its_signal(void **state)
{
	static const struct {
		struct fgt_death death;
		const char *name;
	} cases[] = {
		{ { FGT_DEATH_SIGNAL, SIGSEGV }, "SIGSEGV" },
		{ { FGT_DEATH_SIGNAL, SIGKILL }, "SIGKILL" },
		{ { FGT_DEATH_SIGNAL, 99 }, "signal 99" },
		{ { FGT_DEATH_UNKNOWN, 0 }, "unknown" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fgt_death_name(&cases[i].death, text, sizeof(text));
		assert_string_equal(text, cases[i].name);
	}
	fgt_death_name(&(struct fgt_death){ FGT_DEATH_SIGNAL, SIGRTMIN + 3 },
		       text, sizeof(text));
	assert_string_equal(text, "SIGRTMIN+3");
}

static void *wait_for(void *pid)
{
	waitpid((pid_t)(intptr_t)pid, NULL, 0);
	return NULL;
}

/* Is looked at while its parent waits for it: its kind. */
static enum fgt_death_kind end_while_looked_at(void)
{
	pid_t pid = fork();
	struct fgt_process process;
	struct fgt_death death;
	struct fgt_why why;
	pthread_t waiter;

	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(fgt_process_open(pid, &process, &why), 0);
	assert_int_equal(
		pthread_create(&waiter, NULL, wait_for, (void *)(intptr_t)pid),
		0);
	kill(pid, SIGTERM);
	do
		fgt_death_look(process.pidfd, pid, process.start_time, &death);
	while (death.kind == FGT_DEATH_NOT_YET);
	pthread_join(waiter, NULL);
	fgt_process_close(&process);
	return death.kind;
}

/* Older kernels forget it. */
static bool is_reaped_known(void)
{
	struct victim victim;
	struct fgt_death death;

	start(&victim, SIGTERM);
	wait_for_end(&victim);
	reap(&victim);
	look(&victim, &death);
	finish(&victim);
	return death.kind == FGT_DEATH_SIGNAL;
}

static void process_reaped_meanwhile_reports_its_signal(void **state)
{
	const int rounds = getenv("FGT_TESTS_SOAK") ? 10000 : 2000;

	(void)state;
	if (!is_reaped_known())
		skip();
	/* One of about two thousand is met between the two. */
	for (int i = 0; i < rounds; i++)
		assert_int_equal(end_while_looked_at(), FGT_DEATH_SIGNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zombie_reports_its_signal),
		cmocka_unit_test(exit_is_not_a_signal),
		cmocka_unit_test(
			reaped_process_reports_its_signal_or_is_unknown),
		cmocka_unit_test(only_term_int_and_hup_are_requests_to_end),
		cmocka_unit_test(death_has_the_name_of_its_signal),
		cmocka_unit_test(process_reaped_meanwhile_reports_its_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
