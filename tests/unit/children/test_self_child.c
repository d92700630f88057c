/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child is this test program: it answers each message with what it is, and
 * ends with its socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/children/child_ends.h"
#include "agent/children/self_child.h"
#include "ringbuf/base/owner.h"

#define NAME	   "fgt-child-test"
#define VERB	   "describe-itself"
#define PATIENT_MS 20000 /* what a busy machine may take */

struct description {
	char thread[16];
	int descriptor_count; /* beside 0 to 2 */
	int policy; /* SCHED_… */
	bool has_secret;
};

static const struct fgt_self_child usual = { .name = NAME,
					     .verb = VERB,
					     .socket_type = SOCK_SEQPACKET };

static void describe(void)
{
	struct description description;
	char byte;

	while (recv(FGT_SELF_CHILD_FD, &byte, 1, 0) == 1) {
		memset(&description, 0, sizeof(description));
		prctl(PR_GET_NAME, description.thread);
		for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
			description.descriptor_count += fcntl(fd, F_GETFD) >= 0;
		description.policy = sched_getscheduler(0) &
				     ~SCHED_RESET_ON_FORK;
		description.has_secret = getenv("FGT_TEST_SECRET");
		send(FGT_SELF_CHILD_FD, &description, sizeof(description),
		     MSG_NOSIGNAL);
	}
	_exit(0);
}

static bool is_readable(int fd)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	return poll(&entry, 1, PATIENT_MS) == 1;
}

static void child_has_its_socket_and_nothing_of_the_parent(void **state)
{
	struct description description;
	int fd, pid_fd;

	(void)state;
	/* What was inherited by this test is no concern of it. */
	close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
	setenv("FGT_TEST_SECRET", "1", 1);
	assert_int_equal(fgt_self_child_start(&usual, &fd, &pid_fd), 0);
	unsetenv("FGT_TEST_SECRET");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(send(fd, "?", 1, MSG_NOSIGNAL), 1);
	assert_true(is_readable(fd));
	assert_int_equal(recv(fd, &description, sizeof(description), 0),
			 sizeof(description));
	assert_string_equal(description.thread, NAME);
	assert_int_equal(description.descriptor_count, 1);
	assert_false(description.has_secret);
	assert_false(fgt_self_child_reap(pid_fd));
	/* It ends by itself. */
	close(fd);
	assert_true(is_readable(pid_fd));
	assert_true(fgt_self_child_reap(pid_fd));
}

static void killed_child_closes_its_socket(void **state)
{
	int fd, pid_fd;
	char byte;

	(void)state;
	assert_int_equal(fgt_self_child_start(&usual, &fd, &pid_fd), 0);
	fgt_self_child_end(pid_fd);
	assert_int_equal(fcntl(pid_fd, F_GETFD), -1);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	close(fd);
}

static int ask_policy(int fd)
{
	struct description description;

	assert_int_equal(send(fd, "?", 1, MSG_NOSIGNAL), 1);
	assert_true(is_readable(fd));
	assert_int_equal(recv(fd, &description, sizeof(description), 0),
			 sizeof(description));
	return description.policy;
}

static void child_is_realtime_while_that_is_wanted(void **state)
{
	const struct sched_param first = { .sched_priority = 1 }, other = { 0 };
	int fd, pid_fd, class;
	int32_t pid;

	(void)state;
	if (sched_setscheduler(0, SCHED_FIFO, &first) < 0)
		skip();
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &other), 0);
	assert_int_equal(fgt_self_child_start(&usual, &fd, &pid_fd), 0);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &other), 0);
	assert_int_equal(ask_policy(fd), SCHED_BATCH);
	pid = fgt_self_child_pid(pid_fd);
	assert_int_equal(getpgid(pid), pid); /* it has its session */
	assert_int_equal(fgt_self_child_raise(pid, &class), 0);
	assert_int_equal(ask_policy(fd), SCHED_FIFO);
	assert_int_equal(fgt_self_child_lower(pid, class), 0);
	assert_int_equal(ask_policy(fd), SCHED_BATCH);
	assert_int_equal(fgt_self_child_pid(fd), 0);
	fgt_self_child_end(pid_fd);
	close(fd);
}

static char reported[256];

static void keep_report(const char *text)
{
	snprintf(reported, sizeof(reported), "%s", text);
}

/* Which reports ends: 0 the reap of one whose socket was seen closed, 1 of one
 * that is killed afterwards, 2 the look. */
static void end_from_outside(int number, int which)
{
	struct fgt_self_child child = usual;
	char byte;
	int fd, pid_fd;

	child.uid = 4711;
	reported[0] = '\0';
	assert_int_equal(fgt_self_child_start(&child, &fd, &pid_fd), 0);
	assert_int_equal(
		syscall(SYS_pidfd_send_signal, pid_fd, number, NULL, 0), 0);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	if (which == 2)
		assert_true(is_readable(pid_fd));
	else
		fgt_self_child_lose(fd, pid_fd);
	if (which == 1)
		fgt_self_child_kill(pid_fd);
	if (which == 2)
		fgt_child_ends_look();
	else
		assert_true(is_readable(pid_fd));
	fgt_self_child_end(pid_fd);
	close(fd);
}

static void an_end_from_outside_is_reported_once(void **state)
{
	uint64_t before = fgt_child_ends_count();

	(void)state;
	fgt_child_ends_watch(keep_report);
	for (int which = 0; which < 3; which++) {
		end_from_outside(SIGKILL, which);
		assert_non_null(strstr(reported, "(KILL)"));
		end_from_outside(SIGTERM, which);
		assert_non_null(strstr(reported, NAME));
		assert_non_null(strstr(reported,
				       "for user 4711) was ended by signal "
				       "15 (TERM)"));
	}
	assert_int_equal(fgt_child_ends_count(), before + 6);
	fgt_child_ends_watch(NULL);
}

static void an_end_that_was_caused_is_not_reported(void **state)
{
	uint64_t before = fgt_child_ends_count();
	int fd, pid_fd;

	(void)state;
	for (int is_killed = 0; is_killed < 2; is_killed++) {
		assert_int_equal(fgt_self_child_start(&usual, &fd, &pid_fd), 0);
		fgt_self_child_lose(fd, pid_fd); /* its end is open */
		if (is_killed)
			fgt_self_child_kill(pid_fd);
		close(fd);
		assert_true(is_readable(pid_fd));
		fgt_child_ends_look();
		fgt_self_child_end(pid_fd);
	}
	assert_int_equal(fgt_child_ends_count(), before);
}

static void only_its_arguments_make_a_child(void **state)
{
	char name[] = NAME, verb[] = VERB, other[] = "other";
	char *with_more[] = { name, verb, other, NULL };
	char *other_verb[] = { name, other, NULL };
	char *other_name[] = { other, verb, NULL };
	char *alone[] = { name, NULL };

	(void)state;
	assert_false(fgt_self_child_is_asked(3, with_more, NAME, VERB));
	assert_false(fgt_self_child_is_asked(2, other_verb, NAME, VERB));
	assert_false(fgt_self_child_is_asked(2, other_name, NAME, VERB));
	assert_false(fgt_self_child_is_asked(1, alone, NAME, VERB));
}

static void child_that_does_not_know_itself_starts_none(void **state)
{
	char *const former = program_invocation_name;
	char name[] = NAME;
	int fd = 77, pid_fd = 77;

	(void)state;
	program_invocation_name = name;
	assert_int_equal(fgt_self_child_start(&usual, &fd, &pid_fd), -EAGAIN);
	program_invocation_name = former;
	assert_int_equal(fd, 77);
	assert_int_equal(pid_fd, 77);
}

static void missing_program_is_an_error(void **state)
{
	struct fgt_self_child child = usual;
	int fd = 77, pid_fd = 77, before = dup(STDIN_FILENO), after;

	(void)state;
	close(before);
	child.path = "/nonexistent/program";
	assert_int_equal(fgt_self_child_start(&child, &fd, &pid_fd), -EAGAIN);
	assert_int_equal(fd, 77);
	after = dup(STDIN_FILENO); /* no descriptor was left open */
	close(after);
	assert_int_equal(after, before);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			child_has_its_socket_and_nothing_of_the_parent),
		cmocka_unit_test(killed_child_closes_its_socket),
		cmocka_unit_test(child_is_realtime_while_that_is_wanted),
		cmocka_unit_test(an_end_from_outside_is_reported_once),
		cmocka_unit_test(an_end_that_was_caused_is_not_reported),
		cmocka_unit_test(only_its_arguments_make_a_child),
		cmocka_unit_test(child_that_does_not_know_itself_starts_none),
		cmocka_unit_test(missing_program_is_an_error),
	};

	if (fgt_self_child_is_asked(argc, argv, NAME, VERB))
		describe();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
