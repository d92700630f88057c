/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that a server wants a client to wait.
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

/*
 * Seconds that an X-Sentry-Rate-Limits header asks for an envelope with a
 * transaction and a profile: the longest limit that applies, 0 if none
 * does. Malformed limits are skipped.
 *
 * MT-Safe | AS-Safe
 */
unsigned int fgt_ratelimit_sentry(const char *header);

#endif
