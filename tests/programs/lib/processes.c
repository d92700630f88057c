/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that become other programs, or many: faults S6 and S7.
 *
 * processes exec RUNS COUNT   runs chains of COUNT programs each, every other
 *                             one with $ZOO_PRELOAD preloaded; prints how many
 *                             chains did not reach their end
 * processes fork COUNT        children by fork, and some by vfork, posix_spawn
 *                             and fork with exec
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

#define CHAIN_STATUS 7
#define CHAINS	     2 /* at a time */
#define SPAWN_EVERY  100u
#define EXIT_EVERY   97u

extern char **environ;

/* ---- exec -------------------------------------------------------------- */

static int become_next(unsigned int left)
{
	const char *preload = getenv("ZOO_PRELOAD");
	char count[16];

	if (left % 2 == 0 && preload)
		setenv("LD_PRELOAD", preload, 1);
	else
		unsetenv("LD_PRELOAD");
	snprintf(count, sizeof(count), "%u", left);
	execl("/proc/self/exe", "processes", "chain", count, (char *)NULL);
	return 3;
}

/* Long enough that signals are pending when the next program starts. */
static int chain(unsigned int left)
{
	if (left % 2 == 0)
		zoo_begin();
	zoo_start_burners(2);
	zoo_burn_ms(left % 2 ? 2 : 4);
	return left ? become_next(left - 1) : CHAIN_STATUS;
}

static int run_chains(unsigned int runs, unsigned int count)
{
	unsigned int started = 0, ended = 0, dead = 0;

	while (ended < runs) {
		int status;

		if (started < runs && started - ended < CHAINS) {
			if (fork() == 0)
				_exit(become_next(count));
			started++;
			continue;
		}
		if (wait(&status) < 0)
			break;
		ended++;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != CHAIN_STATUS) {
			printf("# status %x\n", (unsigned int)status);
			dead++;
		}
	}
	return zoo_note("exec", dead + runs - ended);
}

/* ---- fork -------------------------------------------------------------- */

/* In a program after exec: what it inherited from its parent. */
static int look(void)
{
	/* The folder that is read has a descriptor, too. */
	int extra = (int)zoo_count_entries("/proc/self/fd") - 4;

	for (int fd = 3; extra > 0 && fd < 1024; fd++) {
		char path[32], target[256];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len > 0)
			printf("# inherited %.*s\n", (int)len, target);
	}
	return extra + (zoo_count_lines("/proc/self/timers") > 0) +
	       (zoo_count_entries("/proc/self/task") != 1);
}

/* In a child: no part of a recorder still works. */
static int look_at_child(unsigned int number)
{
	sigset_t pending;
	void *memory = malloc(number % 7000 + 1);
	bool is_right = memory && zoo_count_entries("/proc/self/task") == 1 &&
			zoo_count_lines("/proc/self/timers") == 0;

	free(memory);
	sigpending(&pending);
	return is_right && sigisemptyset(&pending) ? (int)(number % 90) : 91;
}

static pid_t start_look(unsigned int kind)
{
	char *arguments[] = { "processes", "look", NULL };
	pid_t child = -1;

	if (kind == 0) {
		posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments,
			    environ);
		return child;
	}
	child = kind == 1 ? vfork() : fork();
	if (child == 0) {
		execve("/proc/self/exe", arguments, environ);
		_exit(92);
	}
	return child;
}

/* True if the child did not end as it should. */
static bool ends_wrongly(pid_t child, int expected)
{
	int status = -1;

	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == expected)
		return false;
	printf("# child ended with %x\n", (unsigned int)status);
	return true;
}

static int fork_often(unsigned int count)
{
	unsigned int wrong = 0, spawned_wrong = 0;
	unsigned int fds, threads;

	zoo_start_burners(1);
	zoo_burn_ms(300);
	/* A recorder works on in this process, but not in these children. */
	unsetenv("LD_PRELOAD");
	unsetenv("ZOO_START");
	fds = zoo_count_entries("/proc/self/fd");
	threads = zoo_count_entries("/proc/self/task");
	for (unsigned int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child == 0 && i % EXIT_EVERY == 0)
			exit(look_at_child(i));
		if (child == 0)
			_exit(look_at_child(i));
		wrong += ends_wrongly(child, (int)(i % 90));
		if (i % SPAWN_EVERY == 0)
			spawned_wrong += ends_wrongly(
				start_look(i / SPAWN_EVERY % 3), 0);
	}
	wrong = zoo_note("fork", wrong);
	spawned_wrong = zoo_note("spawn", spawned_wrong);
	zoo_burn_ms(100);
	return (int)(wrong | spawned_wrong) |
	       zoo_note("threads afterwards",
			zoo_count_entries("/proc/self/task") != threads) |
	       zoo_note("descriptors afterwards",
			zoo_count_entries("/proc/self/fd") > fds + 2);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	int status;

	if (strcmp(mode, "look") == 0)
		return look();
	if (strcmp(mode, "chain") == 0)
		return chain(count);
	if (strcmp(mode, "exec") == 0 && argc == 4)
		return run_chains(count, (unsigned int)atoi(argv[3]));
	if (strcmp(mode, "fork") != 0)
		return 2;
	zoo_begin();
	status = fork_often(count);
	zoo_end();
	return status;
}
