/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/…/status shows of a thread that shall get a signal. Runs in the
 * sampler's thread.
 */
#include "agent/embed/signal/signal_permission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/capture/threads/procfs.h"
#include "agent/embed/signal/running_signal_slot.h"

#define STATUS_BYTES 4096
#define CALL_BYTES   256

#define RETRY_NS 1000000000u
/* Pauses of a thread that blocks the signal: many do for a moment only, in
 * pthread_create(3), and many for ever. A thread whose stack has no room gets
 * the same pauses. */
#define RETRY_FIRST_NS	20000000u
#define RETRY_DOUBLINGS 6u
#define RETRY_ASLEEP_NS 50000000u /* it may be found running then */

/* The number behind a key; 0 if the kernel does not show it. */
static unsigned long long number_of(const char *status, const char *key,
				    int base)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

static unsigned long count_filters(const char *status)
{
	return (unsigned long)number_of(status, "\nSeccomp_filters:\t", 10);
}

/* How often it has gone to sleep. */
static unsigned long long count_sleeps(const char *status)
{
	return number_of(status, "\nvoluntary_ctxt_switches:\t", 10);
}

unsigned long fgt_signal_permission_filters(void)
{
	char status[STATUS_BYTES];

	if (fgt_procfs_read(AT_FDCWD, "/proc/thread-self/status", status,
			    sizeof(status)) < 0)
		return 0;
	return count_filters(status);
}

/* The count of filters is shown since Linux 5.9 only, the mode long before. */
bool fgt_signal_permission_is_free(void)
{
	char status[STATUS_BYTES];

	return fgt_procfs_read(AT_FDCWD, "/proc/thread-self/status", status,
			       sizeof(status)) > 0 &&
	       strstr(status, "\nSeccomp:\t0\n");
}

static bool is_runnable(const char *status)
{
	return strstr(status, "\nState:\tR") != NULL;
}

static bool is_blocked(const char *status, int number)
{
	return number_of(status, "\nSigBlk:\t", 16) >> (number - 1) & 1;
}

int fgt_signal_permission_parse(const char *status, int number,
				unsigned long own_filters)
{
	if (!strstr(status, "\nSigBlk:\t") ||
	    count_filters(status) > own_filters)
		return -EPERM;
	if (!is_runnable(status))
		return -EAGAIN;
	return is_blocked(status, number) ? -EACCES : 0;
}

/* Does it sleep in a call that never touches what it blocks? */
static bool is_plain(const char *syscall_line)
{
	static const long plain[] = {
#ifdef SYS_epoll_wait
		SYS_epoll_wait,
#endif
#ifdef SYS_poll
		SYS_poll,
#endif
		SYS_futex,	SYS_nanosleep, SYS_clock_nanosleep, SYS_read,
		SYS_readv,	SYS_write,     SYS_recvfrom,	    SYS_recvmsg,
		SYS_sendto,	SYS_accept,    SYS_accept4,	    SYS_fsync,
	};
	char *end;
	long call = strtol(syscall_line, &end, 10);

	if (end == syscall_line)
		return false;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (call == plain[i])
			return true;
	return false;
}

/*
 * The kernel writes a status from top to bottom while the thread may go on:
 * what was counted at its end holds for the second one from its beginning.
 */
int fgt_signal_permission_judge(const char *before, const char *syscall_line,
				const char *after, int number)
{
	unsigned long long sleeps = count_sleeps(before);

	if (!is_plain(syscall_line) || is_runnable(after) || !sleeps ||
	    count_sleeps(after) != sleeps)
		return -EAGAIN;
	return is_blocked(after, number) ? -EACCES : 0;
}

static int read_of(int32_t tid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	return fgt_procfs_read(AT_FDCWD, path, text, size);
}

int fgt_signal_permission_ask(int32_t tid, int number,
			      unsigned long own_filters)
{
	char status[STATUS_BYTES], call[CALL_BYTES], after[STATUS_BYTES];
	int rc;

	if (read_of(tid, "status", status, sizeof(status)) < 0)
		return -ESRCH;
	rc = fgt_signal_permission_parse(status, number, own_filters);
	if (rc != -EAGAIN || read_of(tid, "syscall", call, sizeof(call)) < 0 ||
	    read_of(tid, "status", after, sizeof(after)) < 0)
		return rc;
	return fgt_signal_permission_judge(status, call, after, number);
}

bool fgt_signal_has_safe_stacks(const struct fgt_thread *thread)
{
	return !thread->active->interrupted_sp ||
	       thread->active->has_room_aside ||
	       !atomic_load_explicit(&fgt_signal_table.is_alternate_used,
				     memory_order_relaxed);
}

/* ---- Refusals ---------------------------------------------------------- */

uint64_t fgt_signal_refusals_pause(struct fgt_thread *thread, int rc)
{
	if (rc == -EAGAIN)
		return RETRY_ASLEEP_NS;
	if ((rc != -EACCES && rc != -ENOSPC) ||
	    thread->signal_refusals == RETRY_DOUBLINGS)
		return RETRY_NS;
	return RETRY_FIRST_NS << thread->signal_refusals++;
}

void fgt_signal_refusals_note(struct fgt_why *why, struct fgt_thread *thread,
			      int rc, int number)
{
	if (rc == -EPERM && !fgt_signal_has_safe_stacks(thread))
		fgt_signal_refusals_note_foreign(why, thread);
	if (thread->signal_refusals < RETRY_DOUBLINGS || why->text[0])
		return;
	if (rc == -EACCES)
		(void)fgt_why_set(
			why, rc,
			"threads that block SIG%s have no stacks while they "
			"run: unblock it in them, or let an agent sample the "
			"program",
			sigabbrev_np(number));
	else if (rc == -ENOSPC)
		(void)fgt_why_set(
			why, rc,
			"threads whose stack is nearly full or locked in "
			"memory (mlockall) have no stacks while they run: give "
			"them larger ones that are not locked, or let an agent "
			"sample the program");
}

void fgt_signal_refusals_note_foreign(struct fgt_why *why,
				      struct fgt_thread *thread)
{
	thread->is_fragile = true;
	if (why->text[0])
		return;
	(void)fgt_why_set(
		why, -ENOSPC,
		"threads on unknown stacks (coroutines), or with a small "
		"alternate one, have no stacks while they run: there may be "
		"no room for a signal: give them an alternate one "
		"(sigaltstack) of %llu KiB or more, or let an agent sample the "
		"program",
		(unsigned long long)(fgt_signal_table.alternate_least + 1023) /
			1024);
}
