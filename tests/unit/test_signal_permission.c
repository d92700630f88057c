/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a thread, and whether it may get a signal then.
 */
#include "agent/capture/signal_permission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>

#define STATUS(state, blocked, filters)                                        \
	"Name:\tx\nState:\t" state "\nSigBlk:\t00000000" blocked               \
	"\nSeccomp:\t2\nSeccomp_filters:\t" filters "\n"

static void status_tells_who_may_be_signalled(void **state)
{
	static const char plain[] = STATUS("R (running)", "00000000", "0");
	static const char urgent[] = STATUS("R (running)", "00400000", "0");
	static const char filtered[] = STATUS("R (running)", "00000000", "2");
	static const char asleep[] = STATUS("S (sleeping)", "00000000", "0");

	(void)state;
	assert_int_equal(fgt_signal_permission_parse(plain, SIGURG, 0), 0);
	assert_int_equal(fgt_signal_permission_parse(urgent, SIGURG, 0),
			 -EACCES);
	assert_int_equal(fgt_signal_permission_parse(urgent, SIGWINCH, 0), 0);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 0),
			 -EACCES);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 1),
			 -EACCES);
	assert_int_equal(fgt_signal_permission_parse(filtered, SIGURG, 2), 0);
	assert_int_equal(fgt_signal_permission_parse("", SIGURG, 0), -EACCES);
	/* In sigwait(3) it seems to block less than it does. */
	assert_int_equal(fgt_signal_permission_parse(asleep, SIGURG, 0),
			 -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_tells_who_may_be_signalled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
