/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slice becomes for one destination: a small head that can be stored,
 * since it holds no secret, and the bytes of a body.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_PAYLOAD_H
#define FGT_UPLOAD_DELIVER_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/format/sentry/sentry_envelope.h"

#define FGT_PAYLOAD_VERSION 1

/* Plain data without pointers, so that it can be stored and sent as it is.
 * Texts are terminated, "" if there is none; unused bytes are 0. */
struct fgt_payload_head {
	uint32_t version;
	int32_t pid;
	uint64_t from_wall_ns, to_wall_ns; /* since the epoch */
	uint64_t sequence; /* {seq} */
	char destination[64]; /* its name in the configuration */
	char id[33]; /* 32 hex digits; the same in each try */
	char format[24]; /* of enum fgt_format_kind, by name */
	char ending[24]; /* of a file: ".trace.json.gz" */
	char category[24]; /* Sentry's, for rate limits */
	char content_type[64];
	char content_encoding[16]; /* "gzip" or "" */
	char name[256]; /* {name}: of the transaction or the process */
	char service[256];
	char host[65]; /* {host}: where it was recorded */
};

/* The bytes of a body: from an encoder, or from where they are stored. */
struct fgt_payload {
	struct fgt_payload_head head;
	struct fgt_envelope body;
};

/* Gets each payload of a slice, while it is encoded. Its errors end the
 * encoding. */
struct fgt_payload_taker {
	int (*take)(void *context, const struct fgt_payload *payload,
		    struct fgt_why *why);
	void *context;
	bool is_stored; /* what it takes: no secret, and nothing of now */
};

/*
 * Checks a head that was stored: -EBADMSG for another version, another length,
 * or a text that is not terminated.
 */
int fgt_payload_head_read(const void *bytes, size_t len,
			  struct fgt_payload_head *ret_head);

#endif
