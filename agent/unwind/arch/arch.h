/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between processors, as tables: DWARF register numbers, perf's
 * register order, user_regs_struct, calls and system call names.
 * A new processor is one more arch_*.c.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_AGENT_UNWIND_ARCH_ARCH_H
#define FGT_AGENT_UNWIND_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_REGS_MAX 33 /* DWARF numbers 0 … 32 cover x86-64 and aarch64 */

/* Registers of one thread by DWARF number; bit n of valid: value[n] known. */
struct fgt_regs {
	uint64_t value[FGT_REGS_MAX];
	uint64_t valid;
};

struct fgt_arch {
	const char *name; /* "x86_64" */
	uint16_t elf_machine; /* EM_X86_64 */
	unsigned int reg_count;
	unsigned int pc, sp, fp; /* DWARF numbers; pc: return address column */
	uint64_t perf_regs_mask; /* PERF_SAMPLE_REGS_USER mask to ask for */
	const int8_t *perf_to_dwarf; /* by bit number in the mask; -1: unused */
	/* The six that hold the arguments of a system call: procfs shows them
	 * of a thread that is blocked in one. */
	const uint8_t *call_args;
	/* Where from a frame's CFA its return address lies, in bytes; 0: not
	 * at one place. */
	int return_offset;
	/* From the NT_PRSTATUS regset that PTRACE_GETREGSET gives. */
	void (*regs_from_ptrace)(const void *user_regs, struct fgt_regs *regs);
	/*
	 * Does a call instruction end right before return_pc? code[len] are
	 * the bytes before it. 1: yes, *ret_target = its target (0 if
	 * indirect); 0: no.
	 */
	int (*call_before)(const uint8_t *code, size_t len, uint64_t return_pc,
			   uint64_t *ret_target);
	/*
	 * Bytes of locals that a function with a frame pointer takes, by its
	 * first instructions; 0 if unknown. A hint. NULL: the frame pointer
	 * points at the lowest word, and there is nothing to predict.
	 */
	uint64_t (*locals_bytes)(const uint8_t *code, size_t len);
	/*
	 * Where in the code at address the last function with a frame pointer
	 * starts: *ret_start. For code without rules. A hint.
	 */
	bool (*find_entry)(const uint8_t *code, size_t len, uint64_t address,
			   uint64_t *ret_start);
	/*
	 * Does the code at address jump (not call) into [start, end)? A tail
	 * call, or the way into a function's cold part.
	 */
	bool (*has_jump_to)(const uint8_t *code, size_t len, uint64_t address,
			    uint64_t start, uint64_t end);
	/*
	 * Is a call at an address the first of its stack, by what the code does
	 * that ends with it (before) and goes on behind it (after)? Go's rules
	 * do not have that. NULL: not known.
	 */
	bool (*starts_stack)(const uint8_t *before, size_t before_len,
			     const uint8_t *after, size_t after_len);
	/* Does the code start with a jump through a pointer (a PLT entry)? */
	bool (*is_indirect_jump)(const uint8_t *code, size_t len);
	/*
	 * Is this the CFA that linkers write for a PLT? Its expression needs
	 * nothing but SP and PC: *ret_offset = CFA - SP at the address.
	 * NULL: PLT entries leave SP alone.
	 */
	bool (*plt_cfa)(const uint8_t *expression, size_t len, uint64_t address,
			int64_t *ret_offset);
	/* Is this the instruction of a signal trampoline (rt_sigreturn)? */
	bool (*is_sigreturn)(const uint8_t *code, size_t len);
	/* Where in the signal frame (from SP on) the kernel saved a register,
	 * by DWARF number; -1: not saved. */
	int (*sigreturn_offset)(unsigned int reg);
};

extern const struct fgt_arch fgt_arch_x86_64;
extern const struct fgt_arch fgt_arch_aarch64;

/* The processor that this binary was built for. */
#if defined(__x86_64__)
#define fgt_arch_host fgt_arch_x86_64
#elif defined(__aarch64__)
#define fgt_arch_host fgt_arch_aarch64
#else
#error "this processor needs an arch_*.c"
#endif

static inline bool fgt_regs_get(const struct fgt_regs *regs, unsigned int reg,
				uint64_t *ret_value)
{
	if (reg >= FGT_REGS_MAX || !(regs->valid & (1ull << reg)))
		return false;
	*ret_value = regs->value[reg];
	return true;
}

static inline void fgt_regs_set(struct fgt_regs *regs, unsigned int reg,
				uint64_t value)
{
	regs->value[reg] = value;
	regs->valid |= 1ull << reg;
}

#endif
