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
#include "tests/unit/embed/signal_kit.h"

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
	assert_true(slot->has_room_aside);
	fgt_signal_slot_put(slot);
	/* Where no stack is known, none is foreign. */
	next = 0;
	slot = fgt_signal_slot_get(&next, gettid(), 0, 0, false);
	elsewhere.uc_stack.ss_size = 0;
	assert_true(fgt_signal_take(slot, slot->lending, &info, &elsewhere));
	assert_false(slot->is_foreign);
	assert_false(slot->has_room_aside);
	fgt_signal_slot_put(slot);
}

/* ---- What is copied of stacks -------------------------------------------- */

#define REGION_BYTES (512u << 10)

/* Memory with another word at each place. */
static uint64_t *make_region(void)
{
	uint64_t *words = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(words, MAP_FAILED);
	for (size_t i = 0; i < REGION_BYTES / sizeof(*words); i++)
		words[i] = (uint64_t)(uintptr_t)&words[i] * 31;
	return words;
}

static uint64_t address_of(const void *memory)
{
	return (uint64_t)(uintptr_t)memory;
}

/* A sample of a thread with this stack pointer and alternate stack. */
static void take_at(struct fgt_signal_slot *slot, const void *sp,
		    stack_t alternate)
{
	const siginfo_t info = { .si_timerid = -1 };
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	set_stack_pointer(&context, address_of(sp));
	context.uc_stack = alternate;
	slot->state = FGT_SIGNAL_EMPTY;
	assert_true(fgt_signal_take(slot, slot->lending, &info, &context));
}

static struct fgt_signal_slot *lend_to(const uint64_t *own)
{
	uint32_t next = 0;

	return fgt_signal_slot_get(&next, gettid(), address_of(own),
				   address_of(own) + REGION_BYTES, true);
}

static void deep_stack_is_copied_whole(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	uint64_t *own = make_region();
	const uint32_t depth = 200u << 10;
	const uint8_t *sp = (uint8_t *)own + REGION_BYTES - depth;
	struct fgt_signal_slot *slot;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = lend_to(own);
	take_at(slot, sp, (stack_t){ .ss_size = 0 });
	assert_int_equal(slot->len_bytes, FGT_SIGNAL_FIRST_BYTES);
	assert_int_equal(slot->asked_bytes, FGT_SIGNAL_FIRST_BYTES);
	/* Whatever is wanted next, the sample stays what it is. */
	fgt_signal_slot_want(slot, REGION_BYTES, 0);
	assert_memory_equal(slot->taken, sp, slot->len_bytes);
	take_at(slot, sp, (stack_t){ .ss_size = 0 });
	assert_int_equal(slot->asked_bytes, FGT_SIGNAL_DEEP_BYTES);
	assert_int_equal(slot->len_bytes, depth);
	assert_memory_equal(slot->taken, sp, depth);
	take_at(slot, own, (stack_t){ .ss_size = 0 });
	assert_int_equal(slot->len_bytes, FGT_SIGNAL_DEEP_BYTES);
	assert_memory_equal(slot->taken, own, FGT_SIGNAL_DEEP_BYTES);
	assert_int_equal(slot->other_bytes, 0);
	fgt_signal_slot_put(slot);
	/* The next thread begins with little. */
	slot = lend_to(own);
	take_at(slot, own, (stack_t){ .ss_size = 0 });
	assert_int_equal(slot->len_bytes, FGT_SIGNAL_FIRST_BYTES);
	fgt_signal_slot_put(slot);
	munmap(own, REGION_BYTES);
}

/* The piece of the usual stack lies from start to the end of that. */
static void check_other(const struct fgt_signal_slot *slot, const uint64_t *own,
			const void *start)
{
	uint64_t len = address_of(own) + REGION_BYTES - address_of(start);

	assert_int_equal(slot->other_start, address_of(start));
	assert_int_equal(slot->other_bytes, len);
	assert_memory_equal(slot->taken + slot->len_bytes, start, len);
}

static void stack_that_a_signal_interrupted_is_copied_too(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	uint64_t *own = make_region(), *other = make_region();
	const stack_t alternate = { .ss_sp = other, .ss_size = 16384 };
	const uint8_t *sp = (uint8_t *)other + 16384 - 4000;
	const uint8_t *end = (uint8_t *)own + REGION_BYTES;
	struct fgt_signal_slot *slot;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = lend_to(own);
	take_at(slot, sp, alternate);
	assert_int_equal(slot->len_bytes, 4000);
	assert_memory_equal(slot->taken, sp, 4000);
	check_other(slot, own, end - FGT_SIGNAL_FIRST_BYTES);
	/* As much as unwinding wanted, never less. */
	fgt_signal_slot_want(slot, 0, address_of(end - 20003));
	take_at(slot, sp, alternate);
	check_other(slot, own, end - 20008);
	fgt_signal_slot_want(slot, 0, address_of(end - 64));
	fgt_signal_slot_want(slot, 0, address_of(own) - 64);
	take_at(slot, sp, alternate);
	check_other(slot, own, end - 20008);
	fgt_signal_slot_want(slot, 0, address_of(end - 100000));
	take_at(slot, sp, alternate);
	assert_memory_equal(slot->taken, sp, 4000);
	check_other(slot, own, end - 100000);
	/* On its own stack, or on a third one, it has no such stack. */
	take_at(slot, own, alternate);
	assert_int_equal(slot->other_bytes, 0);
	take_at(slot, (uint8_t *)other + 16384, alternate);
	assert_int_equal(slot->other_bytes, 0);
	fgt_signal_slot_put(slot);
	munmap(own, REGION_BYTES);
	munmap(other, REGION_BYTES);
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
		cmocka_unit_test(deep_stack_is_copied_whole),
		cmocka_unit_test(stack_that_a_signal_interrupted_is_copied_too),
		cmocka_unit_test(late_signals_leave_the_slots_of_others_alone),
		cmocka_unit_test(
			slots_that_were_written_to_when_put_are_lent_again),
		cmocka_unit_test(no_sample_is_read_half_written),
		cmocka_unit_test(no_sample_is_of_another_lending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
