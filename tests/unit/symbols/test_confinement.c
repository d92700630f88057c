/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of agent/children/confinement and syscall_filter: what a real helper
 * may do, and what happens to a child that does more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/children/free_uid.h"
#include "agent/symbols/helper/helper.h"

/* How a child ends that does this behind a filter. */
static int end_behind(int (*set_filter)(void), int (*act)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		alarm(20);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || set_filter())
			_exit(99);
		_exit(act());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int end_of(int (*act)(void))
{
	return end_behind(fgt_syscall_filter_set, act);
}

static int do_open(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY) < 0 ? errno : 0;
}

static int do_set_limit(void)
{
	const struct rlimit limit = { 0, 0 };

	return syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL) ? errno : 0;
}

static int do_get_limit(void)
{
	struct rlimit limit;

	return syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &limit) ? errno : 0;
}

static int do_signal_another(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), 0) ? errno : 0;
}

static int do_abort(void)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGABRT);
	return 0;
}

static int do_execute(void)
{
	char *none[] = { NULL };

	return syscall(SYS_execve, "/bin/true", none, none) ? errno : 0;
}

static int do_socket(void)
{
	return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int do_kill(void)
{
	return syscall(SYS_kill, 1, 0) ? errno : 0;
}

static void calls_that_are_not_needed_get_eperm(void **state)
{
	(void)state;
	assert_int_equal(end_of(do_open), EPERM);
	assert_int_equal(end_of(do_set_limit), EPERM);
	assert_int_equal(end_of(do_signal_another), EPERM);
}

/* Fault U6. */
static void calls_of_an_intruder_kill_the_process(void **state)
{
	(void)state;
	assert_int_equal(end_of(do_execute), -SIGSYS);
	assert_int_equal(end_of(do_socket), -SIGSYS);
	assert_int_equal(end_of(do_kill), -SIGSYS);
}

static int do_ptrace(void)
{
	return syscall(SYS_ptrace, 0, 0, NULL, NULL) < 0 ? errno : 0;
}

static int do_connect(void)
{
	return syscall(SYS_connect, 0, NULL, 0) < 0 ? errno : 0;
}

static int do_accept(void)
{
	return syscall(SYS_accept4, 0, NULL, NULL, 0) < 0 ? errno : 0;
}

static int do_read(void)
{
	char byte;

	return syscall(SYS_pread64, 0, &byte, 1, 0) < 0 ? errno : 0;
}

static int do_get_memory(void)
{
	return malloc(1 << 20) && malloc(100) ? 0 : 1;
}

/* Fault C9. */
static void filter_of_fronts_leaves_a_socket_and_memory(void **state)
{
	int (*const refused[])(void) = { do_open, do_read, do_accept,
					 do_set_limit };
	int (*const deadly[])(void) = { do_execute, do_socket, do_connect,
					do_ptrace, do_kill };

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		assert_int_equal(
			end_behind(fgt_syscall_filter_answer, refused[i]),
			EPERM);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		assert_int_equal(
			end_behind(fgt_syscall_filter_answer, deadly[i]),
			-SIGSYS);
	assert_int_equal(end_behind(fgt_syscall_filter_answer, do_get_memory),
			 0);
	assert_int_equal(end_behind(fgt_syscall_filter_answer, do_abort),
			 -SIGABRT);
}

static void delivery_filter_refuses_what_uploads_do_not_need(void **state)
{
	(void)state;
	assert_int_equal(end_behind(fgt_syscall_filter_forbid, do_open), 0);
	assert_int_equal(end_behind(fgt_syscall_filter_forbid, do_socket), 0);
	assert_int_equal(end_behind(fgt_syscall_filter_forbid, do_execute),
			 EPERM);
	assert_int_equal(end_behind(fgt_syscall_filter_forbid, do_kill), EPERM);
}

#ifdef __x86_64__
static int do_x32(void)
{
	return syscall(0x40000000 | SYS_getpid) < 0 ? errno : 0;
}

static void call_by_its_x32_number_ends_the_process(void **state)
{
	(void)state;
	assert_int_equal(end_of(do_x32), -SIGSYS);
	assert_int_equal(end_behind(fgt_syscall_filter_forbid, do_x32),
			 -SIGSYS);
}
#endif

static void limits_can_be_read_and_abort_works(void **state)
{
	(void)state;
	assert_int_equal(end_of(do_get_limit), 0);
	assert_int_equal(end_of(do_abort), -SIGABRT);
}

/* The number after a label in a file of /proc; fails the test if none. */
static uint64_t read_number(const char *path, const char *label, int base)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen(path, "re");
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, label, strlen(label)))
			return strtoull(line + strlen(label), NULL, base);
	fail_msg("no %s in %s", label, path);
	return 0;
}

/* Only a user that may look into all processes sees descriptors. */
static void expect_descriptors(unsigned int pid)
{
	static const char *const expected[] = { "/dev/null", "/dev/null",
						"/dev/null", "socket:" };
	char path[64], target[256];

	for (int i = 0; i < 64; i++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, i);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0 && errno == EACCES)
			return;
		assert_int_equal(len > 0, i < 4);
		if (i < 4)
			assert_memory_equal(target, expected[i],
					    strlen(expected[i]));
	}
}

/* The helper of root has a user that nothing else has. */
static void expect_user(const char *path)
{
	uint64_t uid = read_number(path, "Uid:", 10);
	uint32_t other;

	if (getuid()) {
		assert_int_equal(uid, getuid());
		return;
	}
	assert_in_range(uid, FGT_FREE_UID_FIRST, FGT_FREE_UID_LAST);
	assert_int_equal(read_number(path, "Gid:", 10), uid);
	/* A second helper does not get it. */
	assert_int_equal(
		fgt_free_uid_find((uint32_t)uid - FGT_FREE_UID_FIRST, &other),
		0);
	assert_int_not_equal(other, uid);
}

/* errno with which a process of user 65534 fails to signal another one, or
 * 0. */
static int end_as_nobody(unsigned int pid)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		if (!getuid() && setresuid(65534, 65534, 65534))
			_exit(99);
		_exit(kill((pid_t)pid, SIGCONT) < 0 ? errno : 0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void a_helper_has_no_rights(void **state)
{
	const struct fgt_helper_request request = { .image = 1,
						    .address_count = 1 };
	struct fgt_helper helper = FGT_HELPER_NONE;
	struct fgt_memory_sink reply;
	const uint64_t address = 4096;
	int64_t left_ms = 60000;
	unsigned int pid;
	char path[64];

	(void)state;
	fgt_memory_sink_init(&reply, FGT_HELPER_REPLY_MAX);
	assert_int_equal(fgt_helper_ask(&helper, &request, &address, NULL,
					&left_ms, &reply),
			 -ENOENT);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", helper.pid_fd);
	pid = (unsigned int)read_number(path, "Pid:", 10);
	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	assert_int_equal(read_number(path, "CapPrm:", 16), 0);
	assert_int_equal(read_number(path, "CapEff:", 16), 0);
	assert_int_equal(read_number(path, "CapAmb:", 16), 0);
	assert_int_equal(read_number(path, "NoNewPrivs:", 10), 1);
	assert_int_equal(read_number(path, "Seccomp:", 10), 2);
	expect_user(path);
	assert_int_equal(end_as_nobody(pid), getuid() ? 0 : EPERM);
	expect_descriptors(pid);
	fgt_helper_stop(&helper);
	fgt_memory_sink_done(&reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_has_no_rights),
		cmocka_unit_test(calls_that_are_not_needed_get_eperm),
		cmocka_unit_test(calls_of_an_intruder_kill_the_process),
		cmocka_unit_test(filter_of_fronts_leaves_a_socket_and_memory),
		cmocka_unit_test(
			delivery_filter_refuses_what_uploads_do_not_need),
#ifdef __x86_64__
		cmocka_unit_test(call_by_its_x32_number_ends_the_process),
#endif
		cmocka_unit_test(limits_can_be_read_and_abort_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
