/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unique names of live tasks: "name#N".
 */
#ifndef FGT_AGENT_LIB_SPANS_TASK_NAMES_H
#define FGT_AGENT_LIB_SPANS_TASK_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/spans/span_log.h"

/* Names that are kept at a time, more than there are live tasks. Names without
 * a live task are recycled. */
#define FGT_TASK_NAMES_MAX 8192

struct fgt_task_name {
	uint32_t entry; /* of the name */
	uint32_t n;
	/* One for each unique name. Another name gets it again only after
	 * 262 144 names. */
	uint32_t track;
	char text[FGT_SPAN_UNIQUE_MAX + 1];
	uint8_t len;
};

/*
 * Takes the lowest N that no live task of that name has. len: 1 to
 * FGT_SPAN_NAME_MAX. -ENOMEM.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_task_name_take(const char *name, size_t len,
		       struct fgt_task_name *ret_name);
void fgt_task_name_release(uint32_t entry, uint32_t n);

/* Forgets all names without freeing them: in the child of a fork. */
void fgt_task_names_abandon(void);

#endif
