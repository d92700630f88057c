/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps programs through their code one instruction at a time and unwinds
 * after each. The oracle is a shadow stack that this test keeps from the call
 * and ret instructions that were executed: the unwound return addresses must
 * be exactly those on it.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/programs/unwind/unwind_capture.h"
#include "tests/unit/unwind/unwind_child.h"

#define MAX_DEPTH 256
#define STEPS	  12000

static struct captured captured;
static struct fgt_unwound_frame frames[MAX_DEPTH + 2];

/* Return addresses that calls pushed, and where they lie. */
struct shadow {
	uint64_t return_pc[MAX_DEPTH];
	uint64_t slot[MAX_DEPTH];
	size_t count; /* the root is first */
};

static void take_regs(const struct child *child)
{
	struct user_regs_struct regs;
	struct iovec vector = { &regs, sizeof(regs) };

	assert_int_equal(
		ptrace(PTRACE_GETREGSET, child->pid, NT_PRSTATUS, &vector), 0);
	memset(&captured.snapshot, 0, sizeof(captured.snapshot));
	fgt_arch_host.regs_from_ptrace(&regs, &captured.snapshot.regs);
	assert_int_equal(
		capture_stack(child->pid, FGT_SNAPSHOT_FIRST_BYTES, &captured),
		0);
}

static void step(const struct child *child)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, child->pid, 0, 0), 0);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(WSTOPSIG(status), SIGTRAP);
	take_regs(child);
}

/* Stops the child in its read and gives it what it reads. */
static void seize(const struct child *child)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, child->pid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child->pid, 0, 0), 0);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status >> 16, PTRACE_EVENT_STOP);
	fputc('x', child->input);
	fflush(child->input);
	take_regs(child);
}

static void unwind(const struct child *child,
		   struct fgt_unwind_result *ret_result)
{
	capture_unwind(child->pid, child->unwinder, child->maps, &captured,
		       frames, MAX_DEPTH + 2, ret_result);
}

static uint64_t word_at(uint64_t address)
{
	const struct fgt_snapshot *snapshot = &captured.snapshot;
	uint64_t word;

	assert_true(address - snapshot->stack_start <=
		    snapshot->stack_len - sizeof(word));
	memcpy(&word, snapshot->stack + (address - snapshot->stack_start),
	       sizeof(word));
	return word;
}

/* The frames known at the start are trusted; their slots are found. */
static void begin(struct shadow *shadow, const struct fgt_unwind_result *result)
{
	uint64_t slot = captured.snapshot.stack_start;

	assert_true(result->is_complete);
	shadow->count = result->count - 1;
	for (size_t i = 1; i < result->count; i++) {
		while (word_at(slot) != frames[i].pc)
			slot += 8;
		shadow->return_pc[shadow->count - i] = frames[i].pc;
		shadow->slot[shadow->count - i] = slot;
		slot += 8;
	}
}

/* What the last instruction did to the stack of calls. */
static void follow(struct shadow *shadow, const struct fgt_regs *before)
{
	const struct fgt_regs *after = &captured.snapshot.regs;
	uint64_t sp = after->value[fgt_arch_host.sp];
	uint64_t old_pc = before->value[fgt_arch_host.pc], pushed;

	while (shadow->count && shadow->slot[shadow->count - 1] < sp)
		shadow->count--;
	if (sp + 8 != before->value[fgt_arch_host.sp])
		return;
	pushed = word_at(sp);
	/* A call pushes the address behind itself and goes elsewhere. */
	if (pushed <= old_pc || pushed - old_pc > 15 ||
	    after->value[fgt_arch_host.pc] == pushed ||
	    (after->value[fgt_arch_host.pc] > old_pc &&
	     after->value[fgt_arch_host.pc] < pushed))
		return;
	assert_true(shadow->count < MAX_DEPTH);
	shadow->return_pc[shadow->count] = pushed;
	shadow->slot[shadow->count++] = sp;
}

static bool is_equal(const struct shadow *shadow,
		     const struct fgt_unwind_result *result)
{
	if (!result->is_complete || result->count != shadow->count + 1 ||
	    frames[0].pc != captured.snapshot.regs.value[fgt_arch_host.pc])
		return false;
	for (size_t i = 1; i < result->count; i++)
		if (frames[i].pc != shadow->return_pc[shadow->count - i] ||
		    frames[i].flags != FGT_FRAME_CALLER)
			return false;
	return true;
}

/* The same stop, with what procfs has: SP and PC. */
static void unwind_blind(const struct child *child,
			 struct fgt_unwind_result *ret_result)
{
	struct fgt_regs all = captured.snapshot.regs;

	captured.snapshot.regs.valid = 1ull << fgt_arch_host.pc |
				       1ull << fgt_arch_host.sp;
	unwind(child, ret_result);
	captured.snapshot.regs = all;
}

static void print_difference(const struct child *child,
			     const struct shadow *shadow,
			     const struct fgt_unwind_result *result)
{
	child_print_stack(child, frames, result);
	for (size_t i = shadow->count; i > 0; i--)
		print_message("  shadow %lx\n",
			      (unsigned long)shadow->return_pc[i - 1]);
}

/* cut_max: how many stacks may be cut short where the rules are wrong. */
static void check_program(const char *program, size_t cut_max)
{
	struct fgt_unwind_result result;
	struct shadow shadow;
	struct child child;
	size_t wrong = 0, cut = 0, deepest = 0;
	size_t blind_right = 0, blind_wrong = 0;

	child_start(&child, program, NULL, MAX_DEPTH);
	seize(&child);
	/* Libraries may have been mapped since; nothing else is loaded. */
	unwind(&child, &result);
	begin(&shadow, &result);
	for (int i = 0; i < STEPS; i++) {
		struct fgt_regs before = captured.snapshot.regs;

		step(&child);
		follow(&shadow, &before);
		unwind(&child, &result);
		if (result.count > deepest)
			deepest = result.count;
		if (!is_equal(&shadow, &result)) {
			cut += !result.is_complete;
			wrong += result.is_complete;
			if (wrong || cut > cut_max)
				print_difference(&child, &shadow, &result);
		}
		assert_true(wrong + cut <= cut_max + 3);
		unwind_blind(&child, &result);
		blind_right += is_equal(&shadow, &result);
		if (result.is_complete && !is_equal(&shadow, &result) &&
		    blind_wrong++ < 3)
			print_difference(&child, &shadow, &result);
	}
	print_message(
		"%s: %d instructions, %zu wrong, %zu cut, deepest %zu; with SP and PC alone %zu right, %zu wrong\n",
		program, STEPS, wrong, cut, deepest, blind_right, blind_wrong);
	child_stop(&child);
	assert_int_equal(wrong, 0);
	assert_true(cut <= cut_max);
	assert_int_equal(blind_wrong, 0);
}

static void every_instruction_with_frame_pointers(void **state)
{
	(void)state;
	check_program("unwind_steps_fp", 0);
}

static void every_instruction_without_frame_pointers(void **state)
{
	(void)state;
	check_program("unwind_steps_nofp", 0);
}

static void every_instruction_of_unoptimised_code(void **state)
{
	(void)state;
	check_program("unwind_steps_o0", 0);
}

#if defined(__x86_64__) && !defined(__clang__)
/*
 * In the last two instructions of such a function the frame pointer is saved,
 * by gcc's rules, where it does not point any more.
 */
static void every_instruction_between_aligned_stacks(void **state)
{
	(void)state;
	check_program("unwind_steps_aligned", STEPS / 500);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_instruction_with_frame_pointers),
		cmocka_unit_test(every_instruction_without_frame_pointers),
		cmocka_unit_test(every_instruction_of_unoptimised_code),
#if defined(__x86_64__) && !defined(__clang__)
		cmocka_unit_test(every_instruction_between_aligned_stacks),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
