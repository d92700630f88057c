/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of this folder: the tree of names that stacks are summed in.
 * MT-Unsafe.
 */
#ifndef FGT_UPLOAD_FORMAT_FOLDED_FOLDED_TREE_H
#define FGT_UPLOAD_FORMAT_FOLDED_FOLDED_TREE_H

#include "ringbuf/base/id_map.h"
#include "ringbuf/base/sink.h"
#include "upload/format/parts/levels.h"

#define NO_ENTRY UINT32_MAX

struct tree_entry {
	uint32_t parent, name; /* NO_ENTRY at the root; id in names */
	uint32_t first_child, next_sibling;
	uint64_t ticks; /* of stacks that end here */
};

/* One entry stands for up to two parts of the output. */
struct output_part {
	uint32_t entry;
	bool is_line; /* its own line; else everything below it */
};

struct folded {
	const struct fgt_ring_slice *slice;
	struct fgt_levels levels;
	struct fgt_strings names; /* as they are written */
	struct fgt_id_map entries; /* (parent, name) → entry */
	struct tree_entry *entry; /* [entries.count], by id */
	uint32_t capacity;
	uint32_t first_root;
	uint32_t root; /* NO_ENTRY; of several processes the one of that which
			* is being added */
	struct output_part *parts; /* still to be written, the next one last */
	size_t part_count, part_capacity;
	uint32_t path[2 * FGT_LEVELS_MAX + 4];
	uint32_t *thread_runs; /* [thread_count + 1], with waits; else NULL */
	struct fgt_sink_buffer out;
};

/* From *entry to its child of that name, which is added if it is new. -ENOMEM.
 * So are the errors of all below. */
int fgt_folded_step_to_text(struct folded *folded, const char *text,
			    uint32_t *entry);
int fgt_folded_step_to_level(struct folded *folded, struct fgt_level level,
			     uint32_t *entry);
/* A stack from its root on, below the process. */
int fgt_folded_add_stack(struct folded *folded, uint32_t stack, uint32_t state,
			 uint32_t *ret_entry);

/* For fgt_folded_add_wait(). */
int fgt_folded_index_runs(struct folded *folded);
/*
 * Adds the ticks of a run whose thread waits for a lock of a thread of the
 * slice, or was woken by a thread whose stack is known. *ret_is_added: false of
 * any other run, of which nothing is added.
 */
int fgt_folded_add_wait(struct folded *folded, const struct fgt_run *run,
			bool *ret_is_added);

#endif
