/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of states. Compares the tables with this machine's headers.
 */
#include "agent/capture/look/state_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/syscall.h>

#include "ringbuf/slice/frame.h"

#if defined(__x86_64__)
#define HOST "x86_64"
#else
#define HOST "aarch64"
#endif

static const char *call(const char *arch, int number)
{
	return fgt_state_name(arch, FGT_STATE_SYSCALL_FIRST + (uint32_t)number);
}

static void special_states_have_names_on_every_architecture(void **state)
{
	(void)state;
	assert_string_equal(fgt_state_name("x86_64", 0), "running");
	assert_string_equal(fgt_state_name("aarch64", 1), "page_fault");
	assert_string_equal(fgt_state_name("riscv64", 2), "stopped");
	assert_string_equal(fgt_state_name("x86_64", 3), "unknown");
	assert_string_equal(fgt_state_name("aarch64", 4), "runnable");
	assert_string_equal(fgt_state_name("x86_64", FGT_STATE_GONE),
			    "unknown");
}

static void calls_have_the_names_of_their_own_architecture(void **state)
{
	(void)state;
	assert_string_equal(call("x86_64", 0), "read");
	assert_string_equal(call("x86_64", 202), "futex");
	assert_string_equal(call("x86_64", 232), "epoll_wait");
	assert_string_equal(call("x86_64", 35), "nanosleep");
	assert_string_equal(call("aarch64", 63), "read");
	assert_string_equal(call("aarch64", 98), "futex");
	assert_string_equal(call("aarch64", 22), "epoll_pwait");
	assert_string_equal(call("aarch64", 101), "nanosleep");
	assert_string_equal(call("aarch64", 25), "fcntl");
	assert_string_equal(call("aarch64", 455), "futex_wait");
}

static void unknown_numbers_and_architectures_are_a_system_call(void **state)
{
	(void)state;
	assert_string_equal(call("x86_64", 400), "syscall");
	assert_string_equal(call("x86_64", 900), "syscall");
	assert_string_equal(call("aarch64", 244), "syscall");
	assert_string_equal(call("sparc", 1), "syscall");
}

static void the_table_of_this_machine_agrees_with_its_headers(void **state)
{
	(void)state;
#define SAME(name) assert_string_equal(call(HOST, SYS_##name), #name)
	SAME(read);
	SAME(ppoll);
	SAME(pselect6);
	SAME(clock_nanosleep);
	SAME(restart_syscall);
	SAME(rt_sigtimedwait);
	SAME(semtimedop);
	SAME(recvfrom);
	SAME(accept4);
	SAME(wait4);
	SAME(waitid);
	SAME(io_uring_enter);
	SAME(futex_waitv);
	SAME(epoll_pwait2);
#undef SAME
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			special_states_have_names_on_every_architecture),
		cmocka_unit_test(
			calls_have_the_names_of_their_own_architecture),
		cmocka_unit_test(
			unknown_numbers_and_architectures_are_a_system_call),
		cmocka_unit_test(
			the_table_of_this_machine_agrees_with_its_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
