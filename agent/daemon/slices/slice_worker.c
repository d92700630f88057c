/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves one slice request. Runs in one thread for each request, beside the
 * sampler, which it never blocks; must not touch the loop or the tables of
 * targets.
 */
#include "agent/daemon/slices/slices.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/capture/look/state_name.h"
#include "agent/daemon/loop/loop.h"
#include "agent/protocol/protocol.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/slice/slice_codec.h"
#include "ringbuf/slice/wall_clock.h"
#include "upload/why/moment.h"

#define SECOND_NS   UINT64_C(1000000000)
#define STALL_NS    (30 * SECOND_NS)
#define TOTAL_NS    (300 * SECOND_NS)
#define LOOK_MS	    200 /* how often a wait looks whether it is cancelled */
#define MOMENT_RUNS 2000 /* of a second: more make ten of them slow */

/* ---- Writing ----------------------------------------------------------- */

struct sender {
	const struct fgt_slice_work *work;
	uint64_t deadline_ns;
	uint8_t *bytes; /* [FGT_PROTOCOL_DATA_MAX] of the file */
	size_t len;
	uint64_t total;
};

static bool is_cancelled(const struct fgt_slice_work *work)
{
	return atomic_load_explicit(work->is_cancelled, memory_order_relaxed);
}

/* Has the client closed its end? */
static bool has_gone(const struct fgt_slice_work *work)
{
	struct pollfd poll_fd = { .fd = work->fd };

	return is_cancelled(work) || (poll(&poll_fd, 1, 0) == 1 &&
				      (poll_fd.revents & (POLLHUP | POLLERR)));
}

/* Until the client takes more. */
static int wait_writable(const struct sender *sender, uint64_t stalled_ns)
{
	struct pollfd poll_fd = { .fd = sender->work->fd, .events = POLLOUT };
	uint64_t now_ns = fgt_loop_now();

	if (is_cancelled(sender->work))
		return -ECANCELED;
	if (now_ns >= stalled_ns || now_ns >= sender->deadline_ns)
		return -ETIMEDOUT;
	if (poll(&poll_fd, 1, LOOK_MS) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int send_all(const struct sender *sender, const uint8_t *bytes,
		    size_t len)
{
	uint64_t stalled_ns = fgt_loop_now() + STALL_NS;

	while (len > 0) {
		ssize_t n = send(sender->work->fd, bytes, len,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		int r = 0;

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
			stalled_ns = fgt_loop_now() + STALL_NS;
		} else if (n < 0 && errno == EAGAIN) {
			r = wait_writable(sender, stalled_ns);
		} else if (n == 0 || errno != EINTR) {
			r = n == 0 ? -EPIPE : -errno;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_frame(const struct sender *sender, struct fgt_builder *builder)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_builder_finish(builder, &bytes, &len);

	return r < 0 ? r : send_all(sender, bytes, len);
}

static int flush(struct sender *sender)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	int r;

	if (sender->len == 0)
		return 0;
	r = fgt_builder_new(&builder);
	if (r < 0)
		return r;
	fgt_builder_bin(builder, "data", sender->bytes, sender->len);
	sender->total += sender->len;
	sender->len = 0;
	fgt_heartbeat_set(fgt_heartbeat_of_caller(), FGT_STEP_WORK,
			  fgt_target_pid(sender->work->target));
	return send_frame(sender, builder);
}

static int take_bytes(void *context, const void *bytes, size_t len)
{
	struct sender *sender = context;
	const uint8_t *from = bytes;

	while (len > 0) {
		size_t n = FGT_PROTOCOL_DATA_MAX - sender->len;
		int r;

		if (n > len)
			n = len;
		memcpy(sender->bytes + sender->len, from, n);
		sender->len += n;
		from += n;
		len -= n;
		if (sender->len < FGT_PROTOCOL_DATA_MAX)
			continue;
		r = flush(sender);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_head(const struct sender *sender,
		     const struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	int r = fgt_builder_new_reply(&builder);

	if (r < 0)
		return r;
	fgt_builder_int(builder, "pid", slice->process.pid);
	fgt_builder_string(builder, "name", slice->process.name);
	fgt_builder_uint(builder, "from_ns", slice->tick_ns[0]);
	fgt_builder_uint(builder, "to_ns",
			 slice->tick_ns[slice->tick_count - 1]);
	fgt_builder_uint(builder, "ticks", slice->tick_count);
	fgt_builder_uint(builder, "threads", slice->thread_count);
	fgt_builder_bool(builder, "wall_clock_set",
			 sender->work->request.is_clock_set);
	return send_frame(sender, builder);
}

static int send_end(struct sender *sender)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	int r = flush(sender);

	if (r == 0)
		r = fgt_builder_new(&builder);
	if (r < 0)
		return r;
	fgt_builder_bool(builder, "end", true);
	fgt_builder_uint(builder, "len", sender->total);
	return send_frame(sender, builder);
}

int fgt_slice_work_send(const struct fgt_slice_work *work,
			const struct fgt_ring_slice *slice)
{
	FGT_AUTO(free) void *buffer = malloc(FGT_PROTOCOL_DATA_MAX);
	struct sender sender = { .work = work,
				 .deadline_ns = fgt_loop_now() + TOTAL_NS,
				 .bytes = buffer };
	const struct fgt_sink sink = { take_bytes, &sender };
	int r = buffer ? send_head(&sender, slice) : -ENOMEM;

	if (r == 0)
		r = fgt_slice_encode(slice, &sink);
	if (r == 0)
		r = send_end(&sender);
	if (r == -ENOMEM)
		fgt_control_turn_away(work->fd, r,
				      "the agent is " FGT_NO_MEMORY);
	return r;
}

/* ---- Cutting ----------------------------------------------------------- */

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / SECOND_NS : 0;
}

/* Does the ring hold nothing of the range? One that begins after the last tick
 * of a target that lives is too short. */
static bool is_outside(const struct fgt_slice_work *work,
		       const struct fgt_ring_stats *stats)
{
	return work->request.to_ns < stats->oldest_ns ||
	       (work->request.from_ns > stats->newest_ns &&
		!fgt_target_is_alive(work->target));
}

static void explain_no_data(const struct fgt_slice_work *work,
			    const struct fgt_ring_stats *stats,
			    struct fgt_why *why)
{
	uint64_t now_ns = fgt_loop_now();
	int32_t pid = fgt_target_pid(work->target);

	if (stats->newest_ns == 0)
		(void)fgt_why_set(why, -ENODATA,
				  "no data in range: nothing has been recorded "
				  "of pid %d yet; try again in a second",
				  pid);
	else if (!is_outside(work, stats) && work->request.tid)
		(void)fgt_why_set(why, -ENODATA,
				  "no data in range: there is no thread %d in "
				  "it, or fewer than two ticks of it; ask for "
				  "a longer one or another thread",
				  work->request.tid);
	else if (!is_outside(work, stats))
		(void)fgt_why_set(why, -ENODATA,
				  "no data in range: fewer than two ticks; "
				  "ask for a longer one");
	else
		(void)fgt_why_set(why, -ENODATA,
				  "no data in range: the ring holds -%.3fs to "
				  "-%.3fs of pid %d%s; ask within that",
				  seconds_between(stats->oldest_ns, now_ns),
				  seconds_between(stats->newest_ns, now_ns),
				  pid,
				  fgt_target_is_alive(work->target)
					  ? ""
					  : ", which has ended");
}

/* What the ring holds, on both clocks: the client names it on the clock in
 * which it asked. */
static void put_held(struct fgt_builder *builder,
		     const struct fgt_slice_work *work,
		     const struct fgt_ring_stats *stats)
{
	struct fgt_anchor *anchors = NULL;
	uint32_t count = 0;

	(void)fgt_ring_read_anchors(fgt_target_ring(work->target), &anchors,
				    &count);
	fgt_builder_uint(builder, "oldest_ns", stats->oldest_ns);
	fgt_builder_uint(builder, "newest_ns", stats->newest_ns);
	fgt_builder_uint(builder, "oldest_wall_ns",
			 fgt_wall_at(anchors, count, stats->oldest_ns));
	fgt_builder_uint(builder, "newest_wall_ns",
			 fgt_wall_at(anchors, count, stats->newest_ns));
	fgt_builder_bool(builder, "outside",
			 stats->newest_ns && is_outside(work, stats));
	free(anchors);
}

/* Of the ring, as far as the user may see it. */
static void get_visible(const struct fgt_slice_work *work,
			struct fgt_ring_stats *ret_stats)
{
	struct fgt_gate_range range;

	fgt_ring_get_stats(fgt_target_ring(work->target), ret_stats);
	if (fgt_gate_ask(&work->gate, work->target, &range) < 0 ||
	    ret_stats->newest_ns < range.from_ns)
		ret_stats->oldest_ns = ret_stats->newest_ns = 0;
	else if (ret_stats->oldest_ns < range.from_ns)
		ret_stats->oldest_ns = range.from_ns;
}

/* Answers the client; the error is the request's. */
static void answer_error(const struct fgt_slice_work *work, int error)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const struct sender sender = {
		.work = work, .deadline_ns = fgt_loop_now() + STALL_NS
	};
	struct fgt_ring_stats stats;
	struct fgt_why why;
	int r;

	get_visible(work, &stats);
	if (error == -ENODATA)
		explain_no_data(work, &stats, &why);
	else if (error == -EACCES)
		(void)fgt_why_set(&why, error,
				  "pid %d may not be seen by you any more: it "
				  "runs a program with other rights",
				  fgt_target_pid(work->target));
	else if (error == -EAGAIN)
		(void)fgt_why_set(&why, error,
				  "the ring was overwritten while it was read: "
				  "ask for a younger range");
	else
		(void)fgt_why_set(&why, error,
				  "cannot cut the slice: %s: ask for a "
				  "shorter range",
				  strerror(-error));
	r = fgt_builder_new_error(error, why.text, &builder);
	if (r == 0 && error == -ENODATA)
		put_held(builder, work, &stats);
	if (r == 0)
		r = send_frame(&sender, builder);
	if (r == -ENOMEM)
		fgt_control_turn_away(work->fd, r,
				      "the agent is " FGT_NO_MEMORY);
}

static int cut_range(const struct fgt_slice_work *work, uint64_t from_ns,
		     struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r = fgt_gate_cut(&work->gate, work->target, from_ns,
			     work->request.to_ns, work->is_cancelled, &slice);

	if (r == 0)
		r = fgt_target_cut_spans(work->target, slice);
	if (r < 0)
		return r;
	fgt_target_cut_brief(work->target, slice);
	fgt_target_cut_end(work->target, work->request.to_ns, slice);
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

/* -ENODATA also if the last of the range has no ticks or no threads; -EAGAIN if
 * more must be looked at, and this was no more than so many runs. */
static int cut_moment_from(const struct fgt_slice_work *work, uint64_t from_ns,
			   uint32_t most_runs,
			   struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *whole = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;
	struct fgt_target_status status;
	uint64_t oldest_ns = work->request.from_ns;
	bool is_whole;
	int r = cut_range(work, from_ns, &whole);

	if (r < 0)
		return r;
	get_visible(work, &stats);
	if (oldest_ns < stats.oldest_ns)
		oldest_ns = stats.oldest_ns;
	fgt_target_get_status(work->target, &status);
	r = fgt_moment_narrow(whole, oldest_ns,
			      status.ended_ns &&
				      work->request.to_ns >= status.ended_ns,
			      &slice, &is_whole);
	if (r < 0)
		return r;
	if (!is_whole && whole->run_count <= most_runs)
		return -EAGAIN;
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

/* The ring knows since when its threads do what they do now. At a time in the
 * past, this must be looked for, for a second at least. */
static int cut_moment(const struct fgt_slice_work *work,
		      struct fgt_ring_slice **ret_slice)
{
	static const uint64_t looks_ns[] = { SECOND_NS / 10, SECOND_NS };
	static const uint32_t most_runs[] = { UINT32_MAX, MOMENT_RUNS };
	const struct fgt_slice_request *asked = &work->request;
	int r = -EAGAIN;

	for (size_t i = 0; i < 2 && (r == -EAGAIN || r == -ENODATA) &&
			   asked->to_ns - asked->from_ns > looks_ns[i];
	     i++)
		r = cut_moment_from(work, asked->to_ns - looks_ns[i],
				    most_runs[i], ret_slice);
	if (r == -EAGAIN || r == -ENODATA)
		r = cut_moment_from(work, asked->from_ns, 0, ret_slice);
	/* Other targets are asked for the same time as the first one. */
	if (r == 0)
		(*ret_slice)->requested_from_ns = asked->from_ns;
	return r;
}

static int cut_as_asked(const struct fgt_slice_work *work,
			struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *whole = NULL;
	int r;

	if (work->request.is_moment)
		return cut_moment(work, ret_slice);
	r = cut_range(work, work->request.from_ns, &whole);
	if (r < 0)
		return r;
	if (work->request.tid != 0)
		return fgt_slice_narrow(whole, work->request.from_ns,
					work->request.to_ns, work->request.tid,
					ret_slice);
	*ret_slice = FGT_TAKE(whole);
	return 0;
}

static int cut(const struct fgt_slice_work *work,
	       struct fgt_ring_slice **ret_slice)
{
	int r = cut_as_asked(work, ret_slice);

	/* A user's ends at the last tick that this user may see; the client
	 * takes an end before its now for that of the target. */
	if (r == 0)
		(*ret_slice)->requested_to_ns = work->request.to_ns;
	return r;
}

static bool is_given_up(void *context)
{
	return has_gone(context);
}

static int name(const struct fgt_slice_work *work, struct fgt_ring_slice *slice)
{
	const struct fgt_symbolizer_cancel cancel = {
		.is_cancelled = is_given_up,
		.context = (void *)(uintptr_t)work,
	};
	int r = fgt_slice_name_states(slice, fgt_state_name);

	if (r < 0)
		return r;
	return fgt_symbolizer_resolve_until(work->symbolizer, slice,
					    fgt_target_is_alive(work->target),
					    &cancel);
}

int fgt_slice_work_prepare(const struct fgt_slice_work *work,
			   struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r;

	if (has_gone(work))
		return -ECANCELED;
	r = cut(work, &slice);
	if (r == 0 && has_gone(work))
		return -ECANCELED;
	if (r == 0)
		r = name(work, slice);
	if (r == -ECANCELED)
		return r;
	if (r < 0) {
		answer_error(work, r);
		return r;
	}
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
