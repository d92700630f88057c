/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of rows that never grows beyond its bound. Runs in the
 * sampler's thread.
 */
#include "agent/unwind/cfi/cfi_rows.h"

#include <errno.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct fgt_cfi_set) == 64, "a set is a cache line");
_Static_assert(sizeof(struct fgt_cfi_set) << FGT_CFI_ROWS_SET_BITS ==
		       FGT_CFI_ROWS_BYTES_MAX,
	       "the bound is the header's");

#define FIRST_SETS 64u /* a page */
#define SETS_MAX   (1u << FGT_CFI_ROWS_SET_BITS)

int fgt_cfi_rows_new(struct fgt_cfi_rows **ret_rows)
{
	/* Not malloc: pages are aligned, and zero without being touched. */
	struct fgt_cfi_rows *rows = mmap(NULL, sizeof(*rows),
					 PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (rows == MAP_FAILED)
		return -errno;
	rows->set_mask = FIRST_SETS - 1;
	*ret_rows = rows;
	return 0;
}

void fgt_cfi_rows_free(struct fgt_cfi_rows *rows)
{
	if (rows)
		munmap(rows, sizeof(*rows));
}

/* Rows beyond are not kept: they are read at each use. */
static bool can_keep(uint64_t serial, uint64_t address)
{
	return serial <= UINT32_MAX && address <= UINT32_MAX;
}

/* Twice as many sets: each gives to a new one what that shall hold. */
static void grow(struct fgt_cfi_rows *rows)
{
	uint32_t sets = rows->set_mask + 1;

	rows->set_mask = sets * 2 - 1;
	for (uint32_t i = 0; i < sets; i++) {
		struct fgt_cfi_slot *from = rows->sets[i].slots;
		struct fgt_cfi_slot *to = rows->sets[i + sets].slots;

		for (size_t j = 0; j < FGT_CFI_ROWS_SLOTS; j++) {
			if (!from[j].serial ||
			    fgt_cfi_rows_set(rows, from[j].serial,
					     from[j].address) == i)
				continue;
			to[j] = from[j];
			from[j] = (struct fgt_cfi_slot){ .serial = 0 };
		}
	}
}

void fgt_cfi_rows_put(struct fgt_cfi_rows *rows, uint64_t serial,
		      uint64_t address, const struct fgt_cfi_row *row)
{
	struct fgt_cfi_slot *slots, *slot = NULL;

	if (!can_keep(serial, address))
		return;
	if (rows->used > 2 * rows->set_mask && rows->set_mask + 1 < SETS_MAX)
		grow(rows);
	slots = rows->sets[fgt_cfi_rows_set(rows, serial, address)].slots;
	for (size_t i = 0; i < FGT_CFI_ROWS_SLOTS; i++) {
		if (slots[i].address == address && slots[i].serial == serial)
			slot = &slots[i];
		else if (!slot && !slots[i].serial)
			slot = &slots[i];
	}
	if (!slot)
		slot = &slots[rows->turn++ % FGT_CFI_ROWS_SLOTS];
	rows->used += slot->serial == 0;
	slot->serial = (uint32_t)serial;
	slot->address = (uint32_t)address;
	slot->row = *row;
}
