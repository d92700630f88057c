/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's half of a provider writes down, read without a system
 * call. Runs in the sampler's thread.
 */
#include "agent/capture/who_ran/switches.h"

#include <stdatomic.h>
#include <string.h>

#define READ_TRIES 4

uint64_t fgt_switches_version(const struct fgt_switches *switches,
			      uint32_t index)
{
	return __atomic_load_n(&switches->slots[index].version,
			       __ATOMIC_ACQUIRE);
}

bool fgt_switches_read(const struct fgt_switches *switches, uint32_t index,
		       struct fgt_switch_slot *ret_slot)
{
	struct fgt_switch_slot copy;
	uint64_t before;

	for (int i = 0; i < READ_TRIES; i++) {
		before = fgt_switches_version(switches, index);
		memcpy(&copy, &switches->slots[index], sizeof(copy));
		/* Acquire: the copy is taken before the version is read again;
		 * pairs with turn() in the kernel's half. */
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 ||
		    before != __atomic_load_n(&switches->slots[index].version,
					      __ATOMIC_RELAXED))
			continue;
		copy.version = before;
		*ret_slot = copy;
		return true;
	}
	return false;
}

void fgt_switches_set_instant(struct fgt_switches *switches,
			      uint64_t instant_ns)
{
	__atomic_store_n(switches->instant_ns, instant_ns, __ATOMIC_RELAXED);
}

bool fgt_switches_look(struct fgt_switches *switches, uint32_t index,
		       uint64_t version, uint64_t instant_ns)
{
	struct fgt_switch_slot *slot =
		(struct fgt_switch_slot *)&switches->slots[index];

	/* Before the version is loaded: a switch that did not see it shows. */
	__atomic_store_n(&slot->looked_ns, instant_ns, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&slot->version, __ATOMIC_SEQ_CST) == version;
}

void fgt_switches_take(struct fgt_switches *switches,
		       void (*changed)(void *home, void *owner))
{
	unsigned long long *words = switches->changed;

	for (uint32_t word = 0; word < FGT_SWITCH_WORDS; word++) {
		unsigned long long bits;

		if (!__atomic_load_n(&words[word], __ATOMIC_RELAXED))
			continue;
		/* Pairs with mark(): what was written before is seen. */
		bits = __atomic_exchange_n(&words[word], 0, __ATOMIC_SEQ_CST);
		for (; bits; bits &= bits - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);
			const struct fgt_switch_owner *owner =
				&switches->owners[word * 64 + bit];

			if (owner->owner)
				changed(owner->home, owner->owner);
		}
	}
}
