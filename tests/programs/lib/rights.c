/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that root starts and that becomes an ordinary user's, N times: each
 * time in a new process, so that the change meets the recorder's threads at
 * another instant.
 *
 * rights keep|drop|thread|confine N
 *     keep: keeps its capabilities for the change of its groups, as setpriv(1)
 *         does, and starts the recorder afterwards, as fgtrace.h asks
 *     drop: the first thread gives up its capabilities while recorded
 *     thread: another thread does
 *     confine: a filter that kills the process at capget() or capset() follows
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

#define NOBODY	65534
#define WAIT_MS 1000

#define SIGNAL_SETXID 33 /* of glibc */

static bool is_right = true;

static void expect(const char *what, bool is_so)
{
	if (!is_so)
		printf("%s: %s\n", what, strerror(errno));
	is_right &= is_so;
}

/* Capabilities of all kinds in one thread's status, bounds aside. */
static bool has_any(const char *tid)
{
	char path[64], line[256], kind[4];
	unsigned long long set;
	bool is_any = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", tid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Cap%3s: %llx", kind, &set) == 2 &&
		    strcmp(kind, "Bnd") != 0)
			is_any |= set != 0;
	if (file)
		fclose(file);
	return is_any;
}

static unsigned int count_capable(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned int count = 0;
	struct dirent *entry;

	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			count += has_any(entry->d_name);
	if (tasks)
		closedir(tasks);
	return count;
}

static void expect_none_capable(void)
{
	unsigned int waited_ms = 0;

	while (count_capable() && waited_ms++ < WAIT_MS)
		zoo_sleep_ms(1);
	expect("no thread has capabilities", count_capable() == 0);
}

/* A recorder leaves the C library's private signal alone, by which the change
 * reaches all threads. */
static void expect_libc_handler(void)
{
	struct {
		void *handler;
		char rest[64];
	} action = { NULL, "" };
	Dl_info info = { .dli_fname = NULL };

	expect("handler of signal 33",
	       syscall(SYS_rt_sigaction, SIGNAL_SETXID, NULL, &action, 8) == 0);
	expect("it is the C library's",
	       !action.handler || (dladdr(action.handler, &info) &&
				   strstr(info.dli_fname, "/libc.so")));
}

static void keep(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct all[2], none[2];

	memset(none, 0, sizeof(none));
	expect("capget", syscall(SYS_capget, &header, all) == 0);
	expect("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
	expect("user", setresuid(NOBODY, NOBODY, NOBODY) == 0);
	expect("capset", syscall(SYS_capset, &header, all) == 0);
	expect("group", setresgid(NOBODY, NOBODY, NOBODY) == 0);
	expect("groups", setgroups(0, NULL) == 0);
	zoo_sleep_ms(30);
	expect("group, later", setresgid(NOBODY, NOBODY, NOBODY) == 0);
	expect("capset to none", syscall(SYS_capset, &header, none) == 0);
	zoo_begin();
	zoo_burn_ms(100);
}

static void drop(void)
{
	for (int i = 0; i < 10; i++) {
		expect("other user", seteuid(NOBODY) == 0);
		expect("back", seteuid(0) == 0);
	}
	expect("groups", setgroups(0, NULL) == 0);
	expect("group", setresgid(NOBODY, NOBODY, NOBODY) == 0);
	expect("user", setresuid(NOBODY, NOBODY, NOBODY) == 0);
	expect("never again", setuid(0) < 0 && errno == EPERM);
	expect("nor group", setgid(0) < 0 && errno == EPERM);
}

static void *drop_in_thread(void *unused)
{
	drop();
	return unused;
}

static void confine(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capget, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog filter = {
		.len = sizeof(code) / sizeof(code[0]), .filter = code
	};

	expect("no new privileges",
	       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	expect("filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				 SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
	zoo_sleep_ms(700);
}

static int change_once(const char *how)
{
	pthread_t thread;

	if (strcmp(how, "keep") == 0) {
		keep();
		expect_none_capable();
		expect_libc_handler();
		zoo_end();
		return !is_right;
	}
	zoo_begin();
	if (strcmp(how, "thread") == 0) {
		expect("thread", pthread_create(&thread, NULL, drop_in_thread,
						NULL) == 0);
		pthread_join(thread, NULL);
	} else {
		drop();
	}
	if (strcmp(how, "confine") == 0)
		confine();
	else
		expect_none_capable();
	expect_libc_handler();
	zoo_end();
	return !is_right;
}

static unsigned long run_again(char **argv)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		/* A recorder in each, with all the threads that it may have. */
		unsetenv("FGTRACE_PID");
		setenv("FGTRACE_ACTIVITY", "/dev/null", 1);
		execl("/proc/self/exe", argv[0], argv[1], NULL);
		_exit(3);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status != 0;
}

int main(int argc, char **argv)
{
	unsigned long wrong = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getuid() != 0)
		return 77;
	if (argc == 2)
		return change_once(argv[1]);
	if (argc != 3)
		return 2;
	for (int i = atoi(argv[2]); i > 0; i--)
		wrong += run_again(argv);
	return zoo_note(argv[1], wrong);
}
