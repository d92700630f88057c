/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of waits for events, by calls on memory that the test makes up. */
#include "agent/capture/waits/waits.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define ADDRESS(object) ((uint64_t)(uintptr_t) & (object))

/* The first page is in no process. */
static bool read_own(void *context, uint64_t address, void *buffer, size_t len)
{
	(void)context;
	if (address < 4096)
		return false;
	memcpy(buffer, (const void *)(uintptr_t)address, len);
	return true;
}

/* As the kernel lists an epoll descriptor. */
static int list_epoll(void *context, int32_t descriptor, char *text,
		      size_t size)
{
	(void)context;
	if (descriptor != 9)
		return -ENOENT;
	return snprintf(
		text, size,
		"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n"
		"tfd:       12 events:       19 data:                5\n"
		"tfd:        5 events:       19 data:                5\n"
		"tfd:        7 ev");
}

static bool describe_kinds(void *context, int32_t descriptor, char *text,
			   size_t size)
{
	static const char *const links[] = {
		[3] = "pipe:[77]",
		[4] = "socket:[78]",
		[5] = "anon_inode:[timerfd]",
		[6] = "anon_inode:inotify",
		[7] = "/var/lib/a.log",
		[8] = "/dev/pts/3",
		[9] = "tcp to [::1]:80",
	};

	(void)context;
	if (descriptor > 9 && descriptor < 100)
		return false;
	snprintf(text, size, "%s",
		 descriptor >= 100
			 ? "/a name that is longer than most of them, "
			   "and has many more letters"
			 : links[descriptor]);
	return true;
}

static struct fgt_wait decode_lasting(int32_t call, uint64_t a, uint64_t b,
				      uint64_t c, uint64_t d)
{
	const uint64_t args[6] = { a, b, c, d };
	const struct fgt_wait_source source = { .read = read_own,
						.describe = describe_kinds,
						.names_polled = true,
						.list_epoll = list_epoll };
	struct fgt_wait wait;

	fgt_wait_decode(call, args, &source, &wait);
	return wait;
}

static void descriptors_of_lasting_polls_are_named(void **state)
{
	struct pollfd polled[70] = { { .fd = 8 }, { .fd = -1 }, { .fd = 4 } };
	struct pollfd connected = { .fd = 9 };
	uint64_t reads[16] = { 1 << 3 | 1 << 5 }, writes[16] = { 1 << 6 };
	struct fgt_wait wait;

	(void)state;
	wait = decode_lasting(SYS_ppoll, ADDRESS(polled), 3, 0, 0);
	assert_string_equal(wait.text,
			    "descriptors 4 (socket:[78]), 8 (/dev/pts/3)");
	wait = decode_lasting(SYS_pselect6, 7, ADDRESS(reads), ADDRESS(writes),
			      0);
	assert_string_equal(wait.text, "descriptors 3 (pipe), 5 (timerfd), "
				       "6 (inotify)");
	wait = decode_lasting(SYS_ppoll, (uint64_t)&connected, 1, 0, 0);
	assert_string_equal(wait.text, "descriptor 9 (tcp to [::1]:80)");
	/* Bits that the call does not look at. */
	wait = decode_lasting(SYS_pselect6, 5, ADDRESS(reads), 0, 0);
	assert_string_equal(wait.text, "descriptor 3 (pipe)");
	wait = decode_lasting(SYS_epoll_pwait, 9, 0, 0, 0);
	assert_string_equal(wait.text,
			    "epoll 9 of descriptors 5 (timerfd), 12");
	assert_int_equal(wait.number, 9);
	assert_string_equal(decode_lasting(SYS_epoll_pwait, 8, 0, 0, 0).text,
			    "");
	assert_string_equal(decode_lasting(SYS_ppoll, 1, 3, 0, 0).text, "");
}

/* Whole entries, and how many are left. */
static void long_lists_of_polls_are_cut(void **state)
{
	struct pollfd polled[70];
	struct fgt_wait wait;

	(void)state;
	for (int i = 0; i < 70; i++)
		polled[i] = (struct pollfd){ .fd = 12 + i };
	wait = decode_lasting(SYS_ppoll, ADDRESS(polled), 70, 0, 0);
	assert_string_equal(wait.text, "descriptors 12, 13, 14, 15, 16, 17, 18,"
				       " 19 and 62 more");
	for (int i = 0; i < 70; i++)
		polled[i] = (struct pollfd){ .fd = 100 + i };
	wait = decode_lasting(SYS_ppoll, ADDRESS(polled), 8, 0, 0);
	assert_non_null(strstr(wait.text,
			       "102 (a name that is longer than most of "
			       "them, and has) and 5 more"));
	wait = decode_lasting(SYS_ppoll, ADDRESS(polled), (uint64_t)-1, 0, 0);
	assert_non_null(strstr(wait.text, " and 61 more"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_of_lasting_polls_are_named),
		cmocka_unit_test(long_lists_of_polls_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
