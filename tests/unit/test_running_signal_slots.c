/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots that handlers fill and the sampler empties: whose they are, and
 * that nobody reads what is half written.
 */
#include "agent/capture/running_signal_slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/capture/running_signal.h"

#define TAKES 200000u

static void only_slots_are_taken_for_ours(void **state)
{
	FGT_AUTO(fgt_running_signal_close)
	struct fgt_running_signal *signal = NULL;
	siginfo_t info = { .si_code = SI_TIMER };
	char *slots;

	(void)state;
	assert_int_equal(fgt_running_signal_open(&signal, NULL), 0);
	slots = (char *)fgt_signal_table.slots;
	info.si_value.sival_ptr = slots + FGT_SIGNAL_SLOT_BYTES;
	assert_ptr_equal(fgt_signal_find(&info), info.si_value.sival_ptr);
	info.si_code = SI_USER;
	assert_null(fgt_signal_find(&info));
	info.si_code = SI_TIMER;
	info.si_value.sival_ptr = slots + 8;
	assert_null(fgt_signal_find(&info));
	info.si_value.sival_ptr = slots - FGT_SIGNAL_SLOT_BYTES;
	assert_null(fgt_signal_find(&info));
	info.si_value.sival_ptr =
		slots + (size_t)fgt_signal_table.count * FGT_SIGNAL_SLOT_BYTES;
	assert_null(fgt_signal_find(&info));
	info.si_value.sival_ptr = NULL;
	assert_null(fgt_signal_find(&info));
}

static void slots_of_other_threads_are_left_alone(void **state)
{
	struct fgt_signal_slot *slot = mmap(NULL, sizeof(*slot),
					    PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ucontext_t context = { .uc_flags = 0 };
	volatile bool kept = false; /* asserts may jump */

	(void)state;
	assert_ptr_not_equal(slot, MAP_FAILED);
	fgt_signal_table.pid = getpid();
	slot->want_bytes = 4096;
	getcontext(&context);
	assert_false(fgt_signal_take(slot, 0, &context));
	slot->state = FGT_SIGNAL_EMPTY;
	slot->tid = gettid() + 1;
	assert_false(fgt_signal_take(slot, 0, &context));
	slot->tid = gettid();
	assert_true(fgt_signal_take(slot, 0, &context));
	assert_int_equal(slot->state, FGT_SIGNAL_FULL);
	/* Any one of them is kept, and none while the last is being read. */
	for (int i = 1; i <= 20; i++) {
		assert_true(fgt_signal_take(slot, i, &context));
		kept |= slot->overrun == i;
	}
	assert_int_equal(slot->count, 21);
	assert_true(kept);
	slot->state = FGT_SIGNAL_READING;
	assert_false(fgt_signal_take(slot, 0, &context));
	munmap(slot, sizeof(*slot));
}

static uint64_t sp_of(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uint64_t)context->uc_mcontext.gregs[REG_RSP];
#else
	return context->uc_mcontext.sp;
#endif
}

/* As a late signal does, when the slot has become another thread's. */
static void *take_late(void *argument)
{
	struct fgt_signal_slot *slot = argument;
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	getcontext(&context);
	return (void *)(uintptr_t)fgt_signal_take(slot, 7, &context);
}

static bool takes_late(struct fgt_signal_slot *slot)
{
	pthread_t thread;
	void *is_taken;

	assert_int_equal(pthread_create(&thread, NULL, take_late, slot), 0);
	pthread_join(thread, &is_taken);
	return is_taken;
}

static void who_is_on_a_stack_is_its_thread(void **state)
{
	FGT_AUTO(fgt_running_signal_close)
	struct fgt_running_signal *signal = NULL;
	struct fgt_signal_slot *slot;
	ucontext_t context;
	uint32_t next = 0;
	uint64_t sp;

	(void)state;
	memset(&context, 0, sizeof(context));
	assert_int_equal(fgt_running_signal_open(&signal, NULL), 0);
	getcontext(&context);
	sp = sp_of(&context);
	/* Not asked for its number, which is not this one. */
	slot = fgt_signal_slot_get(&next, INT32_MAX, sp - 4096, sp + 64);
	assert_true(fgt_signal_take(slot, 3, &context));
	assert_int_equal(slot->found_tid, INT32_MAX);
	assert_false(takes_late(slot));
	assert_int_equal(slot->state, FGT_SIGNAL_FULL);
	assert_int_equal(slot->overrun, 3);
	fgt_signal_slot_put(slot);
	assert_int_equal(slot->state, FGT_SIGNAL_FREE);
	assert_false(takes_late(slot));
	slot = fgt_signal_slot_get(&next, gettid(), sp + 64, sp + 128);
	assert_false(takes_late(slot));
	assert_int_equal(slot->state, FGT_SIGNAL_EMPTY);
	assert_true(fgt_signal_take(slot, 4, &context));
	fgt_signal_slot_put(slot);
}

static void slots_that_were_written_to_when_put_are_lent_again(void **state)
{
	static const unsigned int left[] = { FGT_SIGNAL_EMPTY,
					     FGT_SIGNAL_FULL };
	FGT_AUTO(fgt_running_signal_close)
	struct fgt_running_signal *signal = NULL;

	(void)state;
	assert_int_equal(fgt_running_signal_open(&signal, NULL), 0);
	for (int i = 0; i < 2; i++) {
		uint32_t next = 0;
		struct fgt_signal_slot *slot =
			fgt_signal_slot_get(&next, gettid(), 0, 0);

		slot->state = FGT_SIGNAL_WRITING;
		fgt_signal_slot_put(slot);
		next = 0;
		assert_ptr_not_equal(fgt_signal_slot_get(&next, 1, 0, 0), slot);
		slot->state = left[i];
		next = 0;
		assert_ptr_equal(fgt_signal_slot_get(&next, 2, 0, 0), slot);
		assert_int_equal(slot->state, FGT_SIGNAL_EMPTY);
		fgt_signal_slot_put(slot);
		fgt_signal_slot_put(&fgt_signal_table.slots[1]);
	}
}

/* ---- Both sides at once ------------------------------------------------ */

struct pair {
	struct fgt_signal_slot *slot;
	atomic_bool is_done, is_ready;
	unsigned int taken;
};

/* As the handler would, over and over, without the signal. */
static void *fill(void *argument)
{
	struct pair *pair = argument;
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	getcontext(&context);
	atomic_store(&pair->slot->tid, gettid());
	atomic_store(&pair->slot->state, FGT_SIGNAL_EMPTY);
	atomic_store(&pair->is_ready, true);
	while (!atomic_load(&pair->is_done))
		pair->taken +=
			fgt_signal_take(pair->slot, (int)pair->taken, &context);
	return NULL;
}

static void no_sample_is_read_half_written(void **state)
{
	struct pair pair = { .taken = 0 };
	unsigned int read = 0;
	int last = -1;
	pthread_t thread;

	(void)state;
	pair.slot = mmap(NULL, sizeof(*pair.slot), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pair.slot, MAP_FAILED);
	fgt_signal_table.pid = getpid();
	assert_int_equal(pthread_create(&thread, NULL, fill, &pair), 0);
	while (!atomic_load(&pair.is_ready))
		sched_yield();
	for (unsigned int i = 0; i < TAKES && read < 2000; i++) {
		unsigned int full = FGT_SIGNAL_FULL;

		if (!atomic_compare_exchange_strong_explicit(
			    &pair.slot->state, &full, FGT_SIGNAL_READING,
			    memory_order_acquire, memory_order_relaxed)) {
			sched_yield();
			continue;
		}
		/* Each sample is of one piece, and later than the last. */
		assert_true(pair.slot->overrun > last);
		assert_int_equal(pair.slot->found_tid, pair.slot->tid);
		last = pair.slot->overrun;
		read++;
		atomic_store_explicit(&pair.slot->state, FGT_SIGNAL_EMPTY,
				      memory_order_release);
	}
	atomic_store(&pair.is_done, true);
	pthread_join(thread, NULL);
	assert_true(read > 10);
	munmap(pair.slot, sizeof(*pair.slot));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_slots_are_taken_for_ours),
		cmocka_unit_test(slots_of_other_threads_are_left_alone),
		cmocka_unit_test(who_is_on_a_stack_is_its_thread),
		cmocka_unit_test(
			slots_that_were_written_to_when_put_are_lent_again),
		cmocka_unit_test(no_sample_is_read_half_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
