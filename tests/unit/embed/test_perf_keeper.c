/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the program does not see, and system calls that are not made
 * where a filter may forbid them.
 */
#include "agent/embed/perf/perf_keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/embed/child_kit.h"

#define PERIOD_NS    100000u
#define STACK_BYTES  4096u
#define PAGES	     2u
#define EVENTS_COUNT 100
#define TRIES	     100
#define ORDERS_COUNT 1000 /* more than there is room for */

struct event {
	int fd;
	struct fgt_perf_buffer buffer;
};

/* Of the calling thread. The keeper may get no CPU for 20 ms. */
static int open_event(struct fgt_perf_keeper *keeper, struct event *ret_event)
{
	const struct perf_event_attr attr =
		fgt_perf_attr(PERF_COUNT_SW_CPU_CLOCK, PERIOD_NS, STACK_BYTES);
	int tries = 0, rc;

	do {
		rc = fgt_perf_keeper_open(keeper, &attr, gettid(), PAGES,
					  &ret_event->buffer, &ret_event->fd);
	} while (rc == -EBUSY && ++tries < 500 && poll(NULL, 0, 1) == 0);
	return rc;
}

static void close_event(struct fgt_perf_keeper *keeper, struct event *event)
{
	fgt_perf_keeper_close(keeper, &event->buffer, event->fd);
}

static int install(struct sock_filter *rules, size_t count)
{
	struct sock_fprog filter = {
		.len = (unsigned short)count,
		.filter = rules,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       SECCOMP_FILTER_FLAG_TSYNC, &filter) < 0
		       ? -errno
		       : 0;
}

/* A filter of all threads that ends the process at each of the keeper's own
 * calls. */
static int forbid(void)
{
#define KILL_AT(number)                                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                   \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		KILL_AT(SYS_perf_event_open),
		KILL_AT(SYS_close_range),
		KILL_AT(SYS_ioctl),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
#undef KILL_AT
	return install(rules, sizeof(rules) / sizeof(rules[0]));
}

/* A filter of all threads that ends the keeper, and no other thread: only it
 * reads at an offset. */
static int end_keeper(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(rules, sizeof(rules) / sizeof(rules[0]));
}

static unsigned int count_files(const char *path, const char *what)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	unsigned int count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		char name[256] = "";

		if (readlinkat(dirfd(directory), entry->d_name, name,
			       sizeof(name) - 1) > 0)
			count += strstr(name, what) != NULL;
	}
	closedir(directory);
	return count;
}

static unsigned int count_kept(const struct fgt_perf_keeper *keeper,
			       const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/fd",
		 fgt_perf_keeper_tid(keeper));
	return count_files(path, what);
}

static void start(struct fgt_perf_keeper **ret_keeper, struct event *ret_event)
{
	if (fgt_perf_keeper_start(ret_keeper) < 0)
		skip();
	if (open_event(*ret_keeper, ret_event) < 0) {
		fgt_perf_keeper_end(*ret_keeper);
		skip(); /* this user may have no events */
	}
}

static void program_sees_no_descriptor_of_an_event(void **state)
{
	struct fgt_perf_keeper *keeper;
	struct event event;

	(void)state;
	start(&keeper, &event);
	assert_int_equal(count_files("/proc/self/fd", "perf_event"), 0);
	assert_int_equal(count_kept(keeper, "perf_event"), 1);
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
}

static void pipe_of_the_program_ends_when_the_program_closes_it(void **state)
{
	struct fgt_perf_keeper *keeper;
	struct event event;
	int fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	start(&keeper, &event);
	assert_int_equal(count_kept(keeper, "pipe"), 0);
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 0);
	close(fds[0]);
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
}

static void event_has_samples_at_once(void **state)
{
	struct fgt_perf_keeper *keeper;
	const struct perf_event_header *header = NULL;
	struct event event;
	bool is_broken;

	(void)state;
	start(&keeper, &event);
	while (!header)
		header = fgt_perf_buffer_next(&event.buffer, &is_broken);
	assert_int_equal(header->type, PERF_RECORD_SAMPLE);
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
}

static void more_orders_than_there_is_room_for_are_carried_out(void **state)
{
	struct fgt_perf_keeper *keeper;
	struct event event, events[EVENTS_COUNT];

	(void)state;
	start(&keeper, &event);
	for (int i = 0; i < EVENTS_COUNT; i++)
		assert_int_equal(open_event(keeper, &events[i]), 0);
	for (int i = 0; i < EVENTS_COUNT; i++)
		close_event(keeper, &events[i]);
	close_event(keeper, &event);
	/* Carried out after them. */
	assert_int_equal(open_event(keeper, &event), 0);
	assert_int_equal(count_kept(keeper, "perf_event"), 1);
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
}

static void missing_thread_is_an_error(void **state)
{
	struct perf_event_attr attr =
		fgt_perf_attr(PERF_COUNT_SW_CPU_CLOCK, PERIOD_NS, 0);
	struct fgt_perf_keeper *keeper;
	struct event event;
	int fd;

	(void)state;
	start(&keeper, &event);
	assert_int_equal(fgt_perf_keeper_open(keeper, &attr, INT32_MAX, PAGES,
					      &event.buffer, &fd),
			 -ESRCH);
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
}

/* ---- Filters (fault S19) ------------------------------------------------ */

static int start_filtered(void)
{
	struct fgt_perf_keeper *keeper;

	if (forbid() < 0)
		return SKIPPED;
	return fgt_perf_keeper_start(&keeper) != -EPERM;
}

static void keeper_does_not_start_where_calls_are_filtered(void **state)
{
	(void)state;
	check_child(start_filtered);
}

static int filter_later(void)
{
	struct fgt_perf_keeper *keeper;
	struct event event, other;

	if (fgt_perf_keeper_start(&keeper) < 0 ||
	    open_event(keeper, &event) < 0 || forbid() < 0)
		return SKIPPED;
	for (int i = 0; i < 2; i++)
		if (open_event(keeper, &other) != -EPERM)
			return 1;
	if (fgt_perf_keeper_works(keeper))
		return 2;
	close_event(keeper, &event);
	fgt_perf_keeper_end(keeper);
	return 0;
}

static void keeper_makes_no_calls_once_they_are_filtered(void **state)
{
	(void)state;
	check_child(filter_later);
}

static int ask_a_dead_keeper(void)
{
	struct fgt_perf_keeper *keeper;
	struct event event, other = { .fd = -1 };

	if (fgt_perf_keeper_start(&keeper) < 0 ||
	    open_event(keeper, &event) < 0 || end_keeper() < 0)
		return SKIPPED;
	for (int i = 0; i < 2; i++)
		if (open_event(keeper, &other) != -EBUSY)
			return 1;
	for (int i = 0; i < ORDERS_COUNT; i++)
		fgt_perf_keeper_close(keeper, &other.buffer, -1);
	if (open_event(keeper, &other) != -EBUSY)
		return 2;
	for (int i = 0; i < TRIES && fgt_perf_keeper_works(keeper); i++)
		poll(NULL, 0, 10);
	if (fgt_perf_keeper_works(keeper))
		return 3;
	close_event(keeper, &event);
/* TSan waits for ever for a thread that the kernel has ended. */
#ifndef __SANITIZE_THREAD__
	fgt_perf_keeper_end(keeper);
#endif
	return 0;
}

static void
sampler_does_not_wait_for_a_keeper_that_a_filter_has_ended(void **state)
{
	(void)state;
	check_child(ask_a_dead_keeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_sees_no_descriptor_of_an_event),
		cmocka_unit_test(
			pipe_of_the_program_ends_when_the_program_closes_it),
		cmocka_unit_test(event_has_samples_at_once),
		cmocka_unit_test(
			more_orders_than_there_is_room_for_are_carried_out),
		cmocka_unit_test(missing_thread_is_an_error),
		cmocka_unit_test(
			keeper_does_not_start_where_calls_are_filtered),
		cmocka_unit_test(keeper_makes_no_calls_once_they_are_filtered),
		cmocka_unit_test(
			sampler_does_not_wait_for_a_keeper_that_a_filter_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
