/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps ends of children that this process caused apart from all other ends. Runs
 * in any thread; must not wait for a child.
 */
#include "agent/children/child_ends.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/children/self_child.h"

#define CHILDREN_MAX 256
#define TEXT_SIZE    160

struct child {
	int pid_fd, pid; /* pid 0: a free place */
	uint32_t uid;
	const char *name;
	bool is_lost; /* it has closed its socket */
	bool is_killed; /* by this process */
};

/* Protects the table. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct child children[CHILDREN_MAX];
static _Atomic(void (*)(const char *)) explain;
static atomic_ullong ends;

/* Lock held. pid_fd -1: a free place. NULL: there is none. */
static struct child *find(int pid_fd)
{
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (pid_fd < 0
			    ? !children[i].pid
			    : children[i].pid && children[i].pid_fd == pid_fd)
			return &children[i];
	return NULL;
}

/* One whose end is not looked at any more has left its number to this one. */
void fgt_child_ends_begin(const struct fgt_self_child *child, int pid,
			  int pid_fd)
{
	struct child *place;

	pthread_mutex_lock(&lock);
	place = find(pid_fd);
	if (!place)
		place = find(-1);
	if (place)
		*place = (struct child){ .pid_fd = pid_fd,
					 .pid = pid,
					 .uid = child->uid,
					 .name = child->name };
	pthread_mutex_unlock(&lock);
}

void fgt_child_ends_lose(int pid_fd)
{
	struct child *child;

	pthread_mutex_lock(&lock);
	child = pid_fd < 0 ? NULL : find(pid_fd);
	if (child)
		child->is_lost = true;
	pthread_mutex_unlock(&lock);
}

/* It stays to be reaped. */
static bool has_ended(int pid_fd, siginfo_t *ret_info)
{
	ret_info->si_pid = 0;
	return waitid(P_PIDFD, (id_t)pid_fd, ret_info,
		      WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ret_info->si_pid != 0;
}

void fgt_child_ends_expect(int pid_fd)
{
	struct child *child;
	siginfo_t info;

	pthread_mutex_lock(&lock);
	child = find(pid_fd);
	if (child && !child->is_lost && !has_ended(pid_fd, &info))
		child->is_killed = true;
	pthread_mutex_unlock(&lock);
}

static void report(const struct child *child, const siginfo_t *info)
{
	void (*to)(const char *) =
		atomic_load_explicit(&explain, memory_order_relaxed);
	const char *signal_name = sigabbrev_np(info->si_status);
	char text[TEXT_SIZE];
	int len;

	/* Status 0: it ends so when its socket is closed. */
	if (child->is_killed ||
	    (info->si_code == CLD_EXITED && info->si_status == 0))
		return;
	len = snprintf(text, sizeof(text), "%s (pid %d, for user %u) ",
		       child->name, child->pid, child->uid);
	atomic_fetch_add_explicit(&ends, 1, memory_order_relaxed);
	if (!to)
		return;
	if (info->si_code == CLD_EXITED)
		snprintf(text + len, sizeof(text) - (size_t)len,
			 "ended with status %d", info->si_status);
	else
		snprintf(text + len, sizeof(text) - (size_t)len,
			 "was ended by signal %d (%s)", info->si_status,
			 signal_name ? signal_name : "?");
	to(text);
}

void fgt_child_ends_note(int pid_fd, const siginfo_t *info)
{
	struct child *found, child = { .pid = 0 };

	pthread_mutex_lock(&lock);
	found = find(pid_fd);
	if (found) {
		child = *found;
		found->pid = 0;
	}
	pthread_mutex_unlock(&lock);
	if (child.pid == info->si_pid)
		report(&child, info);
}

void fgt_child_ends_look(void)
{
	for (size_t i = 0; i < CHILDREN_MAX; i++) {
		struct child child = { .pid = 0 };
		siginfo_t info;

		pthread_mutex_lock(&lock);
		if (children[i].pid && has_ended(children[i].pid_fd, &info)) {
			child = children[i];
			children[i].pid = 0;
		}
		pthread_mutex_unlock(&lock);
		if (child.pid && child.pid == info.si_pid)
			report(&child, &info);
	}
}

void fgt_child_ends_watch(void (*explain_function)(const char *text))
{
	atomic_store_explicit(&explain, explain_function, memory_order_relaxed);
}

uint64_t fgt_child_ends_count(void)
{
	return atomic_load_explicit(&ends, memory_order_relaxed);
}
