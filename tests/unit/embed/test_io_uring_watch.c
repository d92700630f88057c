/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses io_uring is not signalled: with rings of this very process where
 * they are permitted.
 */
#include "agent/embed/signal/signal_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"
#include "tests/unit/embed/signal_kit.h"

#define TICK_NS	  1000000u
#define SECOND_NS 1000000000u
/* More than any pause of those that are asked again. */
#define LATER_NS 2000000000u
#define NAME	 "anon_inode:[io_uring]"

/* ---- The text ---------------------------------------------------------- */

static bool is_in_text(const char *text, size_t len)
{
	FGT_AUTO(fgt_fd_close) int fd = memfd_create("maps", MFD_CLOEXEC);

	assert_return_code(fd, errno);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fgt_io_uring_is_in(&fd);
}

/* At every place of some pages, whatever the size of what is read at once. */
static void a_name_is_found_wherever_it_is_cut(void **state)
{
	char text[3 * 4096];

	(void)state;
	for (size_t at = 0; at <= sizeof(text) - strlen(NAME); at++) {
		memset(text, 'x', sizeof(text));
		memcpy(text + at, NAME, strlen(NAME));
		assert_true(is_in_text(text, sizeof(text)));
	}
}

static void other_names_are_none(void **state)
{
	int none = -1;
	static const char half[] = "anon_inode:[io_ur", rest[] = "ing]";
	char text[2 * 4096];

	(void)state;
	assert_false(is_in_text("", 0));
	assert_false(is_in_text("anon_inode:[perf_event]\n", 24));
	assert_false(is_in_text(half, sizeof(half) - 1));
	/* Two halves that are not neighbours make no whole. */
	memset(text, 'x', sizeof(text));
	memcpy(text + 4096 - strlen(half), half, strlen(half));
	memcpy(text + 4097, rest, strlen(rest));
	assert_false(is_in_text(text, sizeof(text)));
	assert_false(fgt_io_uring_is_in(&none));
}

/* ---- Who is signalled -------------------------------------------------- */

struct ring {
	void *memory;
	size_t len_bytes;
};

/* A ring whose descriptor is closed: only the mapping is left. */
static struct ring map_ring(void)
{
	struct io_uring_params params = { .flags = 0 };
	FGT_AUTO(fgt_fd_close)
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	struct ring ring = { .len_bytes = 4 * sizeof(struct io_uring_sqe) };

	if (fd < 0)
		skip();
	ring.memory = mmap(NULL, ring.len_bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED, fd, IORING_OFF_SQES);
	assert_ptr_not_equal(ring.memory, MAP_FAILED);
	return ring;
}

static void unmap_ring(struct ring *ring)
{
	munmap(ring->memory, ring->len_bytes);
}

static struct fgt_running_use busy_use(void)
{
	return (struct fgt_running_use){
		.now_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.period_ns = TICK_NS,
		.event_ns = TICK_NS,
		.runtime_ns = TICK_NS,
	};
}

/* Busy for some ticks. */
static void work(void *signal, struct fgt_thread *thread,
		 struct fgt_running_use *use)
{
	for (int i = 0; i < 4; i++) {
		use->now_ns += TICK_NS;
		fgt_running_signal.consider(signal, thread, use);
	}
}

static void beside_a_ring_no_thread_gets_one(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = gettid(), .active = &active };
	struct fgt_running_use use = busy_use();
	struct ring ring = map_ring();

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	for (int i = 0; i < 10; i++) {
		work(signal, &thread, &use);
		assert_null(active.source);
		use.now_ns += LATER_NS;
	}
	assert_non_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	unmap_ring(&ring);
}

static void a_ring_that_appears_takes_all_timers(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active1 = { .syscall_fd = -1 };
	struct fgt_active_thread active2 = { .syscall_fd = -1 };
	struct fgt_thread first = { .tid = gettid(), .active = &active1 };
	struct fgt_thread other = { .tid = gettid(), .active = &active2 };
	struct fgt_running_use use = busy_use();
	struct ring ring;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	work(signal, &first, &use);
	work(signal, &other, &use);
	assert_non_null(active1.source);
	assert_non_null(active2.source);
	assert_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	ring = map_ring();
	use.now_ns += TICK_NS;
	assert_non_null(fgt_running_signal.limit(signal, 1, use.now_ns));
	assert_null(active1.source);
	assert_null(active2.source);
	/* For ever, even if it goes. */
	unmap_ring(&ring);
	use.now_ns += LATER_NS;
	work(signal, &first, &use);
	assert_null(active1.source);
	assert_non_null(fgt_running_signal.limit(signal, 1, use.now_ns));
}

/* ---- What it costs ----------------------------------------------------- */

static void readings_wait_until_they_are_paid_for(void **state)
{
	struct fgt_io_uring_watch watch = { .has_ring = false };
	uint64_t now_ns = 100u * (uint64_t)SECOND_NS;

	(void)state;
	watch.paid_ns = now_ns + SECOND_NS;
	assert_int_equal(fgt_io_uring_watch_ask(&watch, now_ns), 0);
	assert_int_equal(watch.read_ns, 0);
	now_ns += SECOND_NS;
	assert_int_equal(fgt_io_uring_watch_ask(&watch, now_ns), 0);
	assert_int_equal(watch.read_ns, now_ns);
	assert_true(watch.paid_ns > now_ns);
	/* What has been saved for long is not spent at once. */
	watch.paid_ns = 1;
	now_ns += SECOND_NS;
	assert_int_equal(fgt_io_uring_watch_ask(&watch, now_ns), 0);
	assert_true(watch.paid_ns > now_ns - SECOND_NS);
}

static void old_timers_are_followed_rarely(void **state)
{
	struct fgt_io_uring_watch watch = { .has_ring = false };
	uint64_t now_ns = 100u * (uint64_t)SECOND_NS, read_ns;
	unsigned int readings = 0, first_second = 0;

	(void)state;
	(void)fgt_io_uring_watch_ask(&watch, now_ns);
	for (int i = 1; i <= 20000; i++) {
		read_ns = watch.read_ns;
		now_ns += TICK_NS;
		watch.paid_ns = 0;
		(void)fgt_io_uring_watch_follow(&watch, now_ns);
		readings += watch.read_ns != read_ns;
		if (i == 1000)
			first_second = readings;
	}
	assert_in_range(first_second, 30, 100);
	assert_in_range(readings - first_second, 15, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_found_wherever_it_is_cut),
		cmocka_unit_test(other_names_are_none),
		cmocka_unit_test(beside_a_ring_no_thread_gets_one),
		cmocka_unit_test(a_ring_that_appears_takes_all_timers),
		cmocka_unit_test(readings_wait_until_they_are_paid_for),
		cmocka_unit_test(old_timers_are_followed_rarely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
