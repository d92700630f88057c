/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: a profile that is being written.
 *
 * MT-Unsafe for one profile | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PPROF_PPROF_PARTS_H
#define FGT_UPLOAD_FORMAT_PPROF_PPROF_PARTS_H

#include "upload/format/parts/functions.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/protobuf.h"
#include "upload/format/parts/thread_samples.h"

/* Fields of the messages in profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE,
	SAMPLE_LABEL,
	LABEL_KEY = 1,
	LABEL_STR,
	LABEL_NUM,
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID,
	LOCATION_ADDRESS,
	LOCATION_LINE,
	LINE_FUNCTION_ID = 1,
	LINE_LINE,
	FUNCTION_ID = 1,
	FUNCTION_NAME,
	FUNCTION_FILENAME = 4,
	MAPPING_ID = 1,
	MAPPING_MEMORY_START,
	MAPPING_MEMORY_LIMIT,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
};

/* What all waits of a state have in common. */
struct fgt_pprof_wait {
	bool is_known; /* there is one */
	uint32_t kind; /* enum fgt_wait_kind; 0: several */
	/* String ids; 0: none, or several. A lock or a descriptor, a thread. */
	uint32_t object, holder;
};

struct fgt_pprof {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_protobuf out;
	/* The tables. Ids begin at 1, except that string 0 is "". */
	struct fgt_id_map locations; /* frame or level → id - 1 */
	struct fgt_functions functions;
	struct fgt_strings strings;
	int error; /* of adding to them: -ENOMEM; sticks */
	struct fgt_thread_samples samples;
	struct fgt_pprof_wait waits[FGT_STATE_MAX + 1]; /* by state */
};

/* Adds a text to the string table. */
uint32_t fgt_pprof_string(struct fgt_pprof *pprof, const char *text);
void fgt_pprof_put_string(struct fgt_pprof *pprof, uint32_t field,
			  const char *text);

/* Fills waits, for the labels. */
void fgt_pprof_find_waits(struct fgt_pprof *pprof);

/* The labels of a sample of the present thread, in its open message. state: as
 * a level. */
void fgt_pprof_put_labels(struct fgt_pprof *pprof, struct fgt_level state,
			  const struct fgt_sample *sample);

#endif
