/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns any bytes into a snapshot that could do harm: words that are code
 * addresses, stack addresses, small numbers or raw. For the hostile unit test
 * and for the fuzz target; header only, so that both link it.
 */
#ifndef FGT_TESTS_UNIT_UNWIND_MUTATE_H
#define FGT_TESTS_UNIT_UNWIND_MUTATE_H

#include <string.h>

#include "agent/unwind/arch/snapshot.h"
#include "agent/unwind/maps/maps.h"

#define MUTATE_STACK_AT	   0x7ffd00000000ull
#define MUTATE_STACK_WORDS 512

struct mutated {
	struct fgt_snapshot snapshot;
	uint64_t stack[MUTATE_STACK_WORDS];
};

/* Reads the input, then zeros. */
struct mutate_input {
	const uint8_t *at, *end;
};

static inline uint64_t mutate_take(struct mutate_input *input, size_t len)
{
	uint64_t value = 0;

	if ((size_t)(input->end - input->at) < len)
		len = (size_t)(input->end - input->at);
	memcpy(&value, input->at, len);
	input->at += len;
	return value;
}

/* One word; code[code_count] are addresses of executable mappings. */
static inline uint64_t mutate_word(struct mutate_input *input,
				   const uint64_t *code, size_t code_count)
{
	uint8_t kind = (uint8_t)mutate_take(input, 1);

	if (kind < 96 && code_count)
		return code[kind % code_count] + mutate_take(input, 3);
	if (kind < 176)
		return MUTATE_STACK_AT + mutate_take(input, 2) % 8192;
	if (kind < 216)
		return mutate_take(input, 1);
	return mutate_take(input, 8);
}

/* The registers, then the stack; what input lacks is repeated. */
static inline void mutate(const uint8_t *bytes, size_t len,
			  const uint64_t *code, size_t code_count,
			  struct mutated *mutated)
{
	struct mutate_input input = { bytes, bytes + len };
	struct fgt_snapshot *snapshot = &mutated->snapshot;
	size_t words = 0;

	memset(snapshot, 0, sizeof(*snapshot));
	for (unsigned int i = 0; i < fgt_arch_host.reg_count; i++)
		fgt_regs_set(&snapshot->regs, i,
			     mutate_word(&input, code, code_count));
	/* Some registers may be unknown, but never these two. */
	snapshot->regs.valid &= mutate_take(&input, 4) | 0xffff;
	snapshot->is_blocked = mutate_take(&input, 1) & 1;
	if (snapshot->is_blocked)
		snapshot->regs.valid = 0;
	fgt_regs_set(&snapshot->regs, fgt_arch_host.sp,
		     MUTATE_STACK_AT + mutate_take(&input, 1) % 64 * 8);
	fgt_regs_set(&snapshot->regs, fgt_arch_host.pc,
		     mutate_word(&input, code, code_count));
	while (words < MUTATE_STACK_WORDS && input.at < input.end)
		mutated->stack[words++] = mutate_word(&input, code, code_count);
	for (size_t i = words; i < MUTATE_STACK_WORDS; i++)
		mutated->stack[i] = words ? mutated->stack[i % words] : 0;
	snapshot->stack = (const uint8_t *)mutated->stack;
	snapshot->stack_start = MUTATE_STACK_AT;
	snapshot->stack_len = sizeof(mutated->stack);
	snapshot->stack_limit = MUTATE_STACK_AT +
				(bytes[0] & 1 ? 8192 : sizeof(mutated->stack));
}

#endif
