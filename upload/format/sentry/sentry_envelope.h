/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all Sentry envelopes have: ids, the header, items whose header has the
 * length of their body.
 *
 * MT-Unsafe for one writer | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_ENVELOPE_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_ENVELOPE_H

#include "ringbuf/base/json.h"
#include "upload/format/parts/options.h"

#define FGT_SENTRY_PLATFORM "native"

/* An envelope that is not in memory: its bytes exist only on their way into a
 * sink. */
struct fgt_envelope {
	/* All of it; negative errno as fgt_format_write(). */
	int (*write)(const void *context, const struct fgt_sink *sink);
	const void *context;
};

/* An item's JSON: written as often as needed, the same bytes each time. */
struct fgt_sentry_body {
	int (*put)(void *context, struct fgt_json *json);
	void *context;
};

/* The text, NULL if it is empty. */
static inline const char *fgt_sentry_given(const char *text)
{
	return text && *text ? text : NULL;
}

/* Random bytes in hex, terminated; never all zero. errno of getrandom(2). */
int fgt_sentry_make_id(char *ret_hex, size_t bytes);

/*
 * wanted in lower case, NULL or "": random. -EINVAL unless it is 32 hex
 * digits, not all of them zero.
 */
int fgt_sentry_choose_id(const char *wanted, char ret_id[33]);

/* "sdk" or "client_sdk": {…} into an open object. */
void fgt_sentry_put_sdk(struct fgt_json *json, const char *key);

/* "release", "environment": of the options, else of the service; left out if
 * neither has them: null would be refused. */
void fgt_sentry_put_release(struct fgt_json *json,
			    const struct fgt_format_options *options,
			    const struct fgt_service *service);

/* "tags": the program's, and the name of the trigger that cut the slice; left
 * out if there is none. facts may be NULL. */
void fgt_sentry_put_tags(struct fgt_json *json,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_transaction_facts *facts);

/* The first line of an envelope that leaves now. */
void fgt_sentry_put_header(struct fgt_json *json, const char *event_id,
			   const struct fgt_format_options *options);

/* The time of a transaction in a slice; facts without times mean the slice's
 * last 30 s. */
void fgt_sentry_facts_range(const struct fgt_transaction_facts *facts,
			    const struct fgt_ring_slice *slice,
			    uint64_t *ret_begin_ns, uint64_t *ret_end_ns);

/* How many bytes a body takes; its errors. */
int fgt_sentry_count_body(const struct fgt_sentry_body *body,
			  uint64_t *ret_len);

/*
 * The images of a slice, as Relay wants them in a profile: "debug_meta": {…}
 * into an open object.
 */
void fgt_sentry_images_put(const struct fgt_ring_slice *slice,
			   struct fgt_json *json);

/*
 * An item: its header, with the platform unless that is NULL, and its body of
 * len bytes. The body's errors.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_put_item(struct fgt_json *json, const char *type,
			const char *platform,
			const struct fgt_sentry_body *body, uint64_t len);

/* ---- The tasks and spans of a slice: sentry_spans.c --------------------- */

/* Sentry drops all spans above this number; the longest ones are written. */
#define FGT_SENTRY_SPANS_MAX 1000

/* The transaction that they belong to; borrowed. */
struct fgt_sentry_spans {
	const struct fgt_ring_slice *slice;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t begin_wall_ns; /* the same instant; whole µs */
	const char *trace_id; /* 32 hex digits */
	const char *span_id; /* of the transaction, 16 hex digits */
	/* Only spans of these threads that began since begin_ns; count 0: all
	 * that overlap, cut to fit. */
	const struct fgt_thread_run *thread_runs;
	size_t thread_run_count;
};

/*
 * Writes the key "spans" with its array, also if that is empty; the same bytes
 * each time. At most 900 KiB, since a transaction may have 1 MiB. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_spans_put(const struct fgt_sentry_spans *about,
			 struct fgt_json *json);

#endif
