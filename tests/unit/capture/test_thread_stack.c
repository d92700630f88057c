/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How near threads of this process are to the ends of their stacks.
 */
#include "agent/embed/signal/thread_stack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES 131072u
#define NEED_BYTES 8192u
#define KIB	   1024u

struct stack_case {
	struct fgt_thread_layout layout;
	pid_t tid; /* valid once it is ready */
	sem_t is_ready, may_end;
	size_t left_bytes; /* of its stack, at the deepest */
};

/* Goes down until so little of the stack is left. */
static __attribute__((noinline)) void use_stack(uint64_t low, size_t left_bytes)
{
	volatile char piece[512];

	piece[0] = 1;
	if ((uint64_t)(uintptr_t)piece > low + left_bytes)
		use_stack(low, left_bytes);
	piece[1] = piece[0];
}

static void *sit(void *argument)
{
	struct stack_case *test = argument;
	uint64_t high = 0;
	uint64_t low = fgt_thread_stack_low(&test->layout, gettid(), &high);

	if (low)
		use_stack(low, test->left_bytes);
	test->tid = gettid();
	sem_post(&test->is_ready);
	sem_wait(&test->may_end);
	return NULL;
}

static void *learn(void *argument)
{
	fgt_thread_layout_learn(argument);
	return NULL;
}

static uint64_t unused(size_t stack_bytes, size_t left_bytes)
{
	struct stack_case test = { .left_bytes = left_bytes };
	pthread_attr_t attributes;
	pthread_t thread;
	uint64_t low, high, bytes;

	sem_init(&test.is_ready, 0, 0);
	sem_init(&test.may_end, 0, 0);
	pthread_create(&thread, NULL, learn, &test.layout);
	pthread_join(thread, NULL);
	assert_true(test.layout.stack_offset > 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_bytes);
	pthread_create(&thread, &attributes, sit, &test);
	pthread_attr_destroy(&attributes);
	sem_wait(&test.is_ready);
	low = fgt_thread_stack_low(&test.layout, test.tid, &high);
	assert_true(low > 0);
	/* libc may give it one that was left by another, and larger. */
	assert_in_range(high - low, stack_bytes - 65536, 16 << 20);
	bytes = fgt_thread_stack_unused(low, MOST_BYTES);
	sem_post(&test.may_end);
	pthread_join(thread, NULL);
	return bytes;
}

static void threads_near_the_end_of_their_stack_are_known(void **state)
{
	(void)state;
	assert_int_equal(unused(1 << 20, 1 << 19), MOST_BYTES);
	assert_in_range(unused(1 << 20, 65536), 65536 - 8192, 65536);
	assert_in_range(unused(1 << 20, 16384), 16384 - 8192, 16384);
	assert_int_equal(unused(1 << 20, 2048), 0);
	assert_int_equal(unused(1 << 18, 2048), 0);
	assert_int_equal(unused(1 << 16, 2048), 0);
}

static void the_first_thread_has_a_stack_too(void **state)
{
	struct fgt_thread_layout layout;
	uint64_t low, high, here = (uint64_t)(uintptr_t)&layout;
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, learn, &layout);
	pthread_join(thread, NULL);
	low = fgt_thread_stack_low(&layout, getpid(), &high);
	if (!low)
		skip(); /* it has no limit */
	assert_true(low < here && here < high);
	assert_int_equal(fgt_thread_stack_unused(low, MOST_BYTES), MOST_BYTES);
}

/* The lower end in a program without any limit. */
static uint64_t first_low_without_limit(uint64_t *ret_high)
{
	struct fgt_thread_layout layout;
	struct rlimit before, none;
	uint64_t low;

	assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
	none = (struct rlimit){ before.rlim_max, before.rlim_max };
	fgt_thread_layout_learn(&layout);
	assert_int_equal(setrlimit(RLIMIT_STACK, &none), 0);
	low = fgt_thread_stack_low(&layout, getpid(), ret_high);
	assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
	return low;
}

/* Beyond that, others may have mapped what they want. */
static void the_first_stack_ends_where_something_is_mapped(void **state)
{
	uint64_t low, high, here = (uint64_t)(uintptr_t)&low;
	struct rlimit limit;
	char *below;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
	if (limit.rlim_max < 96 << 20)
		skip();
	below = mmap((void *)(uintptr_t)((here - (96 << 20)) & ~4095ull), 4096,
		     PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(below, MAP_FAILED);
	low = first_low_without_limit(&high);
	assert_true(low < here && here < high);
	assert_int_equal(low, (uintptr_t)below + 4096 + (1 << 20));
	munmap(below, 4096);
	low = first_low_without_limit(&high);
	assert_true(low > 0 && low < (uintptr_t)below && here < high);
}

/* It is known as far as it has grown, to the very page. */
static void the_end_of_the_first_stack_is_near_when_it_is(void **state)
{
	struct fgt_thread_layout layout = { 0 };
	uint64_t low, high, left_bytes;

	(void)state;
	low = fgt_thread_stack_low(&layout, getpid(), &high);
	if (!low || high - low > 8 << 20)
		skip();
	use_stack(low, 65536);
	left_bytes = fgt_thread_stack_unused(low, MOST_BYTES);
	assert_in_range(left_bytes, 65536 - 8192, 65536);
	use_stack(low, 16384);
	left_bytes = fgt_thread_stack_unused(low, MOST_BYTES);
	assert_in_range(left_bytes, 16384 - 8192, 16384);
}

/* The child's only thread has the number of the process, and that stack. */
static void *fork_and_ask(void *unused_argument)
{
	struct fgt_thread_layout layout;
	uint64_t low, high = 0, here = (uint64_t)(uintptr_t)&layout;
	int status = -1;
	pid_t child;

	(void)unused_argument;
	fgt_thread_layout_learn(&layout);
	child = fork();
	if (child == 0) {
		low = fgt_thread_stack_low(&layout, gettid(), &high);
		_exit(low && low < here && here < high ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return (void *)(intptr_t)status;
}

static void a_child_of_another_thread_has_that_stack(void **state)
{
	pthread_t thread;
	void *status;

	(void)state;
	pthread_create(&thread, NULL, fork_and_ask, NULL);
	pthread_join(thread, &status);
	assert_int_equal((intptr_t)status, 0);
}

static void a_number_without_a_thread_has_no_stack(void **state)
{
	struct fgt_thread_layout layout;
	uint64_t high = 0;

	(void)state;
	fgt_thread_layout_learn(&layout);
	assert_int_equal(fgt_thread_stack_low(&layout, INT32_MAX, &high), 0);
}

/* Milliseconds until a stack, used except so many bytes at its end, has room
 * for a signal's frame; UINT64_MAX: none in a minute. */
static uint64_t wait_for_room(size_t whole_bytes, size_t left_bytes)
{
	const struct fgt_thread_layout layout = { .need_bytes = NEED_BYTES };
	char *stack = mmap(NULL, whole_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fgt_thread_room room = { .low = (uint64_t)(uintptr_t)stack };
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = 1, .active = &active };
	uint64_t ms = 0;

	assert_ptr_not_equal(stack, MAP_FAILED);
	madvise(stack, whole_bytes, MADV_NOHUGEPAGE);
	room.high = room.low + whole_bytes;
	for (size_t at = left_bytes; at < whole_bytes; at += 4096)
		stack[at] = 1;
	while (!fgt_thread_has_room(&layout, &room, &thread,
				    (ms + 1) * 1000000u) &&
	       ms < 60000)
		ms++;
	/* Idle meanwhile, and no deeper: at once. */
	if (ms < 60000) {
		active = (struct fgt_active_thread){ .syscall_fd = -1 };
		assert_true(fgt_thread_has_room(&layout, &room, &thread,
						(ms + 1001) * 1000000u));
	}
	munmap(stack, whole_bytes);
	return ms < 60000 ? ms : UINT64_MAX;
}

static void the_less_is_left_the_longer_a_thread_must_be_calm(void **state)
{
	(void)state;
	assert_int_equal(wait_for_room(8192 * KIB, 4096 * KIB), 0);
	assert_int_equal(wait_for_room(2048 * KIB, 1100 * KIB), 0);
	assert_int_equal(wait_for_room(1024 * KIB, 1000 * KIB), 100);
	assert_int_equal(wait_for_room(256 * KIB, 200 * KIB), 100);
	assert_int_equal(wait_for_room(256 * KIB, 100 * KIB), 1000);
	assert_int_equal(wait_for_room(32 * KIB, 12 * KIB), 1000);
	assert_true(wait_for_room(32 * KIB, 8 * KIB) == UINT64_MAX);
	assert_true(wait_for_room(32 * KIB, 4 * KIB) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_near_the_end_of_their_stack_are_known),
		cmocka_unit_test(the_first_thread_has_a_stack_too),
		cmocka_unit_test(the_end_of_the_first_stack_is_near_when_it_is),
		cmocka_unit_test(
			the_first_stack_ends_where_something_is_mapped),
		cmocka_unit_test(a_child_of_another_thread_has_that_stack),
		cmocka_unit_test(a_number_without_a_thread_has_no_stack),
		cmocka_unit_test(
			the_less_is_left_the_longer_a_thread_must_be_calm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
