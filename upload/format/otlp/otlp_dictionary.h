/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ProfilesDictionary of OTLP: tables that samples point into by index. What
 * is asked for is added, so each table has no duplicate and nothing unused.
 * Index 0 of each table is empty and means "not set".
 *
 * MT-Unsafe for one dictionary | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_OTLP_OTLP_DICTIONARY_H
#define FGT_UPLOAD_FORMAT_OTLP_OTLP_DICTIONARY_H

#include "ringbuf/base/id_map.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/protobuf.h"
#include "upload/format/parts/trace_links.h"

enum fgt_otlp_key {
	FGT_OTLP_THREAD_NAME,
	FGT_OTLP_THREAD_ID,
	FGT_OTLP_THREAD_STATE,
	FGT_OTLP_PROCESS_ID,
	FGT_OTLP_PROCESS_TITLE,
	FGT_OTLP_BUILD_ID,
	FGT_OTLP_TICKS_MISSED,
	FGT_OTLP_TICKS_EVICTED,
	FGT_OTLP_TICKS_LAPPED,
	FGT_OTLP_KEY_COUNT
};

struct fgt_otlp_dictionary {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_strings strings; /* by index; UTF-8 */
	struct fgt_strings values; /* of attributes; likewise */
	/* Each key has index id + 1. */
	struct fgt_id_map mappings; /* image of the slice */
	struct fgt_id_map locations; /* frame, or a function without code */
	struct fgt_id_map functions; /* (name, file): indices of strings */
	struct fgt_id_map links; /* link of the trace links */
	struct fgt_id_map attributes; /* (key, number or value) */
	struct fgt_id_map stacks; /* (leaf node, location of the state) */
	int error; /* the first one: -ENOMEM; sticks */
};

/* -ENOMEM. */
int fgt_otlp_dictionary_init(struct fgt_otlp_dictionary *dictionary,
			     const struct fgt_ring_slice *slice,
			     enum fgt_state_frames state_frames);
/* Accepts a zeroed struct. */
void fgt_otlp_dictionary_done(struct fgt_otlp_dictionary *dictionary);

/* Each finds or adds, and returns the index; 0 after an error. */
uint32_t fgt_otlp_string(struct fgt_otlp_dictionary *dictionary,
			 const char *text);
uint32_t fgt_otlp_stack(struct fgt_otlp_dictionary *dictionary, uint32_t node,
			uint32_t state);
/* link: of the trace links; 0: none. */
uint32_t fgt_otlp_link(struct fgt_otlp_dictionary *dictionary, uint32_t link);
/* An attribute with a text, or with a number above 0 (if text is NULL). */
uint32_t fgt_otlp_attribute(struct fgt_otlp_dictionary *dictionary,
			    enum fgt_otlp_key key, const char *text,
			    uint64_t number);

/* The value of an attribute, likewise: a field of it. */
void fgt_otlp_put_value(struct fgt_protobuf *out, const char *text,
			uint64_t number);

/* Writes all tables: the fields of the message. */
void fgt_otlp_dictionary_put(struct fgt_otlp_dictionary *dictionary,
			     const struct fgt_trace_links *links,
			     struct fgt_protobuf *out);

#endif
