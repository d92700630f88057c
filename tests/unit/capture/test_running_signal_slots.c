/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots that handlers fill and the sampler empties: whose they are, and
 * that what is half written is not read.
 */
#include "agent/embed/signal/running_signal_slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/embed/signal/thread_timer.h"
#include "tests/unit/capture/signal_kit.h"

#define TAKES 200000u

static void signal_is_found_only_with_the_address_of_a_slot(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	siginfo_t info = { .si_code = SI_TIMER };
	uint32_t lending;
	char *slots;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slots = (char *)fgt_signal_table.slots;
	info.si_value.sival_ptr = slots + FGT_SIGNAL_SLOT_BYTES + 7;
	assert_ptr_equal(fgt_signal_find(&info, &lending),
			 slots + FGT_SIGNAL_SLOT_BYTES);
	assert_int_equal(lending, 7);
	/* Anybody may send such a one. */
	info.si_code = SI_QUEUE;
	assert_null(fgt_signal_find(&info, &lending));
	info.si_code = SI_TIMER;
	info.si_value.sival_ptr = slots - 1;
	assert_null(fgt_signal_find(&info, &lending));
	info.si_value.sival_ptr =
		slots + (size_t)fgt_signal_table.count * FGT_SIGNAL_SLOT_BYTES;
	assert_null(fgt_signal_find(&info, &lending));
	info.si_value.sival_ptr = NULL;
	assert_null(fgt_signal_find(&info, &lending));
}

static void set_stack_pointer(ucontext_t *context, uint64_t sp)
{
#ifdef __x86_64__
	context->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
#else
	context->uc_mcontext.sp = sp;
#endif
}

static bool take(struct fgt_signal_slot *slot, uint32_t lending, int overrun)
{
	const siginfo_t info = { .si_overrun = overrun, .si_timerid = -1 };
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	getcontext(&context);
	return fgt_signal_take(slot, lending, &info, &context);
}

static void any_sample_since_the_last_tick_is_kept(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_signal_slot *slot;
	volatile bool kept = false; /* asserts may jump */
	uint32_t next = 0;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = fgt_signal_slot_get(&next, gettid(), 0, 0, false);
	assert_true(take(slot, slot->lending, 0));
	assert_int_equal(slot->state, FGT_SIGNAL_FULL);
	assert_int_equal(slot->found_tid, gettid());
	for (int i = 1; i <= 20; i++) {
		assert_true(take(slot, slot->lending, i));
		kept |= slot->overrun == i;
	}
	assert_int_equal(slot->count, 21);
	assert_true(kept);
	/* None while the last is being read. */
	slot->state = FGT_SIGNAL_READING;
	assert_false(take(slot, slot->lending, 0));
	slot->state = FGT_SIGNAL_FULL;
	fgt_signal_slot_put(slot);
}

/* What room there is on an unknown stack no later sample shows. */
static void one_sample_on_a_foreign_stack_is_enough(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	siginfo_t info = { .si_overrun = 0 };
	ucontext_t here, elsewhere;
	struct fgt_signal_slot *slot;
	struct itimerspec each;
	uint64_t around = (uint64_t)(uintptr_t)&here;
	uint32_t next = 0;

	(void)state;
	memset(&here, 0, sizeof(here));
	getcontext(&here);
	here.uc_stack = (stack_t){ .ss_flags = 0 }; /* as first threads have */
	elsewhere = here;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = fgt_signal_slot_get(&next, gettid(), around - 65536,
				   around + 65536, true);
	assert_int_equal(fgt_thread_timer_start(gettid(), SIGURG, NULL,
						3600000000000,
						&info.si_timerid),
			 0);
	assert_true(fgt_signal_take(slot, slot->lending, &info, &here));
	assert_false(slot->is_foreign);
	set_stack_pointer(&elsewhere, around + 65536);
	assert_true(fgt_signal_take(slot, slot->lending, &info, &elsewhere));
	for (int i = 0; i < 10; i++)
		assert_true(fgt_signal_take(slot, slot->lending, &info, &here));
	assert_true(slot->is_foreign);
	/* Nothing comes after it. */
	assert_int_equal(syscall(SYS_timer_gettime, info.si_timerid, &each), 0);
	assert_int_equal(each.it_value.tv_sec, 0);
	slot->state = FGT_SIGNAL_EMPTY;
	assert_true(fgt_signal_take(slot, slot->lending, &info, &here));
	assert_true(slot->is_foreign);
	fgt_thread_timer_end(info.si_timerid);
	fgt_signal_slot_put(slot);
	/* With an alternate stack the signal lies there. */
	next = 0;
	slot = fgt_signal_slot_get(&next, gettid(), around - 65536,
				   around + 65536, true);
	assert_false(slot->is_foreign);
	elsewhere.uc_stack.ss_size = 65536;
	assert_true(fgt_signal_take(slot, slot->lending, &info, &elsewhere));
	assert_false(slot->is_foreign);
	fgt_signal_slot_put(slot);
	/* Where no stack is known, none is foreign. */
	next = 0;
	slot = fgt_signal_slot_get(&next, gettid(), 0, 0, false);
	elsewhere.uc_stack.ss_size = 0;
	assert_true(fgt_signal_take(slot, slot->lending, &info, &elsewhere));
	assert_false(slot->is_foreign);
	fgt_signal_slot_put(slot);
}

static void late_signals_leave_the_slots_of_others_alone(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_signal_slot *slot;
	uint32_t next = 0, late;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = fgt_signal_slot_get(&next, 4242, 0, 0, false);
	late = slot->lending;
	fgt_signal_slot_put(slot);
	assert_int_equal(slot->state, FGT_SIGNAL_FREE);
	assert_false(take(slot, late, 1));
	next = 0;
	assert_ptr_equal(fgt_signal_slot_get(&next, 4343, 0, 0, false), slot);
	assert_false(take(slot, late, 1));
	assert_int_equal(slot->state, FGT_SIGNAL_EMPTY);
	assert_true(take(slot, slot->lending, 2));
	assert_false(take(slot, late, 1));
	assert_int_equal(slot->state, FGT_SIGNAL_FULL);
	assert_int_equal(slot->found_tid, 4343);
	assert_int_equal(slot->overrun, 2);
	fgt_signal_slot_put(slot);
}

static void slots_that_were_written_to_when_put_are_lent_again(void **state)
{
	static const unsigned int left[] = { FGT_SIGNAL_EMPTY,
					     FGT_SIGNAL_FULL };
	FGT_AUTO(kit_signal_close) void *signal = NULL;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	for (int i = 0; i < 2; i++) {
		uint32_t next = 0;
		struct fgt_signal_slot *slot =
			fgt_signal_slot_get(&next, gettid(), 0, 0, false);

		slot->state = FGT_SIGNAL_WRITING;
		fgt_signal_slot_put(slot);
		next = 0;
		assert_ptr_not_equal(fgt_signal_slot_get(&next, 1, 0, 0, false),
				     slot);
		slot->state = left[i];
		assert_false(take(slot, slot->lending, 1));
		next = 0;
		assert_ptr_equal(fgt_signal_slot_get(&next, 2, 0, 0, false),
				 slot);
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

/* Does the handler's work, over and over, without the signal. */
static void *fill(void *argument)
{
	struct pair *pair = argument;

	atomic_store(&pair->slot->tid, gettid());
	atomic_store(&pair->slot->state, FGT_SIGNAL_EMPTY);
	atomic_store(&pair->is_ready, true);
	while (!atomic_load(&pair->is_done))
		pair->taken += take(pair->slot, 0, (int)pair->taken);
	return NULL;
}

static bool begin_reading(struct fgt_signal_slot *slot)
{
	unsigned int full = FGT_SIGNAL_FULL;

	return atomic_compare_exchange_strong_explicit(
		&slot->state, &full, FGT_SIGNAL_READING, memory_order_acquire,
		memory_order_relaxed);
}

static void end_reading(struct fgt_signal_slot *slot)
{
	atomic_store_explicit(&slot->state, FGT_SIGNAL_EMPTY,
			      memory_order_release);
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
		if (!begin_reading(pair.slot)) {
			sched_yield();
			continue;
		}
		/* Each sample is of one piece, and later than the last. */
		assert_true(pair.slot->overrun > last);
		assert_int_equal(pair.slot->found_tid, pair.slot->tid);
		last = pair.slot->overrun;
		read++;
		end_reading(pair.slot);
	}
	atomic_store(&pair.is_done, true);
	pthread_join(thread, NULL);
	assert_true(read > 10);
	munmap(pair.slot, sizeof(*pair.slot));
}

/* Two threads whose lendings come and go while their signals are under way. */
struct late {
	struct fgt_signal_slot *slot;
	atomic_uint lending;
	atomic_bool *is_done;
	int number;
};

static void *come_late(void *argument)
{
	struct late *late = argument;

	while (!atomic_load(late->is_done))
		take(late->slot, atomic_load(&late->lending), late->number);
	return NULL;
}

/* Returns how many samples were read of that lending. */
static unsigned int lend(struct late *late)
{
	uint32_t next = 0;
	struct fgt_signal_slot *slot =
		fgt_signal_slot_get(&next, late->number, 0, 0, false);
	unsigned int read = 0;

	/* A late one is writing to it. */
	if (!slot) {
		usleep(10);
		return 0;
	}
	assert_ptr_equal(slot, late->slot);
	atomic_store(&late->lending, slot->lending);
	for (int i = 0; i < 2000 && !read; i++) {
		sched_yield();
		if (!begin_reading(slot))
			continue;
		assert_int_equal(slot->found_tid, late->number);
		assert_int_equal(slot->overrun, late->number);
		read++;
		end_reading(slot);
	}
	fgt_signal_slot_put(slot);
	return read;
}

static void no_sample_is_of_another_lending(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	atomic_bool is_done = false;
	struct late late[2];
	pthread_t threads[2];
	unsigned int read = 0;
	uint32_t count;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	count = fgt_signal_table.count;
	fgt_signal_table.count = 1;
	for (int i = 0; i < 2; i++) {
		late[i] = (struct late){ .slot = fgt_signal_table.slots,
					 .is_done = &is_done,
					 .number = i + 1 };
		assert_int_equal(
			pthread_create(&threads[i], NULL, come_late, &late[i]),
			0);
	}
	for (unsigned int i = 0; i < TAKES && read < 300; i++)
		read += lend(&late[i % 2]);
	atomic_store(&is_done, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	fgt_signal_table.count = count;
	assert_true(read > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			signal_is_found_only_with_the_address_of_a_slot),
		cmocka_unit_test(any_sample_since_the_last_tick_is_kept),
		cmocka_unit_test(one_sample_on_a_foreign_stack_is_enough),
		cmocka_unit_test(late_signals_leave_the_slots_of_others_alone),
		cmocka_unit_test(
			slots_that_were_written_to_when_put_are_lent_again),
		cmocka_unit_test(no_sample_is_read_half_written),
		cmocka_unit_test(no_sample_is_of_another_lending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
