/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice of the targets that the flags choose: a request for each. Runs in
 * the command line's main thread.
 */
#include <errno.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/debuginfod.h"
#include "agent/cli/range/several.h"
#include "agent/cli/verbs/fetch.h"

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
	*ret_is_clock_set = asking.is_clock_set;
	return r;
}
