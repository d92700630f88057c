/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of aarch64: DWARF numbers (AADWARF64), perf and ptrace register
 * order, call instructions. Pure functions and constants; compiles on any
 * machine.
 *
 * A leaf keeps its return address in x30 (LR), which /proc/TID/syscall does
 * not tell: such a blocked thread needs registers from elsewhere. pc is the
 * number 32 of this project's tables; CFI's return address column is 30.
 */
#include "agent/unwind/arch.h"

#include <elf.h>
#include <string.h>

enum {
	DWARF_X29 = 29,
	DWARF_X30 = 30,
	DWARF_SP = 31,
	DWARF_PC = 32
};

#define REG_COUNT 33 /* x0 … x30, sp, pc: the same order everywhere */

static const int8_t perf_to_dwarf[64] = {
	0,  1,	2,  3,	4,  5,	6,  7,	8,  9,	10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
	-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
};

static void regs_from_ptrace(const void *user_regs, struct fgt_regs *regs)
{
	uint64_t words[REG_COUNT];

	memcpy(words, user_regs, sizeof(words));
	memset(regs, 0, sizeof(*regs));
	for (unsigned int i = 0; i < REG_COUNT; i++)
		fgt_regs_set(regs, i, words[i]);
}

static int call_before(const uint8_t *code, size_t len, uint64_t return_pc,
		       uint64_t *ret_target)
{
	uint32_t word;
	int64_t distance;

	if (len < sizeof(word) || return_pc % sizeof(word))
		return 0;
	memcpy(&word, code + len - sizeof(word), sizeof(word));
	if (word >> 26 == 0x25) { /* BL imm26 */
		distance = (int32_t)(word << 6) >> 6;
		*ret_target = return_pc - 4 + (uint64_t)(distance * 4);
		return 1;
	}
	/* BLR, then BLRAA, BLRAB, BLRAAZ, BLRABZ (pointer authentication). */
	if ((word & 0xfffffc1f) == 0xd63f0000 ||
	    (word & 0xfefff800) == 0xd63f0800) {
		*ret_target = 0;
		return 1;
	}
	return 0;
}

const struct fgt_arch fgt_arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.reg_count = REG_COUNT,
	.pc = DWARF_PC,
	.sp = DWARF_SP,
	.fp = DWARF_X29,
	.perf_regs_mask = (1ull << REG_COUNT) - 1,
	.perf_to_dwarf = perf_to_dwarf,
	.regs_from_ptrace = regs_from_ptrace,
	.call_before = call_before,
};
