/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of rows that never grows: sets of four slots, a cache line
 * each. Runs in the sampler's thread.
 */
#include "agent/unwind/cfi_rows.h"

#include <errno.h>
#include <sys/mman.h>

#define SET_BITS  14u
#define SET_SLOTS 4u

struct slot {
	uint32_t serial, address; /* serial 0: empty */
	struct fgt_cfi_row row;
};

struct set {
	struct slot slots[SET_SLOTS];
};

struct fgt_cfi_rows {
	struct set sets[1u << SET_BITS];
	unsigned int turn; /* whose slot is taken from a full set */
};

_Static_assert(sizeof(struct set) == 64, "a set is a cache line");

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

static size_t set_of(uint64_t serial, uint64_t address)
{
	return ((serial << 32 | address) * 0x9e3779b97f4a7c15ull) >>
	       (64 - SET_BITS);
}

/* Others are not kept: they work, only slower. */
static bool can_keep(uint64_t serial, uint64_t address)
{
	return serial <= UINT32_MAX && address <= UINT32_MAX;
}

bool fgt_cfi_rows_find(const struct fgt_cfi_rows *rows, uint64_t serial,
		       uint64_t address, struct fgt_cfi_row *ret_row)
{
	const struct slot *slot = rows->sets[set_of(serial, address)].slots;
	const struct slot *end = slot + SET_SLOTS;

	for (; slot < end; slot++)
		if (slot->address == address && slot->serial == serial) {
			*ret_row = slot->row;
			return true;
		}
	return false;
}

void fgt_cfi_rows_put(struct fgt_cfi_rows *rows, uint64_t serial,
		      uint64_t address, const struct fgt_cfi_row *row)
{
	struct slot *slots = rows->sets[set_of(serial, address)].slots;
	size_t i = 0;

	if (!can_keep(serial, address))
		return;
	while (i < SET_SLOTS && slots[i].serial)
		i++;
	if (i == SET_SLOTS)
		i = rows->turn++ % SET_SLOTS;
	slots[i].serial = (uint32_t)serial;
	slots[i].address = (uint32_t)address;
	slots[i].row = *row;
}

size_t fgt_cfi_rows_size(const struct fgt_cfi_rows *rows)
{
	size_t used = 0;

	for (size_t i = 0; i < sizeof(rows->sets) / sizeof(rows->sets[0]); i++)
		for (size_t j = 0; j < SET_SLOTS; j++)
			used += rows->sets[i].slots[j].serial != 0;
	return used * sizeof(struct slot);
}
