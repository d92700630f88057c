/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a pprof profile, which its samples point into. They grow while
 * samples are written, and are written after them.
 */
#ifndef FGT_UPLOAD_FORMAT_PPROF_PPROF_TABLES_H
#define FGT_UPLOAD_FORMAT_PPROF_PPROF_TABLES_H

#include "upload/format/parts/functions.h"
#include "upload/format/pprof/protobuf.h"

/* Fields of message Profile in profile.proto. */
enum fgt_pprof_field {
	FGT_PPROF_SAMPLE_TYPE = 1,
	FGT_PPROF_SAMPLE,
	FGT_PPROF_MAPPING,
	FGT_PPROF_LOCATION,
	FGT_PPROF_FUNCTION,
	FGT_PPROF_STRING,
	FGT_PPROF_TIME_NANOS = 9,
	FGT_PPROF_DURATION_NANOS,
	FGT_PPROF_PERIOD_TYPE,
	FGT_PPROF_PERIOD,
	FGT_PPROF_COMMENT,
	FGT_PPROF_DEFAULT_SAMPLE_TYPE,
};

/* Strings that are not from the slice. */
enum fgt_pprof_word {
	FGT_PPROF_SAMPLES,
	FGT_PPROF_COUNT,
	FGT_PPROF_WALL,
	FGT_PPROF_NANOSECONDS,
	FGT_PPROF_THREAD,
	FGT_PPROF_THREAD_ID,
	FGT_PPROF_STATE,
};

struct fgt_pprof_tables {
	const struct fgt_ring_slice *slice;
	struct fgt_protobuf *out;
	struct fgt_functions functions;
	struct fgt_id_map locations; /* frame or level → id - 1 */
	struct fgt_id_map strings; /* where it comes from → index - 1 */
	int error; /* -ENOMEM; sticks */
};

void fgt_pprof_tables_init(struct fgt_pprof_tables *tables,
			   const struct fgt_ring_slice *slice,
			   struct fgt_protobuf *out);
void fgt_pprof_tables_done(struct fgt_pprof_tables *tables);

/* Ids of locations: of a frame of the slice, of a state or of no stack. */
uint64_t fgt_pprof_frame(struct fgt_pprof_tables *tables, uint32_t frame);
uint64_t fgt_pprof_level(struct fgt_pprof_tables *tables,
			 struct fgt_level level);

/* Indices of strings: a word, a level's name, a thread's, a comment. */
uint64_t fgt_pprof_word(struct fgt_pprof_tables *tables,
			enum fgt_pprof_word word);
uint64_t fgt_pprof_level_name(struct fgt_pprof_tables *tables,
			      struct fgt_level level);
uint64_t fgt_pprof_thread_name(struct fgt_pprof_tables *tables,
			       uint32_t thread);
uint64_t fgt_pprof_comment(struct fgt_pprof_tables *tables, uint32_t number);

/* Comment number's text; false: there is none of that number. */
bool fgt_pprof_comment_text(const struct fgt_ring_slice *slice, uint32_t number,
			    char ret_text[256]);

/*
 * Writes all tables; no call that adds to them may follow. -ENOMEM; errors of
 * the writer stay in the writer.
 *
 * MT-Unsafe for one profile | AS-Unsafe
 */
int fgt_pprof_tables_put(struct fgt_pprof_tables *tables);

#endif
