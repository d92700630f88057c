/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a thread that ran, and on which no sample fell at this tick,
 * where the kernel does not report switches. A folder with the files of a
 * thread takes the place of procfs.
 */
#include "agent/capture/look/look_parts.h"
#include "ringbuf/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERIOD	   10000000u
#define GENERATION 2
#define TID	   7
#define CALL	   230u /* the state of its last block */

struct fixture {
	char folder[32];
	struct fgt_look look;
	struct fgt_look_thread thread_look;
	struct fgt_active_thread active;
	struct fgt_thread *thread;
};

static void write_file(const struct fixture *fixture, const char *name,
		       const char *text)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%d/%s", TID, name);
	file = fdopen(openat(fixture->look.process.task_fd, path,
			     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
		      "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Its kernel stack is empty: it is on a CPU by now. */
static void set_blocks(const struct fixture *fixture, unsigned int count)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "Name:\tx\nvoluntary_ctxt_switches:\t%u\n"
		 "nonvoluntary_ctxt_switches:\t9\n",
		 count);
	write_file(fixture, "status", text);
}

static int set_up(void **state)
{
	const struct fgt_frame frame = { .address = 0x1000 };
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	char path[64];

	assert_non_null(fixture);
	strcpy(fixture->folder, "/tmp/fgt-look-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	snprintf(path, sizeof(path), "%s/%d", fixture->folder, TID);
	assert_int_equal(mkdir(path, 0700), 0);
	fixture->look.process.task_fd =
		open(fixture->folder, O_DIRECTORY | O_CLOEXEC);
	fixture->look.stacks.generation = GENERATION;
	fixture->look.tick = 10;
	assert_int_equal(fgt_thread_store_init(&fixture->look.threads.table),
			 0);
	fixture->thread =
		fgt_thread_store_add(&fixture->look.threads.table, TID);
	assert_non_null(fixture->thread);
	fixture->thread->active = &fixture->active;
	fixture->thread_look.block_state = CALL;
	fixture->active.look = &fixture->thread_look;
	fgt_kept_stack_set(&fixture->thread_look.last_block, &frame, 1,
			   GENERATION);
	write_file(fixture, "stack", "");
	set_blocks(fixture, 5);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = { "/stack", "/status", "" };
	struct fixture *fixture = *state;
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%d%s", fixture->folder, TID,
			 names[i]);
		remove(path);
	}
	rmdir(fixture->folder);
	close(fixture->look.process.task_fd);
	fgt_kept_stack_done(&fixture->thread_look.last_block);
	fgt_thread_store_done(&fixture->look.threads.table);
	free(fixture);
	return 0;
}

/* The next tick finds it with a CPU, as it was shown at the last one. */
static struct fgt_verdict look_at(struct fixture *fixture, bool has_switched)
{
	const struct fgt_tick tick = { .period_ns = PERIOD,
				       .has_cpu_events = true };

	fixture->look.tick++;
	fixture->thread->is_shown_running = true;
	fixture->thread->has_run = true;
	fixture->thread->has_switched = has_switched;
	return fgt_look_runnable(&fixture->look, &tick, fixture->thread);
}

static uint32_t look(struct fixture *fixture, bool has_switched)
{
	return look_at(fixture, has_switched).state;
}

/* Its block was shown until a sample fell on it: 465 ms once. */
static void thread_that_kept_its_cpu_is_not_shown_blocked(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned int i = 0; i < 40; i++) {
		set_blocks(fixture, 5 + i);
		assert_int_equal(look(fixture, false), FGT_STATE_RUNNABLE);
	}
	assert_int_equal(fixture->thread_look.pending_ticks, 40);
}

static void thread_that_was_only_put_off_is_not_shown_blocked(void **state)
{
	struct fixture *fixture = *state;

	/* Not known yet how often it had blocked. */
	assert_int_equal(look(fixture, true), CALL);
	for (unsigned int i = 0; i < 40; i++)
		assert_int_equal(look(fixture, true), FGT_STATE_RUNNABLE);
}

static void thread_that_blocked_since_the_last_tick_is_shown_so(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned int i = 0; i < 40; i++) {
		set_blocks(fixture, 5 + i);
		assert_int_equal(look(fixture, true), CALL);
	}
}

/* It may have blocked long ago. */
static void changed_count_of_an_earlier_tick_proves_nothing(void **state)
{
	struct fixture *fixture = *state;

	look(fixture, true);
	assert_int_equal(look(fixture, true), FGT_STATE_RUNNABLE);
	fixture->look.tick++;
	set_blocks(fixture, 6);
	assert_int_equal(look(fixture, true), CALL);
}

/* It was shown running in between, and has not blocked since the count. */
static void same_count_of_an_earlier_tick_proves_that_it_ran(void **state)
{
	struct fixture *fixture = *state;

	look(fixture, true);
	fixture->look.tick += 5;
	assert_int_equal(look(fixture, true), FGT_STATE_RUNNABLE);
}

/* Shown blocked, and put off a CPU; the samples fell 1 ms ago. */
static bool is_shown_waiting(struct fixture *fixture, uint64_t gains,
			     uint64_t run_ns)
{
	const struct fgt_tick tick = {
		.period_ns = PERIOD,
		.has_cpu_events = true,
		.fired_ns = fgt_clock_ns(CLOCK_MONOTONIC) - 1000000,
	};

	fixture->thread_look.block_use.switches = 20;
	fixture->active.use.switches = 20 + gains;
	fixture->active.use.runtime_ns = run_ns;
	return fgt_look_runnable(&fixture->look, &tick, fixture->thread)
		       .state == FGT_STATE_RUNNABLE;
}

static void thread_that_lost_its_cpu_is_not_shown_blocked(void **state)
{
	struct fixture *fixture = *state;

	write_file(fixture, "stack", "[<0>] irqentry_exit_to_user_mode\n");
	fixture->thread->has_run = fixture->thread->has_switched = true;
	assert_false(is_shown_waiting(fixture, 2, 5000000));
	fixture->thread_look.block_use_count = 5;
	assert_true(is_shown_waiting(fixture, 2, 5000000));
	set_blocks(fixture, 6); /* in between */
	assert_false(is_shown_waiting(fixture, 2, 5000000));
	assert_true(is_shown_waiting(fixture, 1, 5000000));
	/* It began to run after the samples fell. */
	assert_false(is_shown_waiting(fixture, 1, 500000));
}

/* Blocked at the tick before, elsewhere since, and woken. */
static void
thread_that_was_woken_elsewhere_is_runnable_if_it_waited(void **state)
{
	const struct fgt_tick tick = { .period_ns = PERIOD,
				       .has_cpu_events = true };
	struct fixture *fixture = *state;
	struct fgt_verdict verdict;

	write_file(fixture, "stack", "[<0>] futex_wait\n[<0>] do_syscall_64\n");
	fixture->thread->has_run = fixture->thread->has_switched = true;
	verdict = fgt_look_runnable(&fixture->look, &tick, fixture->thread);
	assert_int_equal(verdict.kind, FGT_VERDICT_AS_BEFORE);
	fixture->active.use.wait_ns = PERIOD;
	verdict = fgt_look_runnable(&fixture->look, &tick, fixture->thread);
	assert_int_equal(verdict.kind, FGT_VERDICT_MARKED);
	assert_int_equal(verdict.state, FGT_STATE_RUNNABLE);
	assert_int_equal(verdict.leaf, FGT_MARKER_NOT_SAMPLED);
	/* That wait is shown. */
	verdict = fgt_look_runnable(&fixture->look, &tick, fixture->thread);
	assert_int_equal(verdict.kind, FGT_VERDICT_AS_BEFORE);
}

/* Samples are missing, or it wants a CPU: the scheduler counted a wait. */
static void thread_that_waited_for_its_cpu_is_not_shown_blocked(void **state)
{
	struct fixture *fixture = *state;

	fixture->active.use.wait_ns = PERIOD / 2;
	assert_int_equal(look(fixture, true), FGT_STATE_RUNNABLE);
}

/* It ran between samples, and waits elsewhere than where one found it. */
static void wait_far_from_a_sample_is_marked(void **state)
{
	const struct fgt_tick tick = { .period_ns = PERIOD,
				       .has_cpu_events = true };
	const struct fgt_frame frame = { .address = 0x2000 };
	struct fixture *fixture = *state;
	struct fgt_verdict verdict =
		fgt_verdict_stack(&frame, 1, FGT_STATE_RUNNING);

	fixture->active.use.wait_ns = 4 * PERIOD;
	fixture->active.use.runtime_ns = PERIOD / 4;
	assert_int_equal(look_at(fixture, true).leaf, 0);
	fgt_look_take_waits(&fixture->look, &tick, fixture->thread, &verdict);
	assert_int_equal(verdict.past_ticks, 1);
	fixture->active.use.wait_ns += PERIOD;
	fixture->active.use.runtime_ns += PERIOD / 4 + 1;
	assert_int_equal(look_at(fixture, true).leaf, FGT_MARKER_NOT_SAMPLED);
	verdict.past_ticks = 0;
	fgt_look_take_waits(&fixture->look, &tick, fixture->thread, &verdict);
	assert_int_equal(verdict.past_ticks, 0);
	assert_int_equal(fixture->thread_look.pending_ticks, 0);
}

/* It was blocked, with this stack. */
static void read_block(struct fixture *fixture, uint64_t address)
{
	const struct fgt_frame frame = { .address = address };

	fgt_look_note_block(&fixture->look, fixture->thread, &frame, 1, CALL);
}

/* It has run since, and what it is blocked in now was not read. */
static struct fgt_verdict go_on(struct fixture *fixture)
{
	fixture->thread->is_shown_running = false;
	fixture->thread->has_switched = true;
	return fgt_look_go_on(&fixture->look, fixture->thread);
}

static void blocks_of_one_stack_go_on_without_a_marker(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_verdict verdict;

	read_block(fixture, 0x1000);
	read_block(fixture, 0x1000);
	assert_int_equal(go_on(fixture).kind, FGT_VERDICT_AS_BEFORE);
	assert_true(
		fgt_look_last_block(&fixture->look, fixture->thread, &verdict));
	assert_int_equal(verdict.frame_count, 1);
}

static void blocks_of_two_stacks_are_marked_until_they_are_read(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_verdict verdict;

	read_block(fixture, 0x2000);
	read_block(fixture, 0x2000);
	/* Of a look whose stack was torn, or that found a page fault later. */
	fixture->thread->call_state = CALL + 1;
	verdict = go_on(fixture);
	assert_int_equal(verdict.kind, FGT_VERDICT_STACK);
	assert_int_equal(verdict.state, CALL);
	assert_int_equal(verdict.frame_count, 2);
	assert_int_equal(verdict.frames[0].address, FGT_MARKER_NOT_SAMPLED);
	assert_true(
		fgt_look_last_block(&fixture->look, fixture->thread, &verdict));
	assert_int_equal(verdict.frame_count, 2);
	/* It has not run since its block was read. */
	fixture->thread->has_switched = false;
	verdict = fgt_look_go_on(&fixture->look, fixture->thread);
	assert_int_equal(verdict.kind, FGT_VERDICT_AS_BEFORE);
	/* So long ago that it is forgotten. */
	fixture->look.tick += 2000;
	assert_int_equal(go_on(fixture).kind, FGT_VERDICT_AS_BEFORE);
}

/* ---- Ticks at which it was not looked at (look_waited.c) ---------------- */

/* A look finds it asleep, or running again, with so long a wait in all. */
static uint32_t end_wait(struct fixture *fixture, bool has_cpu_events,
			 bool was_running, uint64_t wait_ns)
{
	const struct fgt_tick tick = { .period_ns = PERIOD,
				       .has_cpu_events = has_cpu_events };
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_STACK,
				       .state = CALL };

	fixture->thread->needs_look = false;
	fixture->thread->has_run = true;
	fixture->active.use.wait_ns = wait_ns;
	fgt_account_add(&fixture->thread_look.account, &fixture->active.use);
	fgt_look_waited(&fixture->look, &tick, fixture->thread, was_running,
			&verdict);
	if (verdict.past_ticks) {
		assert_null(verdict.past_frames);
		assert_int_equal(verdict.past_state, FGT_STATE_RUNNABLE);
	}
	return verdict.past_ticks;
}

/* It was woken and did not run: no tick looked at it. */
static void wait_after_a_wakeup_is_shown_when_it_has_ended(void **state)
{
	struct fixture *fixture = *state;

	for (int i = 0; i < 2; i++) {
		bool has_cpu_events = i;

		fixture->thread_look = (struct fgt_look_thread){
			.still_tick = fixture->look.tick,
			.last_block = fixture->thread_look.last_block,
		};
		fixture->look.tick += 5;
		assert_int_equal(
			end_wait(fixture, has_cpu_events, false, 2 * PERIOD),
			2);
		/* It was asleep at the tick before. */
		fixture->look.tick++;
		assert_int_equal(
			end_wait(fixture, has_cpu_events, false, 6 * PERIOD),
			0);
		/* It slept through that one. */
		fixture->look.tick += 2;
		assert_int_equal(
			end_wait(fixture, has_cpu_events, false, 6 * PERIOD),
			0);
		/* Waits that begin while it runs are shown otherwise. */
		fixture->look.tick += 4;
		assert_int_equal(
			end_wait(fixture, has_cpu_events, true, 8 * PERIOD), 0);
	}
}

static void wait_is_shown_in_no_more_ticks_than_fall_into_it(void **state)
{
	(void)state;
	assert_int_equal(fgt_waited_ticks(PERIOD / 20, PERIOD, 9), 0);
	assert_int_equal(fgt_waited_ticks(PERIOD / 2, PERIOD, 9), 1);
	assert_int_equal(fgt_waited_ticks(3 * PERIOD, PERIOD, 9), 4);
	assert_int_equal(fgt_waited_ticks(3 * PERIOD, PERIOD, 2), 2);
	assert_int_equal(fgt_waited_ticks(1000ull * PERIOD, PERIOD, UINT64_MAX),
			 UINT8_MAX);
}

/* ---- Handlers that began after the tick (look_signal.c) ----------------- */

#define ALTSTACK_BYTES 4096u
#define PLACE	       512u /* of what the kernel saved */

/* handler, trampoline, interrupted, its caller: how many are left? */
static size_t take_handler(struct fixture *fixture, uint64_t off_ns,
			   const uint8_t *altstack)
{
	struct fgt_frame frames[] = {
		{ .address = 1 },
		{ .address = 2, .flags = FGT_FRAME_CALLER },
		{ .address = 3 },
		{ .address = 4, .flags = FGT_FRAME_CALLER },
	};
	uint64_t start = (uintptr_t)altstack;
	struct fgt_unwound_frame unwound[] = {
		{ .sp_low = (uint32_t)start },
		{ .sp_low = (uint32_t)(start + PLACE) },
		{ 0 },
		{ 0 },
	};
	struct fgt_running_sample sample = { .stack = altstack,
					     .stack_len = ALTSTACK_BYTES,
					     .off_ns = off_ns };
	size_t count;

	fixture->look.stacks.unwound = unwound;
	fixture->look.stacks.capacity = 4;
	fgt_regs_set(&sample.regs, fgt_arch_host.sp, start);
	count = fgt_look_before_signal(&fixture->look, fixture->thread, &sample,
				       frames, 4);
	if (count < 4)
		assert_int_equal(frames[0].address, 3);
	return count;
}

static void tick_before_a_handler_shows_what_that_interrupted(void **state)
{
	static uint8_t altstack[ALTSTACK_BYTES];
	const uint64_t waited_ns = PERIOD;
	struct fixture *fixture = *state;

	fixture->thread->tid = gettid();
	/* Where it is saved is not known yet. */
	assert_int_equal(take_handler(fixture, waited_ns, altstack), 4);
	fgt_look_note_signals(&fixture->look, fixture->thread);
	/* It had begun before the tick. */
	assert_int_equal(take_handler(fixture, waited_ns, altstack), 4);
	altstack[PLACE + 100] = 1;
	/* While it ran: as many end as begin. */
	assert_int_equal(take_handler(fixture, 0, altstack), 4);
	assert_int_equal(take_handler(fixture, waited_ns, altstack), 2);
	fgt_look_note_signals(&fixture->look, fixture->thread);
	assert_int_equal(take_handler(fixture, waited_ns, altstack), 4);
	fixture->thread->tid = TID;
}

/* A function and what it calls are interrupted at as many depths. */
static void handlers_at_several_depths_are_all_known(void **state)
{
	static uint8_t altstack[2 * ALTSTACK_BYTES];
	const unsigned int depths = 12, step = 16;
	struct fixture *fixture = *state;

	fixture->thread->tid = gettid();
	for (unsigned int i = 0; i < depths; i++)
		take_handler(fixture, PERIOD, altstack + i * step);
	fgt_look_note_signals(&fixture->look, fixture->thread);
	memset(altstack, 1, sizeof(altstack));
	for (unsigned int i = 0; i < depths; i++)
		assert_int_equal(
			take_handler(fixture, PERIOD, altstack + i * step), 2);
	/* Long after the last one, none is read. */
	for (unsigned int i = 0; i <= UINT8_MAX; i++)
		fgt_look_note_signals(&fixture->look, fixture->thread);
	memset(altstack, 2, sizeof(altstack));
	assert_int_equal(take_handler(fixture, PERIOD, altstack), 4);
	fixture->thread->tid = TID;
}

int main(void)
{
#define LOOK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		LOOK(thread_that_kept_its_cpu_is_not_shown_blocked),
		LOOK(thread_that_was_only_put_off_is_not_shown_blocked),
		LOOK(thread_that_blocked_since_the_last_tick_is_shown_so),
		LOOK(changed_count_of_an_earlier_tick_proves_nothing),
		LOOK(same_count_of_an_earlier_tick_proves_that_it_ran),
		LOOK(thread_that_lost_its_cpu_is_not_shown_blocked),
		LOOK(thread_that_was_woken_elsewhere_is_runnable_if_it_waited),
		LOOK(wait_far_from_a_sample_is_marked),
		LOOK(thread_that_waited_for_its_cpu_is_not_shown_blocked),
		LOOK(blocks_of_one_stack_go_on_without_a_marker),
		LOOK(blocks_of_two_stacks_are_marked_until_they_are_read),
		LOOK(wait_after_a_wakeup_is_shown_when_it_has_ended),
		LOOK(wait_is_shown_in_no_more_ticks_than_fall_into_it),
		LOOK(tick_before_a_handler_shows_what_that_interrupted),
		LOOK(handlers_at_several_depths_are_all_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
