/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping running threads: they always go on, whatever signals come.
 */
#include "agent/capture/running/running.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "ringbuf/slice/frame.h"

static uint64_t *shared; /* rounds done, signals received; waits, EINTRs */

static void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_nsec = ms * 1000000 };

	nanosleep(&pause, NULL);
}

static void count_signal(int number)
{
	(void)number;
	__atomic_fetch_add(&shared[1], 1, __ATOMIC_RELAXED);
}

static uint64_t count_rounds(void)
{
	return __atomic_load_n(&shared[0], __ATOMIC_RELAXED);
}

/* Returns once the child counts rounds: a stop that came earlier would leave
 * an orphan without PR_SET_PDEATHSIG. */
static pid_t start_busy(unsigned int alarm_us)
{
	uint64_t rounds = count_rounds();
	pid_t child = fork();

	assert_true(child >= 0);
	if (child > 0) {
		for (int i = 0; i < 10000; i++) {
			if (count_rounds() != rounds)
				return child;
			sleep_ms(1);
		}
		kill(child, SIGKILL);
		fail_msg("the child did not run within 10 s");
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (alarm_us) {
		struct itimerval timer = { .it_interval = { 0, alarm_us },
					   .it_value = { 0, alarm_us } };

		signal(SIGALRM, count_signal);
		setitimer(ITIMER_REAL, &timer, NULL);
	}
	for (;;)
		__atomic_fetch_add(&shared[0], 1, __ATOMIC_RELAXED);
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static char state_letter(pid_t pid)
{
	struct fgt_stat stat;

	if (fgt_stat_read(AT_FDCWD, "/proc/", pid, &stat) < 0)
		return 0;
	return stat.state;
}

static void wait_for_state(pid_t pid, char letter)
{
	for (int i = 0; i < 10000 && state_letter(pid) != letter; i++)
		sleep_ms(1);
	assert_int_equal(state_letter(pid), letter);
}

static void take_regs(void *context, const struct fgt_regs *regs)
{
	*(struct fgt_regs *)context = *regs;
}

static void *open_source(void)
{
	void *source = NULL;

	assert_int_equal(fgt_running_ptrace.open(NULL, 0, &source, NULL), 0);
	return source;
}

static void a_running_thread_shows_its_registers_and_goes_on(void **state)
{
	FGT_AUTO(free) void *ptrace = open_source();
	struct fgt_regs regs = { .valid = 0 };
	pid_t child = start_busy(0);
	uint64_t before, pc = 0;
	unsigned int read = 0;

	(void)state;
	for (int i = 0; i < 50; i++) {
		if (fgt_running_ptrace.request(ptrace, child, take_regs,
					       &regs) == 0)
			read++;
		sleep_ms(2);
		fgt_running_ptrace.poll(ptrace);
	}
	assert_true(read > 0);
	assert_false(fgt_running_ptrace.is_holding(ptrace));
	assert_true(fgt_regs_get(&regs, fgt_arch_host.pc, &pc));
	assert_true(pc != 0);
	before = count_rounds();
	for (int i = 0; i < 10000 && count_rounds() == before; i++)
		sleep_ms(1);
	assert_true(count_rounds() > before);
	assert_int_equal(state_letter(child), 'R');
	end(child);
}

/* Fault X2a. */
static void signals_pass_while_a_thread_is_stopped_again_and_again(void **state)
{
	FGT_AUTO(free) void *ptrace = open_source();
	struct fgt_regs regs;
	pid_t child;
	uint64_t rounds;

	(void)state;
	__atomic_store_n(&shared[1], 0, __ATOMIC_RELAXED);
	child = start_busy(500);
	rounds = count_rounds();
	for (int i = 0; i < 300; i++) {
		fgt_running_ptrace.request(ptrace, child, take_regs, &regs);
		sleep_ms(1);
		fgt_running_ptrace.poll(ptrace);
	}
	for (int i = 0; i < 100 && fgt_running_ptrace.is_holding(ptrace); i++) {
		sleep_ms(1);
		fgt_running_ptrace.poll(ptrace);
	}
	assert_false(fgt_running_ptrace.is_holding(ptrace));
	/* Neither signals nor work stood still. */
	assert_true(__atomic_load_n(&shared[1], __ATOMIC_RELAXED) > 100);
	assert_true(count_rounds() > rounds);
	end(child);
}

static void a_stopped_process_stays_stopped(void **state)
{
	FGT_AUTO(free) void *ptrace = open_source();
	struct fgt_regs regs;
	pid_t child = start_busy(0);

	(void)state;
	kill(child, SIGSTOP);
	wait_for_state(child, 'T');
	fgt_running_ptrace.request(ptrace, child, take_regs, &regs);
	for (int i = 0; i < 20 && fgt_running_ptrace.is_holding(ptrace); i++) {
		sleep_ms(1);
		fgt_running_ptrace.poll(ptrace);
	}
	assert_false(fgt_running_ptrace.is_holding(ptrace));
	sleep_ms(20);
	assert_int_equal(state_letter(child), 'T');
	kill(child, SIGCONT);
	wait_for_state(child, 'R');
	end(child);
}

/* Fault X2. */
static void a_thread_that_dies_is_waited_for_by_its_own_parent(void **state)
{
	FGT_AUTO(free) void *ptrace = open_source();
	struct fgt_regs regs;
	int status;

	(void)state;
	for (int i = 0; i < 40; i++) {
		pid_t child = start_busy(0);
		pid_t killer = fork();

		if (killer == 0) {
			kill(child, SIGKILL);
			_exit(0);
		}
		fgt_running_ptrace.request(ptrace, child, take_regs, &regs);
		sleep_ms(2);
		fgt_running_ptrace.poll(ptrace);
		do {
			assert_int_equal(waitpid(child, &status, 0), child);
		} while (WIFSTOPPED(status));
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		waitpid(killer, NULL, 0);
		fgt_running_ptrace.poll(ptrace);
		assert_false(fgt_running_ptrace.is_holding(ptrace));
	}
}

static void request_fails_without_such_a_thread(void **state)
{
	FGT_AUTO(free) void *ptrace = open_source();

	(void)state;
	assert_int_equal(
		fgt_running_ptrace.request(ptrace, INT32_MAX, take_regs, NULL),
		-ESRCH);
	assert_false(fgt_running_ptrace.is_holding(ptrace));
}

static void only_calls_that_restart_are_safe(void **state)
{
	static const uint32_t safe[] = { SYS_futex, SYS_clock_nanosleep,
					 SYS_waitid };
	/* On a socket with a time-out, a read is as a recv. */
	static const uint32_t unsafe[] = { SYS_epoll_pwait, SYS_recvfrom,
					   SYS_semtimedop,  SYS_rt_sigtimedwait,
					   SYS_read,	    SYS_readv,
					   SYS_write,	    SYS_writev,
					   SYS_pread64,	    SYS_pwrite64,
					   SYS_accept,	    SYS_accept4,
					   SYS_openat,	    SYS_io_getevents };

	(void)state;
	assert_true(fgt_ptrace_is_safe_call(FGT_STATE_PAGE_FAULT));
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		assert_true(fgt_ptrace_is_safe_call(FGT_STATE_SYSCALL_FIRST +
						    safe[i]));
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		assert_false(fgt_ptrace_is_safe_call(FGT_STATE_SYSCALL_FIRST +
						     unsafe[i]));
}

#if defined(__x86_64__)

static int wait_for_events(void)
{
	static int fd = -1;
	struct epoll_event event;

	if (fd < 0)
		fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_wait(fd, &event, 1, 20);
}

static int wait_for_bytes(void)
{
	static int fds[2] = { -1, -1 };
	struct timeval timeout = { .tv_usec = 20000 };
	char byte;

	if (fds[0] < 0) {
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
		setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
			   sizeof(timeout));
	}
	return (int)read(fds[0], &byte, 1);
}

static int wait_for_signal(void)
{
	struct timespec timeout = { .tv_nsec = 20000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &timeout);
}

/* Its rounds, and how often a call returned EINTR. */
static pid_t start_waiting(int (*wait)(void), unsigned int alarm_us)
{
	const struct sigaction action = { .sa_handler = count_signal };
	pid_t child;

	shared[2] = shared[3] = 0;
	child = fork();
	assert_true(child >= 0);
	if (child > 0) {
		wait_for_state(child, 'S');
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (alarm_us) {
		struct itimerval timer = { .it_interval = { 0, alarm_us },
					   .it_value = { 0, alarm_us } };

		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &timer, NULL);
	}
	for (;;) {
		if (wait() < 0 && errno == EINTR)
			__atomic_fetch_add(&shared[3], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&shared[2], 1, __ATOMIC_RELAXED);
	}
}

static void stop_again_and_again(pid_t child)
{
	FGT_AUTO(free) void *ptrace = open_source();
	struct fgt_regs regs;

	for (int i = 0; i < 150; i++) {
		fgt_running_ptrace.request(ptrace, child, take_regs, &regs);
		sleep_ms(1);
		fgt_running_ptrace.poll(ptrace);
	}
	/* A call that always restarts would never end. */
	sleep_ms(60);
	end(child);
}

static void a_call_that_a_stop_breaks_is_restarted(void **state)
{
	static int (*const waits[])(void) = { wait_for_events, wait_for_bytes,
					      wait_for_signal };

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		stop_again_and_again(start_waiting(waits[i], 0));
		assert_int_equal(shared[3], 0);
		assert_true(shared[2] > 0);
	}
}

static void what_a_signal_breaks_stays_broken(void **state)
{
	(void)state;
	stop_again_and_again(start_waiting(wait_for_events, 7000));
	/* Waits of 20 ms hear an alarm, stops or not; all but those during
	 * which others had the CPU. */
	assert_true(shared[3] > 5);
	assert_true((shared[2] - shared[3]) * 4 <= shared[2]);
}

static void a_close_is_never_repeated(void **state)
{
	struct user_regs_struct user = { .rax = (unsigned long long)-EINTR,
					 .orig_rax = SYS_close };

	(void)state;
	assert_false(fgt_ptrace_prepare_restart(&user));
	user.orig_rax = SYS_epoll_wait;
	user.rax = 0;
	assert_false(fgt_ptrace_prepare_restart(&user));
	assert_int_equal(user.rax, 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_running_thread_shows_its_registers_and_goes_on),
		cmocka_unit_test(
			signals_pass_while_a_thread_is_stopped_again_and_again),
		cmocka_unit_test(a_stopped_process_stays_stopped),
		cmocka_unit_test(
			a_thread_that_dies_is_waited_for_by_its_own_parent),
		cmocka_unit_test(request_fails_without_such_a_thread),
		cmocka_unit_test(only_calls_that_restart_are_safe),
#if defined(__x86_64__)
		cmocka_unit_test(a_call_that_a_stop_breaks_is_restarted),
		cmocka_unit_test(what_a_signal_breaks_stays_broken),
		cmocka_unit_test(a_close_is_never_repeated),
#endif
	};

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
