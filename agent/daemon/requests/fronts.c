/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts fronts, hands them one frame after the other, checks what they make of
 * it, ends them. Runs in the daemon's loop; must not wait for a front, nor read
 * a frame.
 */
#include "agent/daemon/requests/fronts.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "agent/children/self_child.h"
#include "agent/daemon/loop/log.h"
#include "ringbuf/base/fd_message.h"

#define MS	     UINT64_C(1000000)
#define SECOND_NS    (1000 * MS)
#define LOOK_MS	     1000 /* at a killed one that is traced */
#define PAUSE_MAX_MS 5000
#define LOG_NS	     (10 * SECOND_NS) /* between two lines about fronts */

struct fgt_front {
	struct fgt_fronts *fronts;
	uint32_t uid;
	bool is_taken; /* by that user */
	bool is_busy; /* it has a frame that it has not answered */
	bool is_ending; /* killed, and not gone yet */
	struct fgt_reading *asked; /* if busy; NULL: withdrawn */
	STAILQ_HEAD(, fgt_reading) queue; /* after that one */
	int pid_fd; /* -1: none */
	struct fgt_watch socket; /* its fd is -1: none */
	struct fgt_watch death; /* while it is ending */
	struct fgt_timer timer; /* of the answer, the end or the next start */
	unsigned int failures; /* since its last answer */
	uint64_t start_ns; /* not started before */
	uint64_t used_ns; /* last */
};

struct fgt_fronts {
	struct fgt_loop *loop;
	struct fgt_fronts_options options;
	struct fgt_front all[FGT_FRONTS_MAX]; /* the daemon's user's first */
	uint64_t logged_ns;
	struct fgt_request answer; /* of the front that is heard now */
};

static void work(struct fgt_front *front);

/* ---- Ends -------------------------------------------------------------- */

/* At most one line in 10 s: a user may make fronts fail. */
static void log_failure(struct fgt_front *front, const char *what)
{
	struct fgt_fronts *fronts = front->fronts;
	uint64_t now_ns = fgt_loop_now();

	if (fronts->logged_ns && now_ns - fronts->logged_ns < LOG_NS)
		return;
	fronts->logged_ns = now_ns;
	fgt_log(FGT_LOG_WARNING, "front_failed",
		"the process that reads requests of user %u %s", front->uid,
		what);
}

static void refuse(struct fgt_reading *reading, int error, const char *why)
{
	struct fgt_request refusal = { .verb = FGT_REQUEST_REFUSED };

	refusal.refusal.error =
		fgt_why_set(&refusal.refusal.why, error, "%s", why);
	reading->front = NULL;
	reading->done(reading->context, &refusal);
}

static void refuse_queue(struct fgt_front *front, const char *why)
{
	struct fgt_reading *reading;

	while ((reading = STAILQ_FIRST(&front->queue))) {
		STAILQ_REMOVE_HEAD(&front->queue, link);
		refuse(reading, -EAGAIN, why);
	}
}

/* Kills it; another one is started when it has gone. */
static void end(struct fgt_front *front)
{
	struct fgt_loop *loop = front->fronts->loop;

	if (front->is_ending)
		return;
	fgt_loop_disarm(loop, &front->timer);
	if (front->socket.fd < 0)
		return;
	fgt_loop_unwatch(loop, &front->socket);
	fgt_fd_close(FGT_TAKE_FD(front->socket.fd));
	front->is_busy = false;
	fgt_self_child_kill(front->pid_fd);
	front->is_ending = true;
	front->death.fd = front->pid_fd;
	if (fgt_loop_watch(loop, &front->death, EPOLLIN) < 0)
		fgt_loop_arm(loop, &front->timer, fgt_loop_now() + SECOND_NS);
}

static void look_whether_gone(struct fgt_front *front)
{
	struct fgt_loop *loop = front->fronts->loop;

	fgt_loop_unwatch(loop, &front->death);
	if (!fgt_self_child_reap(front->pid_fd)) {
		fgt_loop_arm(loop, &front->timer,
			     fgt_loop_now() + LOOK_MS * MS);
		return;
	}
	front->pid_fd = -1;
	front->is_ending = false;
	work(front);
}

static void is_dead(void *context, uint32_t events)
{
	(void)events;
	look_whether_gone(context);
}

/* Pauses before the next start grow. */
static void count_failure(struct fgt_front *front)
{
	uint64_t pause_ms = FGT_FRONT_START_MS
			    << (front->failures < 9 ? front->failures : 9);

	front->failures++;
	front->start_ns =
		fgt_loop_now() +
		(pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS) * MS;
}

/* What was asked fails; what waits is read by the next one. */
static void fail(struct fgt_front *front, const char *what)
{
	struct fgt_reading *asked = FGT_TAKE(front->asked);

	log_failure(front, what);
	count_failure(front);
	end(front);
	if (asked)
		refuse(asked, -EAGAIN,
		       "the agent's process that reads requests has failed: "
		       "try again");
	work(front);
}

/* ---- One request ------------------------------------------------------- */

static void hear(void *context, uint32_t events)
{
	struct fgt_front *front = context;
	struct fgt_request *answer = &front->fronts->answer;
	struct fgt_reading *asked;
	/* MSG_TRUNC: the length that it has. Descriptors are dropped. */
	ssize_t n = recv(front->socket.fd, answer, sizeof(*answer),
			 MSG_DONTWAIT | MSG_TRUNC);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fgt_self_child_lose(front->socket.fd, front->pid_fd);
		fail(front, "has ended");
		return;
	}
	if (!front->is_busy ||
	    (front->asked &&
	     !fgt_request_is_valid(answer, (size_t)n, &front->asked->frame))) {
		fail(front, "has sent what is no request");
		return;
	}
	asked = FGT_TAKE(front->asked);
	front->is_busy = false;
	front->failures = 0;
	front->used_ns = fgt_loop_now();
	fgt_loop_disarm(front->fronts->loop, &front->timer);
	if (asked) {
		asked->front = NULL;
		asked->done(asked->context, answer);
	}
	work(front);
}

/* The frame in memory that the front may map. -ENOMEM. */
static int copy_frame(const struct fgt_request_frame *frame)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("fgtrace-request", MFD_CLOEXEC);

	if (fd < 0 ||
	    write(fd, frame->bytes, frame->len) != (ssize_t)frame->len)
		return -ENOMEM;
	return FGT_TAKE_FD(fd);
}

static int send_frame(const struct fgt_front *front,
		      const struct fgt_request_frame *frame)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_front_head head = { (uint32_t)frame->len, frame->is_kept };
	const struct iovec parts[] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)frame->bytes, frame->len },
	};
	bool is_inline = frame->len <= FGT_FRONT_INLINE;
	ssize_t n;

	if (!is_inline) {
		fd = copy_frame(frame);
		if (fd < 0)
			return fd;
	}
	n = fgt_fd_message_send(front->socket.fd, parts, is_inline ? 2 : 1, &fd,
				is_inline ? 0 : 1, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

static int start(struct fgt_front *front)
{
	struct fgt_fronts *fronts = front->fronts;
	const struct fgt_self_child child = { .path = fronts->options.path,
					      .name = FGT_FRONT_NAME,
					      .verb = FGT_FRONT_VERB,
					      .uid = front->uid,
					      .socket_type = SOCK_SEQPACKET };
	int r = fgt_self_child_start(&child, &front->socket.fd, &front->pid_fd);

	if (r < 0)
		return r;
	r = fgt_loop_watch(fronts->loop, &front->socket, EPOLLIN);
	if (r < 0)
		end(front);
	return r;
}

/* False: the first of the queue must wait, or has been refused. */
static bool is_ready(struct fgt_front *front)
{
	if (front->is_busy || front->is_ending)
		return false;
	if (front->socket.fd >= 0)
		return true;
	if (front->start_ns > fgt_loop_now()) {
		fgt_loop_arm(front->fronts->loop, &front->timer,
			     front->start_ns);
		return false;
	}
	if (start(front) == 0)
		return true;
	log_failure(front, "cannot be started: raise TasksMax=, ulimit -u or "
			   "LimitNOFILE=");
	count_failure(front);
	refuse_queue(front, "the agent cannot start the process that reads "
			    "requests: raise its TasksMax= or ulimit -u");
	return false;
}

static void work(struct fgt_front *front)
{
	struct fgt_fronts *fronts = front->fronts;
	int r;

	if (STAILQ_EMPTY(&front->queue) || !is_ready(front) ||
	    STAILQ_EMPTY(&front->queue))
		return;
	front->asked = STAILQ_FIRST(&front->queue);
	STAILQ_REMOVE_HEAD(&front->queue, link);
	r = send_frame(front, &front->asked->frame);
	if (r < 0) {
		fgt_self_child_lose(front->socket.fd, front->pid_fd);
		fail(front, r == -ENOMEM ? "got no memory for a frame"
					 : "takes no frames");
		return;
	}
	front->is_busy = true;
	fgt_loop_arm(fronts->loop, &front->timer,
		     fgt_loop_now() + fronts->options.timeout_ms * MS);
}

static void expired(void *context)
{
	struct fgt_front *front = context;

	if (front->is_ending)
		look_whether_gone(front);
	else if (front->is_busy)
		fail(front, "has not answered in time");
	else
		work(front);
}

/* ---- All of them ------------------------------------------------------- */

static bool is_idle(const struct fgt_front *front)
{
	return !front->is_busy && STAILQ_EMPTY(&front->queue);
}

/* The user's, else one that is free, else the one unused for longest. NULL: all
 * are at work. */
static struct fgt_front *front_of(struct fgt_fronts *fronts, uint32_t uid)
{
	struct fgt_front *best = NULL, *front = fronts->all;

	for (; front < fronts->all + FGT_FRONTS_MAX; front++) {
		if (front->is_taken && front->uid == uid)
			return front;
		if (front == fronts->all ||
		    (front->is_taken && !is_idle(front)))
			continue;
		if (!best ||
		    (best->is_taken &&
		     (!front->is_taken || front->used_ns < best->used_ns)))
			best = front;
	}
	if (!best)
		return NULL;
	end(best);
	best->uid = uid;
	best->is_taken = true;
	best->failures = 0;
	best->start_ns = 0;
	return best;
}

/* Must not recurse: many may wait. */
static void read_here(const struct fgt_fronts *fronts,
		      struct fgt_reading *reading)
{
	struct fgt_request request;

	memset(&request, 0, sizeof(request));
	fronts->options.read(&reading->frame, &request);
	reading->done(reading->context, &request);
}

void fgt_fronts_submit(struct fgt_fronts *fronts, struct fgt_reading *reading)
{
	struct fgt_front *front;

	reading->front = NULL;
	if (fronts->options.read) {
		read_here(fronts, reading);
		return;
	}
	front = front_of(fronts, reading->uid);
	if (!front) {
		refuse(reading, -EBUSY,
		       "busy: requests of too many users at once: try again");
		return;
	}
	front->used_ns = fgt_loop_now();
	reading->front = front;
	STAILQ_INSERT_TAIL(&front->queue, reading, link);
	work(front);
}

void fgt_fronts_withdraw(struct fgt_reading *reading)
{
	struct fgt_front *front = FGT_TAKE(reading->front);

	if (!front)
		return;
	if (front->asked == reading)
		front->asked = NULL; /* its answer will be dropped */
	else
		STAILQ_REMOVE(&front->queue, reading, fgt_reading, link);
}

void fgt_fronts_tend(struct fgt_fronts *fronts)
{
	uint64_t now_ns = fgt_loop_now();
	struct fgt_front *front = fronts->all + 1;

	for (; front < fronts->all + FGT_FRONTS_MAX; front++)
		if (front->is_taken && is_idle(front) && !front->is_ending &&
		    now_ns - front->used_ns > FGT_FRONT_IDLE_S * SECOND_NS) {
			end(front);
			front->is_taken = false;
		}
}

int fgt_fronts_new(struct fgt_loop *loop,
		   const struct fgt_fronts_options *options,
		   struct fgt_fronts **ret_fronts)
{
	struct fgt_fronts *fronts = calloc(1, sizeof(*fronts));

	if (!fronts)
		return -ENOMEM;
	fronts->loop = loop;
	fronts->options = *options;
	if (fronts->options.timeout_ms == 0)
		fronts->options.timeout_ms = 5000;
	for (size_t i = 0; i < FGT_FRONTS_MAX; i++) {
		struct fgt_front *front = &fronts->all[i];

		*front = (struct fgt_front){ .fronts = fronts, .pid_fd = -1 };
		front->socket = (struct fgt_watch){ .fd = -1,
						    .ready = hear,
						    .context = front };
		front->death = (struct fgt_watch){ .fd = -1,
						   .ready = is_dead,
						   .context = front };
		front->timer = (struct fgt_timer){ .expired = expired,
						   .context = front };
		STAILQ_INIT(&front->queue);
	}
	fronts->all[0].uid = geteuid();
	fronts->all[0].is_taken = true;
	if (!options->read)
		(void)is_ready(&fronts->all[0]); /* the first need not wait */
	*ret_fronts = fronts;
	return 0;
}

void fgt_fronts_free(struct fgt_fronts *fronts)
{
	if (!fronts)
		return;
	for (size_t i = 0; i < FGT_FRONTS_MAX; i++) {
		struct fgt_front *front = &fronts->all[i];

		end(front);
		fgt_loop_unwatch(fronts->loop, &front->death);
		fgt_loop_disarm(fronts->loop, &front->timer);
		fgt_self_child_end(front->pid_fd);
	}
	free(fronts);
}
