/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Sentry's client reports count of a delivery that is lost, and why.
 * Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_job.h"

#include <errno.h>
#include <string.h>

void fgt_delivery_job_discard(struct fgt_delivery_job *job,
			      enum fgt_discard_reason reason, uint32_t category)
{
	struct fgt_delivery_limits *limits = &job->deliveries->limits;
	const bool is_v1 = job->deliveries->is_sentry_v1;
	const bool is_chunk = job->cut.chunk.profiler_id[0];
	/* The keeper has the chunks apart. */
	const bool has_profile = is_v1 || !job->settled;

	if (!is_chunk)
		fgt_delivery_limits_discard(limits, &job->address, reason,
					    category);
	if (is_chunk || (category == FGT_CATEGORY_TRANSACTION && has_profile))
		fgt_delivery_limits_discard(limits, &job->address, reason,
					    is_v1 && !is_chunk
						    ? FGT_CATEGORY_PROFILE
						    : FGT_CATEGORY_CHUNK);
}

/* The server has seen the transaction that it answered with 429, and not the
 * chunks of its profile. */
static bool is_profile_unsent(const struct fgt_delivery_job *job,
			      const struct fgt_delivery_result *result)
{
	return result->status == 429 && result->error < 0 && !job->settled &&
	       result->category == FGT_CATEGORY_TRANSACTION &&
	       !job->deliveries->is_sentry_v1;
}

bool fgt_delivery_job_has_died_first(const struct fgt_delivery_job *job,
				     const struct fgt_delivery_result *result)
{
	return result->error == -EPIPE && !job->has_died && !job->settled;
}

/* It was not encoded, or its process has died again or took too long. -EBUSY:
 * limited. */
static bool is_without_answer(const struct fgt_delivery_job *job,
			      const struct fgt_delivery_result *result)
{
	return result->error < 0 && result->error != -EAGAIN &&
	       result->error != -EBUSY && !result->status && !job->settled &&
	       !fgt_delivery_job_has_died_first(job, result);
}

static enum fgt_discard_reason
reason_of_failure(const struct fgt_delivery_job *job,
		  const struct fgt_delivery_result *result)
{
	if (result->error == -ENODATA)
		return FGT_DISCARD_NO_DATA;
	/* It took too long: encoding alone does not wait for a server. */
	return result->error == -ETIMEDOUT && !job->is_kept
		       ? FGT_DISCARD_NETWORK
		       : FGT_DISCARD_INTERNAL;
}

/* A transaction that has arrived is not lost with what follows it. */
static uint32_t lost_category(const struct fgt_delivery_job *job,
			      const struct fgt_delivery_result *result)
{
	bool has_arrived = !job->is_kept && result->payloads > 0;

	return has_arrived && result->category == FGT_CATEGORY_TRANSACTION
		       ? FGT_CATEGORY_CHUNK
		       : result->category;
}

void fgt_delivery_job_count_discards(struct fgt_delivery_job *job,
				     const struct fgt_delivery_result *result)
{
	for (uint32_t i = 0; i < FGT_CATEGORY_COUNT; i++)
		for (uint32_t n = 0; n < result->limited[i] && n < 1000; n++)
			fgt_delivery_job_discard(job, FGT_DISCARD_LIMITED, i);
	if (result->error < 0 && result->error != -EAGAIN && result->status &&
	    result->status != 429 && !(job->settled && result->is_refused))
		fgt_delivery_job_discard(job, FGT_DISCARD_SEND,
					 lost_category(job, result));
	if (is_without_answer(job, result))
		fgt_delivery_job_discard(job, reason_of_failure(job, result),
					 lost_category(job, result));
	if (is_profile_unsent(job, result))
		fgt_delivery_job_discard(job, FGT_DISCARD_LIMITED,
					 FGT_CATEGORY_CHUNK);
}

void fgt_delivery_job_put_back_discards(struct fgt_delivery_job *job)
{
	fgt_delivery_limits_restore(&job->deliveries->limits, &job->address,
				    &job->head.discards);
	memset(&job->head.discards, 0, sizeof(job->head.discards));
}
