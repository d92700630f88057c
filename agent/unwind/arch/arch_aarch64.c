/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of aarch64: DWARF numbers (AADWARF64), perf and ptrace register
 * order, call instructions. Pure functions and constants; compiles on any
 * machine.
 *
 * A leaf keeps its return address in x30 (LR), which is not in
 * /proc/TID/syscall: a thread that is blocked in a leaf needs its registers
 * from another source. pc is the number 32 of this project's tables; CFI's
 * return address column is 30.
 */
#include "agent/unwind/arch/arch.h"

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

static const uint8_t call_args[] = { 0, 1, 2, 3, 4, 5 };

static void regs_from_ptrace(const void *user_regs, struct fgt_regs *regs)
{
	uint64_t words[REG_COUNT];

	memcpy(words, user_regs, sizeof(words));
	memset(regs, 0, sizeof(*regs));
	for (unsigned int i = 0; i < REG_COUNT; i++)
		fgt_regs_set(regs, i, words[i]);
}

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

static int call_before(const uint8_t *code, size_t len, uint64_t return_pc,
		       uint64_t *ret_target)
{
	uint32_t word;
	int64_t distance;

	if (len < sizeof(word) || return_pc % sizeof(word))
		return 0;
	word = word_at(code + len - sizeof(word));
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

/* stp x29, x30, [sp, #-n]! */
static bool find_entry(const uint8_t *code, size_t len, uint64_t address,
		       uint64_t *ret_start)
{
	for (size_t at = len & ~(size_t)3; at >= 4; at -= 4)
		if ((word_at(code + at - 4) & 0xffc07fff) == 0xa9807bfd) {
			*ret_start = address + at - 4;
			return true;
		}
	return false;
}

/* B imm26 and B.cond imm19. */
static bool has_jump_to(const uint8_t *code, size_t len, uint64_t address,
			uint64_t start, uint64_t end)
{
	for (size_t at = 0; at + 4 <= len; at += 4) {
		uint32_t word = word_at(code + at);
		int64_t distance;
		uint64_t target;

		if (word >> 26 == 0x05)
			distance = (int32_t)(word << 6) >> 6;
		else if (word >> 24 == 0x54)
			distance = (int32_t)(word << 8) >> 13;
		else
			continue;
		target = address + at + (uint64_t)(distance * 4);
		if (target >= start && target < end)
			return true;
	}
	return false;
}

/* (bti c;) adrp x16; ldr x17; add x16; br x17 */
static bool is_indirect_jump(const uint8_t *code, size_t len)
{
	static const uint8_t bti[] = { 0x5f, 0x24, 0x03, 0xd5 };
	size_t at = 0;

	if (len >= sizeof(bti) && !memcmp(code, bti, sizeof(bti)))
		at = sizeof(bti);
	return len >= at + 16 &&
	       (word_at(code + at) & 0x9f00001f) == 0x90000010 &&
	       word_at(code + at + 12) == 0xd61f0220;
}

/* mov x8, #139; svc #0 */
static bool is_sigreturn(const uint8_t *code, size_t len)
{
	static const uint8_t words[] = { 0x68, 0x11, 0x80, 0xd2,
					 0x01, 0x00, 0x00, 0xd4 };

	return len >= sizeof(words) && !memcmp(code, words, sizeof(words));
}

/*
 * siginfo (128 bytes), ucontext: flags, link, stack_t (40), sigmask (128),
 * padding to 16, then fault_address and x0 … x30, sp, pc
 * (asm/sigcontext.h).
 */
static int sigreturn_offset(unsigned int reg)
{
	return reg < REG_COUNT ? 128 + 176 + 8 + 8 * (int)reg : -1;
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
	.call_args = call_args,
	.regs_from_ptrace = regs_from_ptrace,
	.call_before = call_before,
	.find_entry = find_entry,
	.has_jump_to = has_jump_to,
	.is_indirect_jump = is_indirect_jump,
	.is_sigreturn = is_sigreturn,
	.sigreturn_offset = sigreturn_offset,
};
