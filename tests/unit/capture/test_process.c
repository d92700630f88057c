/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity of processes: the stat parser's zoo, and real processes that live,
 * end, are zombies, threads or kernel threads.
 */
#include "agent/capture/threads/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/capture/threads/child_pid.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/owner.h"

#define CHILDREN 4
#define REST	 " 1 2 3 4 -1 4194560 7 8 9 10 11 12 13 14 20 0 1 0 98765 15 16\n"

static int parse(const char *text, struct fgt_stat *stat)
{
	return fgt_stat_parse(text, strlen(text), stat);
}

/* Fault X10. */
static void names_with_any_character_are_taken_whole(void **state)
{
	static const char *const names[] = {
		"bash",	   "a b", ")", "(",    "((sd-pam))",	  ") S 1 2 3",
		"x)\\n(y", "",	  "(", "%n%s", "0123456789abcde",
	};
	char text[256];
	struct fgt_stat stat;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "42 (%s) S" REST, names[i]);
		assert_int_equal(parse(text, &stat), 0);
		assert_int_equal(stat.id, 42);
		assert_string_equal(stat.name, names[i]);
		assert_int_equal(stat.state, 'S');
		assert_int_equal(stat.parent_pid, 1);
		assert_int_equal(stat.flags, 4194560);
		assert_int_equal(stat.start_time, 98765);
	}
}

static void malformed_lines_are_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"42",
		"42 (",
		"42 )(",
		"42 (a)",
		"42 (a) ",
		"42 (a) S",
		"42 (a) S ",
		"42 (a) S 1 2 3",
		"x (a) S" REST,
		"-1 (a) S" REST,
		"99999999999 (a) S" REST,
		"42 (a)S" REST,
		"42 (a) S 99999999999 2 3 4 5 6 7 8 9 1 1 1 1 1 1 1 1 1 1",
		"42 (a) S 1 2 3 4 -1 99999999999999999999999 7 8 9 10 11 12",
		"42 (a) S 1 2 x 4 -1 1 7 8 9 10 11 12 13 14 20 0 1 0 98765",
	};
	struct fgt_stat stat;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(parse(lines[i], &stat), -EBADMSG);
}

static void a_cut_line_never_reads_past_its_end(void **state)
{
	const char *line = "42 (a) S" REST;
	struct fgt_stat stat;

	(void)state;
	for (size_t len = 0; len <= strlen(line); len++) {
		char *copy = malloc(len ? len : 1);

		memcpy(copy, line, len);
		fgt_stat_parse(copy, len, &stat);
		free(copy);
	}
}

static pid_t start_child(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return child;
}

static void a_process_is_alive_until_it_ends(void **state)
{
	pid_t child = start_child();
	struct fgt_process process;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_process_open(child, &process, &why), 0);
	assert_int_equal(process.pid, child);
	assert_true(process.start_time > 0);
	assert_true(fgt_process_is_alive(&process));
	assert_true(fcntl(process.pidfd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fgt_process_check_access(&process, &why), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_false(fgt_process_is_alive(&process));
	assert_int_equal(fgt_process_check_access(&process, &why), -ESRCH);
	fgt_process_close(&process);
	assert_int_equal(process.pidfd, -1);
	assert_int_equal(fgt_process_open(child, &process, &why), -ESRCH);
	assert_non_null(strstr(why.text, "no process"));
}

static void a_zombie_is_no_process_any_more(void **state)
{
	pid_t child = start_child();
	struct fgt_process process;
	struct fgt_why why = { "" };
	siginfo_t info;

	(void)state;
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT),
			 0);
	assert_int_equal(fgt_process_open(child, &process, &why), -ESRCH);
	assert_non_null(strstr(why.text, "zombie"));
	waitpid(child, NULL, 0);
}

static void *report_tid(void *context)
{
	int *pipe_fds = context;
	int32_t tid = (int32_t)syscall(SYS_gettid);
	char byte;

	assert_int_equal(write(pipe_fds[1], &tid, sizeof(tid)), sizeof(tid));
	assert_int_equal(read(pipe_fds[2], &byte, 1), 0);
	return NULL;
}

static void a_thread_number_is_refused_with_a_remedy(void **state)
{
	int there[2], back[2], fds[3];
	struct fgt_process process;
	struct fgt_why why = { "" };
	pthread_t thread;
	int32_t tid;

	(void)state;
	assert_int_equal(pipe(there), 0);
	assert_int_equal(pipe(back), 0);
	fds[0] = there[0];
	fds[1] = there[1];
	fds[2] = back[0];
	assert_int_equal(pthread_create(&thread, NULL, report_tid, fds), 0);
	assert_int_equal(read(there[0], &tid, sizeof(tid)), sizeof(tid));
	assert_int_equal(fgt_process_open(tid, &process, &why), -EINVAL);
	assert_non_null(strstr(why.text, "is a thread"));
	close(back[1]);
	pthread_join(thread, NULL);
	close(back[0]);
	close(there[0]);
	close(there[1]);
}

static void numbers_that_are_no_process_are_refused(void **state)
{
	struct fgt_process process;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_process_open(0, &process, &why), -EINVAL);
	assert_int_equal(fgt_process_open(-5, &process, &why), -EINVAL);
	assert_int_equal(fgt_process_open(INT32_MAX, &process, &why), -ESRCH);
	/* kthreadd, where this machine shows it */
	if (access("/proc/2/exe", F_OK) < 0 && access("/proc/2", F_OK) == 0)
		assert_int_equal(fgt_process_open(2, &process, &why), -EINVAL);
}

static void own_information_is_complete(void **state)
{
	struct fgt_process process;
	struct fgt_process_info info;

	(void)state;
	prctl(PR_SET_NAME, "a) S (b");
	assert_int_equal(fgt_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(fgt_process_get_info(&process, &info), 0);
	assert_int_equal(info.pid, getpid());
	assert_int_equal(info.uid, getuid());
	assert_int_equal(info.start_time, process.start_time);
	assert_string_equal(info.name, "a) S (b");
	assert_int_equal(info.exe[0], '/');
	assert_true(info.host[0] && info.arch[0] && info.os_release[0]);
	fgt_process_close(&process);
}

struct search {
	pid_t wanted;
	int found, kernel_threads;
	int32_t parent;
};

static int search_visit(void *context, const struct fgt_process_info *info,
			int32_t parent_pid)
{
	struct search *search = context;

	if (info->pid == 2)
		search->kernel_threads++;
	if (info->pid != search->wanted)
		return 0;
	search->found++;
	search->parent = parent_pid;
	return 7;
}

static void visit_ends_at_the_first_return_that_is_not_zero(void **state)
{
	struct search search = { .wanted = start_child() };
	struct search none = { .wanted = -1 };

	(void)state;
	assert_int_equal(fgt_process_for_each(search_visit, &search), 7);
	assert_int_equal(search.found, 1);
	assert_int_equal(search.parent, getpid());
	kill(search.wanted, SIGKILL);
	waitpid(search.wanted, NULL, 0);
	assert_int_equal(fgt_process_for_each(search_visit, &none), 0);
	assert_int_equal(none.found, 0);
}

/* Fault X16. */
static void a_process_that_is_not_dumpable_is_explained(void **state)
{
	int ready[2];
	pid_t child;
	char byte;
	struct fgt_process process;
	struct fgt_why why = { "" };

	(void)state;
	if (geteuid() == 0)
		skip();
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 0);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(fgt_process_open(child, &process, &why), 0);
	assert_true(fgt_process_check_access(&process, &why) < 0);
	assert_non_null(strstr(why.text, "not dumpable"));
	fgt_process_close(&process);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

static void another_users_process_is_explained(void **state)
{
	struct fgt_process process;
	struct fgt_why why = { "" };
	int rc;

	(void)state;
	if (geteuid() == 0)
		skip();
	assert_int_equal(fgt_process_open(1, &process, &why), 0);
	rc = fgt_process_check_access(&process, &why);
	assert_true(rc == -EPERM || rc == -EACCES);
	assert_non_null(strstr(why.text, "belongs to user 0"));
	assert_non_null(strstr(why.text, "CAP_SYS_PTRACE"));
	fgt_process_close(&process);
}

/* As the program's pipe in the place of a descriptor of the recorder. */
static void a_pipe_keeps_its_bytes(void **state)
{
	char path[] = "/tmp/fgt-process-XXXXXX", text[8] = "";
	int fd;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(chdir(path), 0);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	fd = open("pipe", O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fd, "kept", 4), 4);
	assert_int_equal(fgt_procfs_read(AT_FDCWD, "pipe", text, sizeof(text)),
			 -ESPIPE);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	assert_string_equal(text, "kept");
	close(fd);
	assert_int_equal(unlink("pipe"), 0);
	assert_int_equal(rmdir(path), 0);
}

/* A process that is number 1 there, with children 2 to 5; -1: not permitted. */
static pid_t start_namespace(void)
{
	FGT_AUTO(fgt_fd_close)
	int outer = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	int ready[2];
	pid_t first;
	char byte;

	if (unshare(CLONE_NEWPID) < 0)
		return -1;
	assert_int_equal(pipe(ready), 0);
	first = fork();
	if (first == 0) {
		for (int i = 0; i < CHILDREN; i++)
			if (fork() == 0)
				for (;;)
					pause();
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(setns(outer, CLONE_NEWPID), 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return first;
}

static void children_of_a_namespace_are_found_within_the_limit(void **state)
{
	pid_t first = start_namespace();
	uint32_t left = 10;
	int32_t last;
	char path[32];
	FGT_AUTO(fgt_fd_close) int proc_fd = -1;

	(void)state;
	if (first < 0)
		skip();
	snprintf(path, sizeof(path), "/proc/%d", first);
	proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	last = fgt_child_pid(proc_fd, first, first, CHILDREN + 1, &left);
	assert_true(last > first);
	assert_int_equal(left, 10 - CHILDREN);
	/* All are read for one that there is not. */
	assert_int_equal(fgt_child_pid(proc_fd, first, first, 99, &left), 0);
	assert_int_equal(left, 10 - 2 * CHILDREN);
	/* What is left is not enough for the last one. */
	assert_int_equal(
		fgt_child_pid(proc_fd, first, first, CHILDREN + 1, &left), 0);
	assert_int_equal(left, 0);
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_int_equal(waitpid(first, NULL, 0), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_with_any_character_are_taken_whole),
		cmocka_unit_test(malformed_lines_are_refused),
		cmocka_unit_test(a_cut_line_never_reads_past_its_end),
		cmocka_unit_test(a_process_is_alive_until_it_ends),
		cmocka_unit_test(a_zombie_is_no_process_any_more),
		cmocka_unit_test(a_thread_number_is_refused_with_a_remedy),
		cmocka_unit_test(numbers_that_are_no_process_are_refused),
		cmocka_unit_test(own_information_is_complete),
		cmocka_unit_test(
			visit_ends_at_the_first_return_that_is_not_zero),
		cmocka_unit_test(a_process_that_is_not_dumpable_is_explained),
		cmocka_unit_test(another_users_process_is_explained),
		cmocka_unit_test(a_pipe_keeps_its_bytes),
		cmocka_unit_test(
			children_of_a_namespace_are_found_within_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
