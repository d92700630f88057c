/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that one unwind may look at: a snapshot and the mapped files. Keeps
 * account of what was missing and of the work done.
 *
 * MT-Unsafe for one view, its places and its rows | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_VIEW_H
#define FGT_AGENT_UNWIND_VIEW_H

#include "agent/unwind/arch/snapshot.h"
#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/maps/maps.h"

/* The mapping that an address was found in. */
struct fgt_view_place {
	uint64_t start, end; /* [0, 0): unused */
	bool is_executable;
	struct fgt_image_file *file; /* NULL: none opened */
	uint64_t bias, serial; /* of file; serial 0: none */
};

/* The last ones of some maps: stacks change between a program and a few
 * libraries, and the next stack is in the same ones. */
#define FGT_VIEW_PLACES 8u
struct fgt_view_places {
	uint64_t maps_serial; /* they are of these maps; 0: none */
	struct fgt_view_place places[FGT_VIEW_PLACES];
	unsigned int last, turn; /* the last one found; the next to go */
};

struct fgt_view {
	const struct fgt_maps *maps;
	const struct fgt_snapshot *snapshot;
	struct fgt_cfi_rows *rows; /* NULL: none, all is left to libunwind */
	struct fgt_view_places *places; /* of maps: fgt_view_init */
	uint64_t need_end; /* highest address missing of the stack, or 0 */
	/* SP where a signal frame led to another stack, or 0, and the highest
	 * address missing of that one. */
	uint64_t other_start, need_other_end;
	unsigned int accesses; /* so far; bounds hostile rules */
};

#define FGT_VIEW_ACCESSES_MAX 1000000u

/*
 * A word of the stack. -ENODATA more stack than was copied (need_end is
 * raised), -EFAULT not on the stack.
 */
int fgt_view_read_stack(struct fgt_view *view, uint64_t address,
			uint64_t *ret_word);

/* A word of the stack or of a mapped file's constant part. -ENODATA, -EFAULT,
 * -EOVERFLOW too many reads for one stack. */
int fgt_view_read_word(struct fgt_view *view, uint64_t address,
		       uint64_t *ret_word);

/* Code bytes at an address; returns how many (0 if no file backs it). */
size_t fgt_view_read_code(const struct fgt_view *view, uint64_t address,
			  uint8_t *buffer, size_t len);

/* places and rows are borrowed, too; places may be of other maps. */
void fgt_view_init(struct fgt_view *view, const struct fgt_maps *maps,
		   const struct fgt_snapshot *snapshot,
		   struct fgt_view_places *places, struct fgt_cfi_rows *rows);

/* The mapping that holds an address, NULL if none. Inline for addresses in the
 * mapping that was found last. */
const struct fgt_view_place *fgt_view_search_place(struct fgt_view *view,
						   uint64_t address);
static inline const struct fgt_view_place *
fgt_view_find_place(struct fgt_view *view, uint64_t address)
{
	const struct fgt_view_places *places = view->places;
	const struct fgt_view_place *last = &places->places[places->last];

	if (address - last->start < last->end - last->start)
		return last;
	return fgt_view_search_place(view, address);
}

/* Does the address lie in an executable mapping? */
bool fgt_view_is_code(struct fgt_view *view, uint64_t address);

/* The row of an address, read now if it was not before; NONE or COMPLEX if
 * there is no simple one. Needs view->rows. */
struct fgt_cfi_row fgt_view_find_row(struct fgt_view *view, uint64_t address);

/*
 * The function that holds an address, and its rule; start and end are made
 * addresses in memory. has_saved: its saved registers are counted. -ENOENT,
 * -EBADMSG, -EIO, -EAGAIN.
 */
int fgt_view_find_function(const struct fgt_view *view, uint64_t address,
			   bool has_saved,
			   struct fgt_image_function *ret_function);
int fgt_view_find_rule(const struct fgt_view *view, uint64_t address,
		       struct fgt_cfi_rule *ret_rule);

/*
 * The call right before a return address: 1 and its target (0: indirect, also
 * through a PLT entry), 0 none. Code that cannot be read (of a JIT) gets the
 * benefit of the doubt: 1, indirect.
 */
int fgt_view_find_call(const struct fgt_view *view, uint64_t return_pc,
		       uint64_t *ret_target);

/* One past the last address of the stack, as far as known. */
uint64_t fgt_view_stack_end(const struct fgt_view *view);

#endif
