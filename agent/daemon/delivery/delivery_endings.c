/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks after killed processes until they have gone. Runs in the daemon's loop;
 * must not wait for one.
 */
#include "agent/daemon/delivery/delivery_endings.h"

#include <poll.h>
#include <sys/epoll.h>

#define SECOND_NS UINT64_C(1000000000)
#define DONE_MS	  1000

struct fgt_delivery_ending {
	struct fgt_delivery_endings *endings;
	struct fgt_delivery_ending *next, *previous;
	struct fgt_delivery_child child;
	struct fgt_watch watch; /* of its pidfd */
	struct fgt_timer timer; /* for a process that is traced */
	uint32_t uid;
};

static void remove_ending(struct fgt_delivery_ending *ending)
{
	struct fgt_delivery_endings *endings = ending->endings;

	fgt_loop_unwatch(endings->loop, &ending->watch);
	fgt_loop_disarm(endings->loop, &ending->timer);
	if (ending->previous)
		ending->previous->next = ending->next;
	else
		endings->first = ending->next;
	if (ending->next)
		ending->next->previous = ending->previous;
	free(ending);
}

static void look(void *context)
{
	struct fgt_delivery_ending *ending = context;
	struct fgt_delivery_endings *endings = ending->endings;

	/* Unwatched first: the number may be another's when it is closed. */
	fgt_loop_unwatch(endings->loop, &ending->watch);
	if (!fgt_delivery_child_reap(&ending->child)) {
		/* Dead, and its tracer has not looked: it stays readable. */
		fgt_loop_arm(endings->loop, &ending->timer,
			     fgt_loop_now() + SECOND_NS);
		return;
	}
	remove_ending(ending);
	endings->gone(endings->context);
}

static void is_dead(void *context, uint32_t events)
{
	(void)events;
	look(context);
}

void fgt_delivery_endings_add(struct fgt_delivery_endings *endings,
			      struct fgt_delivery_child *child, uint32_t uid)
{
	struct fgt_delivery_ending *ending;

	fgt_delivery_child_kill(child);
	ending = calloc(1, sizeof(*ending));
	if (!ending) { /* a zombie, until we go ourselves */
		fgt_fd_close(FGT_TAKE_FD(child->pid_fd));
		return;
	}
	ending->endings = endings;
	ending->child = *child;
	ending->uid = uid;
	ending->watch = (struct fgt_watch){ .fd = child->pid_fd,
					    .ready = is_dead,
					    .context = ending };
	ending->timer =
		(struct fgt_timer){ .expired = look, .context = ending };
	*child = FGT_DELIVERY_CHILD_NONE;
	ending->next = endings->first;
	if (ending->next)
		ending->next->previous = ending;
	endings->first = ending;
	if (fgt_loop_watch(endings->loop, &ending->watch, EPOLLIN) < 0)
		fgt_loop_arm(endings->loop, &ending->timer,
			     fgt_loop_now() + SECOND_NS);
}

bool fgt_delivery_endings_has(const struct fgt_delivery_endings *endings,
			      uint32_t uid)
{
	const struct fgt_delivery_ending *ending = endings->first;

	while (ending && ending->uid != uid)
		ending = ending->next;
	return ending;
}

void fgt_delivery_endings_done(struct fgt_delivery_endings *endings)
{
	uint64_t until_ns = fgt_loop_now() + DONE_MS * UINT64_C(1000000);

	while (endings->first) {
		struct fgt_delivery_ending *ending = endings->first;
		struct pollfd poll_fd = { .fd = ending->child.pid_fd,
					  .events = POLLIN };
		uint64_t now_ns = fgt_loop_now();

		if (now_ns < until_ns)
			(void)poll(&poll_fd, 1,
				   (int)((until_ns - now_ns) / 1000000) + 1);
		if (!fgt_delivery_child_reap(&ending->child))
			fgt_fd_close(ending->child.pid_fd);
		remove_ending(ending);
	}
}
