/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of x86-64: System V DWARF numbers, perf and ptrace register order,
 * call instructions. Pure functions and constants; compiles on any machine.
 */
#include "agent/unwind/arch/arch.h"

#include <elf.h>
#include <string.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#include <sys/user.h>
#endif

/* System V ABI x86-64, figure "DWARF Register Number Mapping". */
enum {
	DWARF_RAX,
	DWARF_RDX,
	DWARF_RCX,
	DWARF_RBX,
	DWARF_RSI,
	DWARF_RDI,
	DWARF_RBP,
	DWARF_RSP,
	DWARF_R8,
	DWARF_R9,
	DWARF_R10,
	DWARF_R11,
	DWARF_R12,
	DWARF_R13,
	DWARF_R14,
	DWARF_R15,
	DWARF_RA,
	DWARF_COUNT
};

/* Index: bit of PERF_SAMPLE_REGS_USER, linux arch/x86 uapi asm/perf_regs.h. */
static const int8_t perf_to_dwarf[64] = {
	DWARF_RAX, DWARF_RBX, DWARF_RCX, DWARF_RDX, /* AX BX CX DX */
	DWARF_RSI, DWARF_RDI, DWARF_RBP, DWARF_RSP, /* SI DI BP SP */
	DWARF_RA,  -1,	      -1,	 -1, /* IP FLAGS CS SS */
	-1,	   -1,	      -1,	 -1, /* DS ES FS GS */
	DWARF_R8,  DWARF_R9,  DWARF_R10, DWARF_R11, DWARF_R12, DWARF_R13,
	DWARF_R14, DWARF_R15, -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
	-1,	   -1,	      -1,	 -1,	    -1,	       -1,
};

static const uint8_t call_args[] = { DWARF_RDI, DWARF_RSI, DWARF_RDX,
				     DWARF_R10, DWARF_R8,  DWARF_R9 };

/* AX … IP and R8 … R15; segment registers are refused by some kernels. */
#define PERF_REGS_MASK 0xff01ffull

#if defined(__x86_64__)
_Static_assert(PERF_REG_X86_IP == 8 && PERF_REG_X86_SP == 7 &&
		       PERF_REG_X86_BP == 6 && PERF_REG_X86_R8 == 16 &&
		       PERF_REG_X86_R15 == 23,
	       "perf's register order is ABI");
_Static_assert(offsetof(struct user_regs_struct, rip) == 16 * 8 &&
		       offsetof(struct user_regs_struct, rsp) == 19 * 8,
	       "the order of NT_PRSTATUS is ABI");
#endif

/* Index: word of NT_PRSTATUS, r15 r14 r13 r12 rbp rbx r11 … orig_rax … */
static const int8_t ptrace_to_dwarf[] = {
	DWARF_R15, DWARF_R14, DWARF_R13, DWARF_R12, DWARF_RBP,
	DWARF_RBX, DWARF_R11, DWARF_R10, DWARF_R9,  DWARF_R8,
	DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RSI, DWARF_RDI,
	-1,	   DWARF_RA,  -1,	 -1,	    DWARF_RSP,
};

static void regs_from_ptrace(const void *user_regs, struct fgt_regs *regs)
{
	const size_t count = sizeof(ptrace_to_dwarf);
	uint64_t words[sizeof(ptrace_to_dwarf)];

	memcpy(words, user_regs, count * sizeof(words[0]));
	memset(regs, 0, sizeof(*regs));
	for (size_t i = 0; i < count; i++)
		if (ptrace_to_dwarf[i] >= 0)
			fgt_regs_set(regs, (unsigned int)ptrace_to_dwarf[i],
				     words[i]);
}

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
static const uint8_t set_fp[] = { 0x48, 0x89, 0xe5 }; /* mov %rsp, %rbp */

/* Bytes of ff /2 with this ModRM and SIB (Intel SDM 2A, tables 2-2, 2-3). */
static size_t indirect_call_len(uint8_t modrm, uint8_t sib)
{
	unsigned int mod = modrm >> 6, rm = modrm & 7;
	size_t len = 2;

	if (mod != 3 && rm == 4) {
		len++;
		if (mod == 0 && (sib & 7) == 5)
			len += 4;
	} else if (mod == 0 && rm == 5) {
		len += 4; /* RIP relative */
	}
	if (mod == 1)
		len += 1;
	if (mod == 2)
		len += 4;
	return len;
}

static bool is_indirect_call(const uint8_t *end, size_t len)
{
	const uint8_t *code = end - len;

	return code[0] == 0xff && ((code[1] >> 3) & 7) == 2 &&
	       indirect_call_len(code[1], len > 2 ? code[2] : 0) == len;
}

/*
 * Prefixes (REX, 67, 66, notrack 3e) stand before the opcode: looking at the
 * last bytes sees through all of them.
 */
static int call_before(const uint8_t *code, size_t len, uint64_t return_pc,
		       uint64_t *ret_target)
{
	const uint8_t *end = code + len;
	int32_t distance;

	/* An e8 inside the SIB byte of the longest form is not an opcode. */
	if (len >= 5 && end[-5] == 0xe8 &&
	    !(len >= 7 && is_indirect_call(end, 7))) {
		memcpy(&distance, end - 4, sizeof(distance));
		*ret_target = return_pc + (uint64_t)(int64_t)distance;
		return 1;
	}
	for (size_t n = 2; n <= 7 && n <= len; n++)
		if (is_indirect_call(end, n)) {
			*ret_target = 0;
			return 1;
		}
	return 0;
}

static uint64_t locals_bytes(const uint8_t *code, size_t len)
{
	uint32_t bytes;
	size_t at = 0;

	while (at + sizeof(set_fp) <= len &&
	       memcmp(code + at, set_fp, sizeof(set_fp)) != 0)
		at++;
	/* sub $imm8, %rsp and sub $imm32, %rsp */
	for (; at + 7 <= len; at++) {
		if (code[at] != 0x48 || code[at + 2] != 0xec)
			continue;
		if (code[at + 1] == 0x83)
			return code[at + 3] & 0x7f;
		if (code[at + 1] != 0x81)
			continue;
		memcpy(&bytes, code + at + 3, sizeof(bytes));
		return bytes;
	}
	return 0;
}

/*
 * mov %rsp, %rbp, and before it, perhaps with other instructions between,
 * push %rbp or endbr64 where compilers start functions: at 16 bytes.
 */
static bool find_entry(const uint8_t *code, size_t len, uint64_t address,
		       uint64_t *ret_start)
{
	size_t at, first;

	for (at = len; at >= sizeof(set_fp); at--)
		if (!memcmp(code + at - sizeof(set_fp), set_fp, sizeof(set_fp)))
			break;
	if (at < sizeof(set_fp) + sizeof(endbr64))
		return false;
	at -= sizeof(set_fp) + 1;
	first = at - ((address + at) & 15);
	if (first > at || (code[first] != 0x55 &&
			   memcmp(code + first, endbr64, sizeof(endbr64)) != 0))
		return false;
	*ret_start = address + first;
	return true;
}

/*
 * runtime.mcall and, since Go 1.21, runtime.morestack: mov disp8(%reg), %rsp,
 * then mov $0, %rbp (since 1.21) or push %rax. runtime.systemstack does neither:
 * its caller is on the stack that it left. runtime.clone ends the thread behind
 * the call: mov $111, %edi; mov $SYS_exit, %eax; syscall.
 */
static bool starts_stack(const uint8_t *before, size_t before_len,
			 const uint8_t *after, size_t after_len)
{
	static const uint8_t clear_fp[] = { 0x48, 0xc7, 0xc5, 0, 0, 0, 0 };
	static const uint8_t exit_thread[] = { 0xbf, 0x6f, 0, 0, 0,    0xb8,
					       0x3c, 0,	   0, 0, 0x0f, 0x05 };
	const size_t load_len = 4;

	if (after_len >= sizeof(exit_thread) &&
	    !memcmp(after, exit_thread, sizeof(exit_thread)))
		return true;
	for (size_t at = 0; at + load_len < before_len; at++) {
		const uint8_t *next = before + at + load_len;

		if ((before[at] & 0xfe) != 0x48 || before[at + 1] != 0x8b ||
		    (before[at + 2] & 0xf8) != 0x60)
			continue;
		if (*next == 0x50 ||
		    (before_len - at - load_len >= sizeof(clear_fp) &&
		     !memcmp(next, clear_fp, sizeof(clear_fp))))
			return true;
	}
	return false;
}

/* jmp rel32 and jcc rel32 at any byte: four matching bytes are no accident. */
static bool has_jump_to(const uint8_t *code, size_t len, uint64_t address,
			uint64_t start, uint64_t end)
{
	for (size_t at = 0; at + 5 <= len; at++) {
		size_t opcode_len = 1;
		uint64_t target;
		int32_t distance;

		if (code[at] == 0x0f && (code[at + 1] & 0xf0) == 0x80)
			opcode_len = 2;
		else if (code[at] != 0xe9)
			continue;
		if (at + opcode_len + sizeof(distance) > len)
			continue;
		memcpy(&distance, code + at + opcode_len, sizeof(distance));
		target = address + at + opcode_len + sizeof(distance) +
			 (uint64_t)(int64_t)distance;
		if (target >= start && target < end)
			return true;
	}
	return false;
}

/* (endbr64;) (bnd) jmp *disp32(%rip) */
static bool is_indirect_jump(const uint8_t *code, size_t len)
{
	size_t at = 0;

	if (len >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)))
		at = sizeof(endbr64);
	if (at < len && code[at] == 0xf2)
		at++;
	return at + 2 <= len && code[at] == 0xff && code[at + 1] == 0x25;
}

/*
 * breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus: an entry pushes
 * its number at byte 6, so that from byte 11 on there is one word more. Where
 * that is depends on the kind of entry.
 */
static bool plt_cfa(const uint8_t *expression, size_t len, uint64_t address,
		    int64_t *ret_offset)
{
	static const uint8_t before[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a };
	static const uint8_t after[] = { 0x2a, 0x33, 0x24, 0x22 };
	const size_t at = sizeof(before);

	if (len != at + 1 + sizeof(after) ||
	    memcmp(expression, before, sizeof(before)) != 0 ||
	    memcmp(expression + at + 1, after, sizeof(after)) != 0 ||
	    expression[at] < 0x30 || expression[at] > 0x3f)
		return false;
	*ret_offset = (address & 15) >= expression[at] - 0x30u ? 16 : 8;
	return true;
}

/* mov $15, %rax (or %eax); syscall */
static bool is_sigreturn(const uint8_t *code, size_t len)
{
	static const uint8_t wide[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00,
					0x00, 0x00, 0x0f, 0x05 };
	static const uint8_t narrow[] = { 0xb8, 0x0f, 0x00, 0x00,
					  0x00, 0x0f, 0x05 };

	return (len >= sizeof(wide) && !memcmp(code, wide, sizeof(wide))) ||
	       (len >= sizeof(narrow) && !memcmp(code, narrow, sizeof(narrow)));
}

/*
 * SP is at the ucontext once the handler's ret took the trampoline's address:
 * uc_mcontext follows 40 bytes of flags, link and stack_t (asm/ucontext.h);
 * its order: r8 … r15 di si bp bx dx ax cx sp ip.
 */
static int sigreturn_offset(unsigned int reg)
{
	static const int8_t words[DWARF_COUNT] = {
		[DWARF_R8] = 0,	  [DWARF_R9] = 1,   [DWARF_R10] = 2,
		[DWARF_R11] = 3,  [DWARF_R12] = 4,  [DWARF_R13] = 5,
		[DWARF_R14] = 6,  [DWARF_R15] = 7,  [DWARF_RDI] = 8,
		[DWARF_RSI] = 9,  [DWARF_RBP] = 10, [DWARF_RBX] = 11,
		[DWARF_RDX] = 12, [DWARF_RAX] = 13, [DWARF_RCX] = 14,
		[DWARF_RSP] = 15, [DWARF_RA] = 16,
	};

	return reg < DWARF_COUNT ? 40 + 8 * words[reg] : -1;
}

const struct fgt_arch fgt_arch_x86_64 = {
	.name = "x86_64",
	.elf_machine = EM_X86_64,
	.reg_count = DWARF_COUNT,
	.pc = DWARF_RA,
	.sp = DWARF_RSP,
	.fp = DWARF_RBP,
	.perf_regs_mask = PERF_REGS_MASK,
	.perf_to_dwarf = perf_to_dwarf,
	.call_args = call_args,
	.return_offset = -8,
	.regs_from_ptrace = regs_from_ptrace,
	.call_before = call_before,
	.locals_bytes = locals_bytes,
	.find_entry = find_entry,
	.has_jump_to = has_jump_to,
	.starts_stack = starts_stack,
	.is_indirect_jump = is_indirect_jump,
	.plt_cfa = plt_cfa,
	.is_sigreturn = is_sigreturn,
	.sigreturn_offset = sigreturn_offset,
};
