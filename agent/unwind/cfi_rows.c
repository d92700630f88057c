/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of rows that never grows. Runs in the sampler's thread.
 */
#include "agent/unwind/cfi_rows.h"

#include <errno.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct fgt_cfi_set) == 64, "a set is a cache line");
_Static_assert(sizeof(struct fgt_cfi_set) << FGT_CFI_ROWS_SET_BITS ==
		       FGT_CFI_ROWS_BYTES_MAX,
	       "the bound is what the header says");

int fgt_cfi_rows_new(struct fgt_cfi_rows **ret_rows)
{
	/* Not malloc: pages are aligned, and zero without being touched. */
	void *rows = mmap(NULL, sizeof(struct fgt_cfi_rows),
			  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (rows == MAP_FAILED)
		return -errno;
	*ret_rows = rows;
	return 0;
}

void fgt_cfi_rows_free(struct fgt_cfi_rows *rows)
{
	if (rows)
		munmap(rows, sizeof(*rows));
}

/* Others are not kept: they work, only slower. */
static bool can_keep(uint64_t serial, uint64_t address)
{
	return serial <= UINT32_MAX && address <= UINT32_MAX;
}

void fgt_cfi_rows_put(struct fgt_cfi_rows *rows, uint64_t serial,
		      uint64_t address, const struct fgt_cfi_row *row)
{
	struct fgt_cfi_slot *slots =
		rows->sets[fgt_cfi_rows_set(serial, address)].slots;
	size_t i = 0;

	if (!can_keep(serial, address))
		return;
	while (i < FGT_CFI_ROWS_SLOTS && slots[i].serial &&
	       (slots[i].address != address || slots[i].serial != serial))
		i++;
	if (i == FGT_CFI_ROWS_SLOTS)
		i = rows->turn++ % FGT_CFI_ROWS_SLOTS;
	slots[i].serial = (uint32_t)serial;
	slots[i].address = (uint32_t)address;
	slots[i].row = *row;
}

size_t fgt_cfi_rows_size(const struct fgt_cfi_rows *rows)
{
	size_t used = 0;

	for (size_t i = 0; i < sizeof(rows->sets) / sizeof(rows->sets[0]); i++)
		for (size_t j = 0; j < FGT_CFI_ROWS_SLOTS; j++)
			used += rows->sets[i].slots[j].serial != 0;
	return used * sizeof(struct fgt_cfi_slot);
}
