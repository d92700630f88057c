/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice of the targets that the flags choose: a request for each. Runs in
 * the command line's main thread.
 */
#include <errno.h>
#include <inttypes.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/debuginfod.h"
#include "agent/cli/range/several.h"
#include "agent/cli/verbs/fetch.h"
#include "ringbuf/slice/processes.h"

struct asking {
	const struct fgt_fetch *fetch;
	bool is_clock_set;
};

static int cut(void *context, int32_t pid, const struct fgt_range *range,
	       struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	struct asking *asking = context;
	struct fgt_fetch fetch = *asking->fetch;
	bool is_clock_set = false;
	int r = fgt_fetch_open(fetch.socket_path, &channel, why);

	fetch.choice.pid = pid;
	fetch.range = *range;
	if (r == 0)
		r = fgt_fetch_slice(&fetch, &channel, ret_slice, &is_clock_set,
				    why);
	if (r == 0)
		fgt_debuginfod_name(*ret_slice, NULL);
	asking->is_clock_set |= is_clock_set;
	return r;
}

static int ask_for_targets(const char *socket_path,
			   struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	int r = fgt_builder_new_request("targets", &request);

	return r < 0 ? fgt_why_set(why, r, FGT_NO_MEMORY)
		     : fgt_fetch_reply(socket_path, request, ret_reply, why);
}

static bool has_process(const struct fgt_ring_slice *slice, int64_t pid)
{
	for (uint32_t i = 0; i < fgt_slice_process_count(slice); i++)
		if (fgt_slice_process(slice, i).pid == pid)
			return true;
	return false;
}

/* Of the slice's processes, children that it lacks. */
static void note_unsampled(const struct fgt_message *reply,
			   const struct fgt_ring_slice *slice)
{
	struct fgt_message_array targets = { .count = 0 };
	uint64_t sum = 0, count;
	struct fgt_message target;
	int64_t pid;

	(void)fgt_message_get_array(reply, "targets", &targets);
	while (fgt_message_next(&targets, &target) == 0)
		if (fgt_message_get_int(&target, "pid", &pid) == 0 &&
		    fgt_message_get_uint(&target, "unsampled_children",
					 &count) == 0 &&
		    has_process(slice, pid))
			sum += count;
	if (sum)
		fgt_note(NULL,
			 "%" PRIu64 " child process%s ended without being "
			 "sampled since sampling began: they lived for less "
			 "than a second, or were not attached",
			 sum, sum == 1 ? "" : "es");
}

int fgt_fetch_slices(const struct fgt_fetch *fetch,
		     struct fgt_ring_slice **ret_slice, bool *ret_is_clock_set,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *targets = NULL;
	struct asking asking = { .fetch = fetch };
	const struct fgt_several several = {
		.choice = fetch->choice,
		.range = fetch->range,
		.cut = cut,
		.context = &asking,
	};
	struct fgt_several_missing missing;
	int r = fgt_several_fit(&fetch->choice)
			? ask_for_targets(fetch->socket_path, &targets, why)
			: 0;

	if (r == 0)
		r = fgt_several_cut(&several, targets, ret_slice, &missing,
				    why);
	if (r == 0 && missing.count)
		fgt_note(NULL, "%u of %u processes are missing: %s",
			 missing.count, missing.of, missing.why.text);
	if (r == 0 && targets)
		note_unsampled(targets, *ret_slice);
	*ret_is_clock_set = asking.is_clock_set;
	return r;
}
