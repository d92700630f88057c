/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of one kind, by their names: "worker-1" and "worker-12" are both of
 * "worker-*". Of which processes they are, where a slice has several.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_GROUP_H
#define FGT_UPLOAD_WHY_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "ringbuf/base/id_map.h"
#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"
#include "upload/why/words.h"

#define FGT_GROUP_NAME_MAX 64 /* NUL included */

/*
 * The name with each number in it as '*': decimal digits, in a name that has
 * anything else. Longer names are cut. Returns ret_pattern.
 */
const char *fgt_group_pattern(const char *name,
			      char ret_pattern[FGT_GROUP_NAME_MAX]);

/* The same of a thread; "worker-* of nginx" if has_processes, several, and the
 * thread is not the first one of its process. */
const char *fgt_group_of_thread(const struct fgt_ring_slice *slice,
				uint32_t thread, bool has_processes,
				char ret_pattern[FGT_GROUP_NAME_MAX]);

#define FGT_GROUP_PIDS 8u

/* Some processes: of a row of a table. */
struct fgt_group_pids {
	uint32_t count;
	int32_t first[FGT_GROUP_PIDS];
};

/* Adds the process of a thread to those of a row, once. seen: of all rows.
 * -ENOMEM. */
int fgt_group_add_pid(const struct fgt_ring_slice *slice, uint32_t thread,
		      uint32_t row, struct fgt_id_map *seen,
		      struct fgt_group_pids *pids);

/* "pid 12, 13", "40 processes"; nothing if there are none. */
void fgt_group_add_words(const struct fgt_group_pids *pids,
			 struct fgt_words *words);
/* "process_count" and the first "pids" into an open object; likewise. */
void fgt_group_put(const struct fgt_group_pids *pids, struct fgt_json *json);

#endif
