/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads slice requests. Runs in the daemon's loop; every value of a request is
 * checked here before it is used.
 */
#include "agent/daemon/slices/slices.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/targets/targets.h"
#include "ringbuf/slice/wall_clock.h"

#define AHEAD_MAX_NS (UINT64_C(3600) * 1000000000)

/* One request while it is handled. */
struct slice_call {
	const struct fgt_slice_verb *verb;
	struct fgt_control_client *client;
	const struct fgt_request_slice *asked;
	struct fgt_selector selector;
	struct fgt_slice_request slice;
	struct fgt_gate gate;
	struct fgt_why why;
};

/* ---- Arguments --------------------------------------------------------- */

static int check_range(struct slice_call *call, uint64_t from_ns,
		       uint64_t to_ns)
{
	if (from_ns > to_ns)
		return fgt_why_set(&call->why, -EINVAL,
				   "from lies %.3f s after to: swap them, or "
				   "move to",
				   (double)(from_ns - to_ns) / 1e9);
	if (to_ns > fgt_loop_now() + AHEAD_MAX_NS)
		return fgt_why_set(&call->why, -EINVAL,
				   "the range ends more than an hour ahead: "
				   "ask when it has come");
	return 0;
}

static int check_request(struct slice_call *call)
{
	call->slice.tid = call->asked->tid;
	call->slice.is_moment = call->asked->is_moment;
	return call->asked->to.is_given && !call->asked->to.is_wall &&
			       !call->asked->from.is_wall
		       ? check_range(call, call->asked->from.ns,
				     call->asked->to.ns)
		       : 0;
}

/* ---- The range --------------------------------------------------------- */

struct anchors {
	struct fgt_anchor *rows;
	uint32_t count;
	struct fgt_now now;
};

static uint64_t to_mono(const struct fgt_request_end *end,
			const struct anchors *anchors)
{
	return end->is_wall ? fgt_wall_to_mono(anchors->rows, anchors->count,
					       &anchors->now, end->ns)
			    : end->ns;
}

/* The end of a target that has ended; now if it runs. */
static uint64_t newest_ns(const struct fgt_target *target, uint64_t now_ns)
{
	struct fgt_target_status status;

	fgt_target_get_status(target, &status);
	return status.ended_ns ? status.ended_ns : now_ns;
}

static int resolve(struct slice_call *call, const struct fgt_target *target)
{
	const struct fgt_request_slice *asked = call->asked;
	struct fgt_slice_request *slice = &call->slice;
	struct anchors anchors = { .rows = NULL };

	fgt_now_read(&anchors.now);
	/* Without anchors (nothing is recorded yet) by the clock of now. */
	if (asked->from.is_wall || asked->to.is_wall)
		(void)fgt_ring_read_anchors(fgt_target_ring(target),
					    &anchors.rows, &anchors.count);
	slice->to_ns = asked->to.is_given
			       ? to_mono(&asked->to, &anchors)
			       : newest_ns(target, anchors.now.mono_ns);
	if (asked->from.is_given)
		slice->from_ns = to_mono(&asked->from, &anchors);
	else if (asked->last_ns && asked->last_ns < slice->to_ns)
		slice->from_ns = slice->to_ns - asked->last_ns;
	slice->is_clock_set =
		fgt_wall_has_stepped(anchors.rows, anchors.count, &anchors.now);
	free(anchors.rows);
	/* A process gets its own past, not that of a program that it may become
	 * by exec. */
	if (call->gate.program && slice->to_ns > anchors.now.mono_ns) {
		slice->to_ns = anchors.now.mono_ns;
		if (slice->from_ns > slice->to_ns)
			slice->from_ns = slice->to_ns;
	}
	return check_range(call, slice->from_ns, slice->to_ns);
}

/* ---- The verb ---------------------------------------------------------- */

/* The error lists the targets that there are to choose from. */
static void fail_with_choice(struct slice_call *call, int error)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (fgt_builder_new_error(error, call->why.text, &builder) == 0)
		fgt_target_list_put_names(call->verb->targets,
					  fgt_control_peer(call->client),
					  &call->selector, builder);
	fgt_control_reply(call->client, builder);
}

void fgt_slice_verb_handle(void *context, struct fgt_control_client *client,
			   const struct fgt_request *request)
{
	FGT_AUTO(fgt_target_put) struct fgt_target *target = NULL;
	struct slice_call call = { .verb = context,
				   .client = client,
				   .asked = &request->slice };
	int r = fgt_selector_take(client, &call.asked->selector, &call.selector,
				  &call.why);

	if (r == 0)
		r = check_request(&call);
	if (r == 0)
		r = fgt_target_list_find(
			call.verb->targets, fgt_control_peer(client),
			&call.selector, &target, &call.gate, &call.why);
	if (r == 0)
		r = resolve(&call, target);
	if (r == -ENOTUNIQ)
		fail_with_choice(&call, r);
	else if (r < 0)
		fgt_control_fail(client, r, call.why.text);
	else
		fgt_slices_submit(call.verb->slices, client, target,
				  &call.slice, &call.gate);
}
