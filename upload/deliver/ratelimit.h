/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that a server wants a client to wait; for Sentry, by the category of
 * what is sent.
 */
#ifndef FGT_UPLOAD_DELIVER_RATELIMIT_H
#define FGT_UPLOAD_DELIVER_RATELIMIT_H

#include <stdint.h>

#define FGT_RATELIMIT_DEFAULT_S 60
#define FGT_RATELIMIT_MAX_S	86400

/*
 * Seconds to wait by a Retry-After header: a number of seconds or an HTTP date
 * (now_s: seconds since the epoch). Missing, garbled, negative or in the past:
 * FGT_RATELIMIT_DEFAULT_S; at least 1, at most FGT_RATELIMIT_MAX_S.
 *
 * MT-Safe | AS-Unsafe
 */
unsigned int fgt_ratelimit_retry_after(const char *header, int64_t now_s);

/* What of an envelope has separate limits at Sentry. X(id, name) */
#define FGT_SENTRY_CATEGORIES(X)                                               \
	X(TRANSACTION, "transaction")                                          \
	X(PROFILE, "profile") /* version 1, beside its transaction */          \
	X(CHUNK, "profile_chunk")

#define FGT_SENTRY_CATEGORY(id, name) FGT_CATEGORY_##id,
enum fgt_sentry_category {
	FGT_SENTRY_CATEGORIES(FGT_SENTRY_CATEGORY) FGT_CATEGORY_COUNT
};

/* "profile_chunk" of a payload's head; FGT_CATEGORY_TRANSACTION for others. */
enum fgt_sentry_category fgt_category_of(const char *name);
const char *fgt_category_name(enum fgt_sentry_category category);

/* Seconds for which a server wants nothing of a category; 0: no limit. */
struct fgt_ratelimits {
	uint32_t seconds[FGT_CATEGORY_COUNT];
};

/*
 * Takes up what an X-Sentry-Rate-Limits header asks for: of several limits, and
 * of what is there, the longest counts. A limit without categories is one of
 * all; categories that are not known are left out, malformed limits skipped.
 *
 * MT-Safe | AS-Safe
 */
void fgt_ratelimits_read(struct fgt_ratelimits *limits, const char *header);

/* Those of another answer: the longer ones count. */
void fgt_ratelimits_merge(struct fgt_ratelimits *limits,
			  const struct fgt_ratelimits *other);
/* One for all categories. */
void fgt_ratelimits_merge_all(struct fgt_ratelimits *limits, uint32_t seconds);

/* Bit n: there is a limit of category n. */
uint32_t fgt_ratelimits_mask(const struct fgt_ratelimits *limits);

/* When each category may be sent again; { 0 }: at once. */
struct fgt_pauses {
	uint64_t until_ns[FGT_CATEGORY_COUNT]; /* CLOCK_MONOTONIC */
};

/* Pauses only grow by it. */
void fgt_pauses_extend(struct fgt_pauses *pauses,
		       const struct fgt_ratelimits *limits, uint64_t now_ns);
/* Bit n: category n has to wait. */
uint32_t fgt_pauses_mask(const struct fgt_pauses *pauses, uint64_t now_ns);

#endif
