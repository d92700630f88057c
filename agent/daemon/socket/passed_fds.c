/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes and closes descriptors of clients. Runs in the daemon's loop, which
 * must not wait: what may wait is done by threads that may be lost.
 */
#include "agent/daemon/socket/passed_fds.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/loop.h"
#include "ringbuf/base/thread.h"

#define PEEK_BYTES 1024 /* of the request: its verb is among them */
/* Descriptors that are being closed at a time, of all users. */
#define CLOSING_MAX 256
/* Of one user; and how long one may take before no further one is taken. */
#define OF_USER_MAX 8
#define SLOW_NS	    UINT64_C(200000000)
#define STACK_BYTES (64 << 10)

struct closing {
	atomic_bool is_busy;
	uint32_t uid;
	int fd;
	uint64_t since_ns;
};

static struct closing closings[CLOSING_MAX];

/* Release: the slot is the loop's again. */
static void *close_one(void *context)
{
	struct closing *closing = context;

	close(closing->fd);
	atomic_store_explicit(&closing->is_busy, false, memory_order_release);
	return NULL;
}

static bool is_busy(struct closing *closing)
{
	/* Acquire: pairs with the release of close_one(). */
	return atomic_load_explicit(&closing->is_busy, memory_order_acquire);
}

void fgt_passed_fd_discard(int fd, uint32_t uid)
{
	struct closing *closing = closings;

	/* There is a free one: who takes descriptors has asked for it. */
	while (closing < closings + CLOSING_MAX - 1 && is_busy(closing))
		closing++;
	if (is_busy(closing)) {
		fgt_log(FGT_LOG_WARNING, "descriptor_kept",
			"a descriptor that user %u passed stays open: %d of "
			"other users cannot be closed",
			uid, CLOSING_MAX);
		return;
	}
	closing->uid = uid;
	closing->fd = fd;
	closing->since_ns = fgt_loop_now();
	atomic_store_explicit(&closing->is_busy, true, memory_order_relaxed);
	/* Without a thread it stays busy: its user gets no room for another. */
	if (fgt_thread_start(STACK_BYTES, close_one, closing, NULL) < 0)
		fgt_log(FGT_LOG_WARNING, "descriptor_kept",
			"a descriptor that user %u passed stays open: no "
			"thread can be started to close it",
			uid);
}

/* Room for those of one more request, and that user's are closed as quickly as
 * files are. */
static bool may_come_from(uint32_t uid)
{
	uint64_t now_ns = fgt_loop_now();
	unsigned int count = 0, of_user = 0;

	for (struct closing *closing = closings;
	     closing < closings + CLOSING_MAX; closing++) {
		if (!is_busy(closing))
			continue;
		if (closing->uid == uid &&
		    (now_ns - closing->since_ns >= SLOW_NS ||
		     ++of_user == OF_USER_MAX))
			return false;
		count++;
	}
	return count <= CLOSING_MAX - 2;
}

/* Its value follows the key, behind at most five bytes of msgpack. */
static bool is_registration(const char *bytes, size_t len)
{
	static const char key[] = "verb", verb[] = "register";
	const char *at = memmem(bytes, len, key, sizeof(key) - 1);
	size_t left;

	if (!at)
		return false;
	at += sizeof(key) - 1;
	left = (size_t)(bytes + len - at);
	if (left > 5 + sizeof(verb) - 1)
		left = 5 + sizeof(verb) - 1;
	return memmem(at, left, verb, sizeof(verb) - 1);
}

bool fgt_passed_fds_are_wanted(int socket_fd, uint32_t uid)
{
	char bytes[PEEK_BYTES];
	ssize_t n =
		recv(socket_fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	if (n <= 0 || !is_registration(bytes, (size_t)n))
		return false;
	if (may_come_from(uid))
		return true;
	fgt_log(FGT_LOG_WARNING, "descriptor_refused",
		"user %u passes descriptors, but the file system of an "
		"earlier one does not let it be closed: its programs are "
		"recorded without spans",
		uid);
	return false;
}
