/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes the configuration's targets mean, and whose they are.
 * Runs in one thread; forks children that only wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "agent/daemon/socket/permission.h"
#include "agent/daemon/targets/target_table.h"

static void names_match_comm_or_file_name(void **state)
{
	(void)state;
	assert_true(fgt_rule_is_name("redis", "redis", ""));
	assert_true(fgt_rule_is_name("redis", "io_thd_1", "/usr/bin/redis"));
	assert_false(fgt_rule_is_name("redis", "redis-server", ""));
	assert_false(fgt_rule_is_name("bin", "redis", "/usr/bin/redis"));
	/* The kernel keeps 15 bytes. */
	assert_true(fgt_rule_is_name("a-very-long-program-name",
				     "a-very-long-pro", ""));
	assert_false(fgt_rule_is_name("a-very-long-program-name",
				      "a-very-long-pro",
				      "/bin/a-very-long-program"));
	assert_false(fgt_rule_is_name("a-very-long", "a-very-long-pro", ""));
}

static void cgroups_match_themselves_and_below(void **state)
{
	static const char *const v2 = "0::/system.slice/app.service/worker\n";
	static const char *const v1 = "12:cpu,cpuacct:/a\n"
				      "1:name=systemd:/system.slice/b\n";

	(void)state;
	assert_true(fgt_rule_is_cgroup("system.slice/app.service", v2));
	assert_true(fgt_rule_is_cgroup("/system.slice/app.service/", v2));
	assert_true(fgt_rule_is_cgroup("system.slice", v2));
	assert_false(fgt_rule_is_cgroup("system.slice/app", v2));
	assert_false(fgt_rule_is_cgroup("app.service", v2));
	assert_true(fgt_rule_is_cgroup("system.slice/b", v1));
	assert_true(fgt_rule_is_cgroup("/a", v1));
	assert_false(fgt_rule_is_cgroup("name=systemd", v1));
	assert_false(fgt_rule_is_cgroup("/", v1));
	assert_false(fgt_rule_is_cgroup("a", ""));
	assert_false(fgt_rule_is_cgroup("a", ":\n\n::\n0:"));
}

static void rules_match_by_their_one_key(void **state)
{
	const struct fgt_process_info info = { .pid = 5,
					       .name = "worker",
					       .exe = "/srv/app" };
	struct fgt_process_info linked = { .pid = 6, .name = "rule" };
	struct fgt_config_target rule = { 0 };
	char link[40];

	(void)state;
	rule.pid = 5;
	assert_false(fgt_rule_is_match(&rule, &info));
	rule = (struct fgt_config_target){ .exe = (char *)"/srv/app" };
	assert_true(fgt_rule_is_match(&rule, &info));
	rule.exe = (char *)"/srv/ap";
	assert_false(fgt_rule_is_match(&rule, &info));
	snprintf(link, sizeof(link), "/tmp/fgt-rule-%d", getpid());
	rule.exe = link;
	assert_in_range(
		readlink("/proc/self/exe", linked.exe, sizeof(linked.exe) - 1),
		1, sizeof(linked.exe));
	assert_int_equal(symlink(linked.exe, link), 0);
	assert_true(fgt_rule_is_match(&rule, &linked));
	assert_false(fgt_rule_is_match(&rule, &info));
	unlink(link);
	rule = (struct fgt_config_target){ .name = (char *)"app" };
	assert_true(fgt_rule_is_match(&rule, &info));
	rule = (struct fgt_config_target){ .cgroup = (char *)"no/such" };
	assert_false(fgt_rule_is_match(&rule, &info));
}

/* A child that is as change makes it, and waits until it is killed. */
static int32_t start_child(int (*change)(void))
{
	int ends[2];
	char byte;
	int32_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (change() != 0 || write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	return pid;
}

static void end_child(int32_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static uint64_t start_time_of(int32_t pid)
{
	struct fgt_process process;
	struct fgt_why why;

	assert_int_equal(fgt_process_open(pid, &process, &why), 0);
	fgt_process_close(&process);
	return process.start_time;
}

static int become_nobody(void)
{
	/* Changing ids makes it undumpable until the next exec. */
	return setresgid(65534, 65534, 65534) ||
	       setresuid(65534, 65534, 65534) || prctl(PR_SET_DUMPABLE, 1);
}

static int become_guarded_nobody(void)
{
	return become_nobody() || prctl(PR_SET_DUMPABLE, 0);
}

static int become_half_nobody(void)
{
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 0) ||
	       prctl(PR_SET_DUMPABLE, 1);
}

static int stay(void)
{
	return 0;
}

static bool is_visible(const struct fgt_owner *owner, uint32_t uid,
		       uint32_t gid)
{
	return fgt_owner_is_visible_to(
		owner, &(struct fgt_peer){ .uid = uid, .gid = gid });
}

static bool is_seen_by_nobody(int (*change)(void))
{
	int32_t pid = start_child(change);
	struct fgt_owner owner;
	bool is_seen;

	assert_int_equal(fgt_owner_read(pid, start_time_of(pid), &owner), 0);
	is_seen = is_visible(&owner, 65534, 65534);
	assert_true(fgt_owner_is_visible_to(
		&owner, &(struct fgt_peer){ .is_root = true }));
	assert_false(is_visible(&owner, 65533, 65534));
	assert_false(is_visible(&owner, 65534, 65533));
	assert_false(is_visible(&owner, 0, 0)); /* root of elsewhere */
	assert_false(fgt_owner_is_visible_to(
		&owner, &(struct fgt_peer){ .uid = 65534,
					    .gid = 65534,
					    .is_stranger = true }));
	end_child(pid);
	return is_seen;
}

static void users_see_plain_processes_of_their_own(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_true(is_seen_by_nobody(become_nobody));
	assert_false(is_seen_by_nobody(become_guarded_nobody));
	assert_false(is_seen_by_nobody(become_half_nobody));
	assert_false(is_seen_by_nobody(stay));
}

static void another_process_with_the_pid_is_not_found(void **state)
{
	struct fgt_owner owner;
	uint64_t start_time = start_time_of(getpid());

	(void)state;
	assert_int_equal(fgt_owner_read(getpid(), start_time, &owner), 0);
	assert_int_equal(owner.uid, getuid());
	assert_int_equal(fgt_owner_read(getpid(), start_time + 1, &owner),
			 -ESRCH);
	assert_int_equal(fgt_owner_read(INT32_MAX, 1, &owner), -ESRCH);
}

static bool does_mean_the_same(int32_t pid, bool is_root)
{
	return fgt_pid_means_the_same_to(
		&(struct fgt_peer){ .pid = pid, .is_root = is_root });
}

static void own_pid_namespace_is_known(void **state)
{
	(void)state;
	assert_true(does_mean_the_same(getpid(), false));
	assert_false(does_mean_the_same(0, false));
	assert_false(does_mean_the_same(0, true));
	/* Nothing can be found out about it. */
	assert_false(does_mean_the_same(INT32_MAX, false));
	assert_true(does_mean_the_same(INT32_MAX, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_match_comm_or_file_name),
		cmocka_unit_test(cgroups_match_themselves_and_below),
		cmocka_unit_test(rules_match_by_their_one_key),
		cmocka_unit_test(users_see_plain_processes_of_their_own),
		cmocka_unit_test(another_process_with_the_pid_is_not_found),
		cmocka_unit_test(own_pid_namespace_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
