/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal that finds threads of this process on a CPU: what its handler
 * takes, from whom, and what it leaves alone.
 */
#include "tests/unit/embed/signal_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/capture/look/look_parts.h"
#include "agent/embed/signal/running_signal_slot.h"
#include "ringbuf/base/clock.h"

#define PERIOD_NS 1000000u

/* What the sampler would have noted of a thread that works. */
static struct fgt_running_use busy_use(void)
{
	return (struct fgt_running_use){
		.now_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.period_ns = PERIOD_NS,
		.event_ns = PERIOD_NS,
		.runtime_ns = PERIOD_NS,
	};
}

static struct fgt_thread make_thread(void)
{
	static struct fgt_active_thread active;

	active = (struct fgt_active_thread){ .syscall_fd = -1 };
	return (struct fgt_thread){ .tid = gettid(), .active = &active };
}

/* One look is not enough. */
static void consider_twice(void *signal, struct fgt_thread *thread,
			   const struct fgt_running_use *use)
{
	fgt_running_signal.consider(signal, thread, use);
	assert_null(thread->active->source);
	fgt_running_signal.consider(signal, thread, use);
}

static void block_urgent(sigset_t *ret_before)
{
	sigset_t urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	pthread_sigmask(SIG_BLOCK, &urgent, ret_before);
}

/* ---- Samples of ourselves ---------------------------------------------- */

struct seen {
	unsigned int samples, wrong;
	uint64_t pc_low, pc_high;
};

static bool is_wanted(void *context, int32_t pid)
{
	(void)context;
	return pid == getpid();
}

static void take(void *context, const struct fgt_running_sample *sample)
{
	struct seen *seen = context;
	uint64_t sp = sample->regs.value[fgt_arch_host.sp];
	uint64_t pc = sample->regs.value[fgt_arch_host.pc];

	seen->samples++;
	if (sample->tid != gettid() || !sample->has_regs || !pc ||
	    sample->stack_len < 64 ||
	    sp < (uint64_t)(uintptr_t)&sp - (1u << 20) ||
	    sp > (uint64_t)(uintptr_t)&sp + (1u << 20))
		seen->wrong++;
}

static volatile uint64_t work_done;

static __attribute__((noinline)) void work_ms(unsigned int ms)
{
	uint64_t until =
		fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000ull;

	while (fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (unsigned int i = 0; i < 10000; i++)
			work_done += i;
}

static void drain(void *signal, struct seen *seen)
{
	const struct fgt_running_handler handler = { .is_wanted = is_wanted,
						     .sample = take,
						     .context = seen };

	fgt_running_signal.drain(signal, &handler);
}

static void a_thread_that_works_is_sampled(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	/* The kernel looks at such timers at its own tick, 100 Hz at least,
	 * and on a machine that is busy with others not at every one. */
	for (int i = 0; i < 300 && seen.samples < 10; i++) {
		work_ms(10);
		drain(signal, &seen);
	}
	assert_int_equal(seen.samples, 10);
	assert_int_equal(seen.wrong, 0);
	fgt_running_signal.drop(signal, &thread);
	assert_null(thread.active->source);
}

static void a_thread_that_sleeps_is_not_woken(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	struct timespec pause = { .tv_nsec = 20000000 };

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	for (int i = 0; i < 10; i++) {
		work_ms(3);
		assert_int_equal(nanosleep(&pause, NULL), 0);
	}
	fgt_running_signal.drop(signal, &thread);
}

static void little_work_is_not_worth_a_timer(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();

	(void)state;
	use.runtime_ns = PERIOD_NS / 100;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_null(thread.active->source);
}

static void a_thread_that_blocks_the_signal_gets_none(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	sigset_t before;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	block_urgent(&before);
	consider_twice(signal, &thread, &use);
	assert_null(thread.active->source);
	assert_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	/* Who did so for a moment only is asked again soon. */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	consider_twice(signal, &thread, &use);
	use.now_ns += 20000000u;
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	fgt_running_signal.drop(signal, &thread);
}

static void a_thread_that_blocks_the_signal_is_not_always_asked(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	uint64_t retry_ns = 0;
	sigset_t before;
	int asked = 0;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	block_urgent(&before);
	for (int i = 0; i < 1000; i++) { /* ten seconds */
		fgt_running_signal.consider(signal, &thread, &use);
		asked += thread.active->source_retry_ns != retry_ns;
		retry_ns = thread.active->source_retry_ns;
		use.now_ns += 10000000u;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_null(thread.active->source);
	assert_in_range(asked, 13, 17);
	assert_non_null(strstr(fgt_running_signal.limit(signal, 1, 0), "URG"));
}

/* A thread that does not run is not read in every tick; but what it did last is
 * not overlooked. */
static void a_thread_that_does_not_run_is_asked_rarely(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	sigset_t before;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	block_urgent(&before);
	use.runtime_ns = 0;
	use.now_ns += 100000000u;
	fgt_running_signal.consider(signal, &thread, &use);
	assert_non_null(thread.active->source);
	use.now_ns += 500000000u;
	fgt_running_signal.consider(signal, &thread, &use);
	assert_null(thread.active->source);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* What it has unblocked while it waits is not for the sampler: that is not
 * believed so soon. */
static void a_thread_that_waits_for_signals_is_looked_at_longer(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	const struct fgt_blocked waiting = { .call = SYS_rt_sigtimedwait };
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	int looks = 0;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	(void)fgt_blocked_state(&waiting, &thread);
	fgt_running_signal.consider(signal, &thread, &use);
	assert_null(thread.active->source);
	use.now_ns += 2000000000u;
	for (; looks < 10 && !thread.active->source; looks++)
		fgt_running_signal.consider(signal, &thread, &use);
	assert_int_equal(looks, 3);
	fgt_running_signal.drop(signal, &thread);
}

static void a_thread_that_waits_for_io_uring_gets_none(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	const struct fgt_blocked waiting = { .call = SYS_io_uring_enter };
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	(void)fgt_blocked_state(&waiting, &thread);
	for (int i = 0; i < 10; i++) {
		fgt_running_signal.consider(signal, &thread, &use);
		assert_null(thread.active->source);
		use.now_ns += 2000000000u;
	}
}

/* Seen unblocked once, by chance: that must not be remembered. */
static void looks_before_a_blocked_one_do_not_count(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	sigset_t before;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	fgt_running_signal.consider(signal, &thread, &use);
	block_urgent(&before);
	fgt_running_signal.consider(signal, &thread, &use);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	use.now_ns += 2000000000u;
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	fgt_running_signal.drop(signal, &thread);
}

/* ---- Whose signal is it ------------------------------------------------ */

static atomic_uint foreign_calls;

static void count_call(int number)
{
	(void)number;
	foreign_calls++;
}

static void a_taken_signal_is_left_alone(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct sigaction theirs = { .sa_handler = count_call }, after;

	(void)state;
	sigaction(SIGURG, &theirs, NULL);
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	foreign_calls = 0;
	for (int i = 0; i < 100; i++)
		raise(SIGURG);
	assert_int_equal(foreign_calls, 100);
	sigaction(SIGWINCH, NULL, &after);
	assert_ptr_equal(after.sa_sigaction, fgt_signal_handle);
	theirs.sa_handler = SIG_DFL;
	sigaction(SIGURG, &theirs, NULL);
}

static void open_fails_where_both_signals_are_taken(void **state)
{
	void *signal = NULL;
	struct sigaction theirs = { .sa_handler = count_call };
	struct fgt_why why = { "" };

	(void)state;
	sigaction(SIGURG, &theirs, NULL);
	sigaction(SIGWINCH, &theirs, NULL);
	assert_int_equal(kit_signal_open(&signal, &why), -ENOSPC);
	assert_non_null(strstr(why.text, "SIGWINCH"));
	theirs.sa_handler = SIG_DFL;
	sigaction(SIGURG, &theirs, NULL);
	sigaction(SIGWINCH, &theirs, NULL);
}

static void handler_stays_where_the_program_replaced_it(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct sigaction theirs = { .sa_handler = count_call }, after;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	assert_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	consider_twice(signal, &thread, &use);
	assert_non_null(thread.active->source);
	sigaction(SIGURG, &theirs, NULL);
	assert_non_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	assert_null(thread.active->source);
	consider_twice(signal, &thread, &use);
	assert_null(thread.active->source);
	foreign_calls = 0;
	work_ms(50);
	assert_int_equal(foreign_calls, 0);
	kit_signal_close(FGT_TAKE(signal));
	sigaction(SIGURG, NULL, &after);
	assert_ptr_equal(after.sa_handler, count_call);
	theirs.sa_handler = SIG_DFL;
	sigaction(SIGURG, &theirs, NULL);
}

static void signals_of_others_are_passed_on(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	fgt_signal_table.previous =
		(struct sigaction){ .sa_handler = count_call };
	foreign_calls = 0;
	for (int i = 0; i < 1000; i++)
		raise(SIGURG);
	assert_int_equal(foreign_calls, 1000);
	fgt_signal_table.previous = (struct sigaction){ .sa_handler = SIG_DFL };
}

static void errno_survives_the_handler(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	struct seen seen = { 0 };
	uint64_t until;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	until = fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) + 3000000000u;
	errno = 4711;
	while (fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until &&
	       seen.samples < 10) {
		assert_int_equal(errno, 4711);
		drain(signal, &seen);
	}
	assert_int_equal(seen.samples, 10);
	fgt_running_signal.drop(signal, &thread);
}

/* ---- No allocation ----------------------------------------------------- */

static atomic_int handling; /* handlers under way */
static atomic_int allocations; /* meanwhile */

/* Every call to malloc from what is linked here comes by. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
	allocations += handling != 0;
	return __real_malloc(size);
}

void __wrap_free(void *memory)
{
	allocations += handling != 0;
	__real_free(memory);
}

static void watched(int number, siginfo_t *info, void *context)
{
	handling++;
	fgt_signal_handle(number, info, context);
	handling--;
}

static void the_handler_allocates_nothing(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };
	struct fgt_thread thread = make_thread();
	struct fgt_running_use use = busy_use();
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	action.sa_sigaction = watched;
	sigaction(SIGURG, &action, NULL);
	for (int i = 0; i < 300 && seen.samples < 10; i++) {
		work_ms(10);
		drain(signal, &seen);
	}
	fgt_running_signal.drop(signal, &thread);
	action = (struct sigaction){ .sa_handler = SIG_DFL };
	sigaction(SIGURG, &action, NULL);
	assert_int_equal(seen.samples, 10);
	assert_int_equal(allocations, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_works_is_sampled),
		cmocka_unit_test(a_thread_that_sleeps_is_not_woken),
		cmocka_unit_test(little_work_is_not_worth_a_timer),
		cmocka_unit_test(a_thread_that_blocks_the_signal_gets_none),
		cmocka_unit_test(a_thread_that_does_not_run_is_asked_rarely),
		cmocka_unit_test(
			a_thread_that_blocks_the_signal_is_not_always_asked),
		cmocka_unit_test(
			a_thread_that_waits_for_signals_is_looked_at_longer),
		cmocka_unit_test(a_thread_that_waits_for_io_uring_gets_none),
		cmocka_unit_test(looks_before_a_blocked_one_do_not_count),
		cmocka_unit_test(a_taken_signal_is_left_alone),
		cmocka_unit_test(open_fails_where_both_signals_are_taken),
		cmocka_unit_test(handler_stays_where_the_program_replaced_it),
		cmocka_unit_test(signals_of_others_are_passed_on),
		cmocka_unit_test(errno_survives_the_handler),
		cmocka_unit_test(the_handler_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
