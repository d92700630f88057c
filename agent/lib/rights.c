/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities of the library's own threads. Runs in those threads; must never
 * add to what they have, nor make a system call that a filter which the program
 * has set since could punish.
 */
#include "agent/lib/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"
#include "ringbuf/base/owner.h"

#define SOON_NS	    UINT64_C(10000000)
#define PATIENCE_NS UINT64_C(500000000)
#define CAP_WORDS   _LINUX_CAPABILITY_U32S_3

/* Each thread's own. */
static struct own {
	pthread_t thread;
	bool is_begun;
	unsigned long filters; /* that it began under */
	unsigned int seen; /* of the changes */
	uint64_t until_ns; /* 0: nothing to follow */
	uint64_t next_ns; /* not before */
} owns[FGT_RIGHTS_THREADS];

static pthread_once_t hooked = PTHREAD_ONCE_INIT;

struct rights {
	struct __user_cap_data_struct words[CAP_WORDS];
};

static int call(long number, int32_t pid, struct rights *rights)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3, .pid = pid
	};

	return syscall(number, &header, rights->words) == 0 ? 0 : -errno;
}

static bool has_any(const struct rights *rights)
{
	uint32_t any = 0;

	for (unsigned int i = 0; i < CAP_WORDS; i++)
		any |= rights->words[i].permitted |
		       rights->words[i].inheritable;
	return any;
}

/* 0 if nobody knows: /proc may be out of reach by now. */
static unsigned long count_filters(void)
{
	static const char name[] = "\nSeccomp_filters:\t";
	char status[4096];
	const char *at;
	ssize_t len;
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	len = read(fd, status, sizeof(status) - 1);
	if (len <= 0)
		return 0;
	status[len] = '\0';
	at = strstr(status, name);
	return at ? strtoul(at + sizeof(name) - 1, NULL, 10) : 0;
}

/* ---- The handler's place ------------------------------------------------ */

#ifdef __GLIBC__

/* Not that of sigaction(2), which the C library keeps from this signal. */
#define SIGNAL_SETXID 33
#define MASK_BYTES    8

struct action {
	void (*handler)(int number, siginfo_t *info, void *context);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static bool get_action(struct action *ret_action)
{
	return syscall(SYS_rt_sigaction, SIGNAL_SETXID, NULL, ret_action,
		       MASK_BYTES) == 0 &&
	       ret_action->flags & SA_SIGINFO && ret_action->handler;
}

static void set_action(const struct action *action)
{
	(void)syscall(SYS_rt_sigaction, SIGNAL_SETXID, action, NULL,
		      MASK_BYTES);
}

/* The C library has set its own when it made this thread, for good. */
static void take_place(void)
{
	struct action action;

	if (!get_action(&action))
		return;
	fgt_rights_table.previous = action.handler;
	action.handler = fgt_rights_handle;
	set_action(&action);
}

/* A plug-in with the static library in it may be unloaded. */
__attribute__((destructor)) static void leave_place(void)
{
	struct action action;

	if (!fgt_rights_table.previous || !get_action(&action) ||
	    action.handler != fgt_rights_handle)
		return;
	action.handler = fgt_rights_table.previous;
	set_action(&action);
}

#else

static void take_place(void)
{
}

#endif

/* None of our threads is here; one may have forked in the program's log. */
static void in_child(void)
{
	for (unsigned int i = 0; i < FGT_RIGHTS_THREADS; i++) {
		if (owns[i].is_begun &&
		    pthread_equal(owns[i].thread, pthread_self()))
			(void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
		fgt_rights_end((enum fgt_rights_thread)i);
	}
	fgt_rights_table.pid = getpid();
}

static void hook_once(void)
{
	fgt_rights_table.pid = getpid();
	(void)pthread_atfork(NULL, NULL, in_child);
	take_place();
}

static bool hook(void)
{
	(void)pthread_once(&hooked, hook_once);
	return fgt_rights_table.previous != NULL;
}

/* ---- A thread's life ---------------------------------------------------- */

/* Of all three: with any that is root's, root it can become again. */
static bool is_root(void)
{
	uid_t real, effective, saved;

	return getresuid(&real, &effective, &saved) < 0 || real == 0 ||
	       effective == 0 || saved == 0;
}

void fgt_rights_begin(enum fgt_rights_thread which)
{
	struct own *own = &owns[which];
	struct fgt_rights_slot *slot = &fgt_rights_table.slots[which];
	struct rights rights;

	/* Others lose nothing when they change. */
	if (!is_root() || call(SYS_capget, 0, &rights) < 0 ||
	    !has_any(&rights) || !hook() ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return;
	*own = (struct own){
		.thread = pthread_self(),
		.is_begun = true,
		.filters = count_filters(),
	};
	atomic_store_explicit(&slot->changes, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->tid, gettid(), memory_order_relaxed);
}

void fgt_rights_end(enum fgt_rights_thread which)
{
	atomic_store_explicit(&fgt_rights_table.slots[which].tid, 0,
			      memory_order_relaxed);
	owns[which].is_begun = false;
}

static void lower(struct rights *own, const struct rights *first)
{
	for (unsigned int i = 0; i < CAP_WORDS; i++) {
		struct __user_cap_data_struct *word = &own->words[i];

		word->permitted &= first->words[i].permitted;
		word->inheritable &= first->words[i].inheritable;
		word->effective &= word->permitted;
	}
}

/* True: there is nothing (more) to give up until the next change. */
static bool give_up(enum fgt_rights_thread which, bool is_last)
{
	struct rights first, rights;

	/* It might be our end; what it forbids to us, it forbids to others. */
	if (count_filters() > owns[which].filters)
		return true;
	/* In this order: what a change takes from the first thread before it
	 * has reached us is not to be given up before it. */
	if (call(SYS_capget, getpid(), &first) < 0 || is_root() ||
	    call(SYS_capget, 0, &rights) < 0)
		return true;
	if (is_last)
		memset(&first, 0, sizeof(first));
	lower(&rights, &first);
	if (call(SYS_capset, 0, &rights) < 0 || has_any(&rights))
		return false;
	fgt_rights_end(which);
	return true;
}

uint64_t fgt_rights_follow(enum fgt_rights_thread which, uint64_t when_ns)
{
	unsigned int changes = atomic_load_explicit(
		&fgt_rights_table.slots[which].changes, memory_order_relaxed);
	struct own *own = &owns[which];
	uint64_t now_ns;
	bool is_last;

	if (!own->is_begun || (changes == own->seen && !own->until_ns))
		return when_ns;
	now_ns = fgt_now();
	if (changes != own->seen) {
		own->until_ns = now_ns + PATIENCE_NS;
		/* Not at once: it may be setting up its filter. */
		own->next_ns = now_ns + SOON_NS;
		own->seen = changes;
	}
	if (now_ns < own->next_ns)
		return own->next_ns < when_ns ? own->next_ns : when_ns;
	is_last = now_ns >= own->until_ns;
	if (give_up(which, is_last) || is_last) {
		own->until_ns = 0;
		return when_ns;
	}
	own->next_ns = now_ns + SOON_NS;
	return own->next_ns < when_ns ? own->next_ns : when_ns;
}
