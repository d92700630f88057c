/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slice lacks of what was asked for. Runs in the command line's main
 * thread.
 */
#include <inttypes.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "ringbuf/slice/pace.h"
#include "upload/why/words.h"

#define GAP_NS	  100000000u
#define SENTRY_NS 30000000000u /* the most of a profile or chunk */

/* b - a if that is longer than ticks at that rate may be apart. */
static uint64_t gap_ns(const struct fgt_ring_slice *slice, uint32_t tick,
		       uint64_t a, uint64_t b)
{
	return b > a && b - a > 2 * fgt_pace_ns(slice, tick) + GAP_NS ? b - a
								      : 0;
}

static void report_pace(const struct fgt_export *plan,
			const struct fgt_ring_slice *slice)
{
	struct fgt_words words = { .len = 0 };

	fgt_words_add_pace(&words, slice);
	if (words.len)
		fgt_note(plan->verb, "%s", words.text);
}

bool fgt_export_is_for_sentry(const struct fgt_export *plan)
{
	return (plan->is_upload_wanted &&
		plan->destination->format == FGT_KIND_SENTRY) ||
	       (plan->is_file_wanted &&
		(plan->choice.format == FGT_KIND_SENTRY ||
		 plan->choice.format == FGT_KIND_SENTRY_CHUNK));
}

static void report_cut(const struct fgt_export *plan,
		       const struct fgt_ring_slice *slice)
{
	uint64_t covered_ns =
		slice->tick_ns[slice->tick_count - 1] - slice->tick_ns[0];

	if (fgt_export_is_for_sentry(plan) && covered_ns > SENTRY_NS)
		fgt_note(plan->verb,
			 "Sentry takes at most 30 s: the first %.1f s were "
			 "left out; send parts with --from and --to",
			 (double)(covered_ns - SENTRY_NS) / 1e9);
}

#define KEEP_MORE "; raise ring.seconds or ring.memory_mb to keep more"

/* From 0 means from the beginning of the recording, not of the machine. */
static void warn_of_beginning(const struct fgt_export *plan,
			      const struct fgt_ring_slice *slice)
{
	uint64_t late_ns =
		gap_ns(slice, 0, slice->requested_from_ns, slice->tick_ns[0]);

	if (slice->requested_from_ns == 0 && slice->evicted_ticks)
		fgt_note(plan->verb,
			 "the slice begins %.1f s before its end: what was "
			 "recorded earlier is gone" KEEP_MORE,
			 (double)(slice->tick_ns[slice->tick_count - 1] -
				  slice->tick_ns[0]) /
				 1e9);
	else if (slice->requested_from_ns && late_ns)
		fgt_note(plan->verb,
			 "the first %.1f s asked for were not kept%s",
			 (double)late_ns / 1e9,
			 slice->evicted_ticks ? KEEP_MORE
					      : ": sampling began later");
}

static void warn_of_gaps(const struct fgt_export *plan,
			 const struct fgt_ring_slice *slice)
{
	uint32_t last = slice->tick_count - 1;
	uint64_t early_ns = gap_ns(slice, last, slice->tick_ns[last],
				   slice->requested_to_ns);

	if (slice->lapped_ticks)
		fgt_note(plan->verb,
			 "%" PRIu64 " ticks were overwritten while the slice "
			 "was cut; ask for a shorter or later time",
			 slice->lapped_ticks);
	warn_of_beginning(plan, slice);
	if (early_ns)
		fgt_note(plan->verb,
			 "nothing was recorded in the last %.1f s asked for: "
			 "the process or its sampling ended, or the sampler "
			 "could not run",
			 (double)early_ns / 1e9);
}

void fgt_export_note(const struct fgt_export *plan,
		     const struct fgt_ring_slice *slice)
{
	report_pace(plan, slice);
	report_cut(plan, slice);
	warn_of_gaps(plan, slice);
}
