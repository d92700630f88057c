/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler on real processes: children of this program that are busy,
 * block, come, go, exec, stop and die. Run by root, everything runs a second
 * time as an ordinary user.
 */
#include "agent/capture/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/state_name.h"

#define NOBODY 65534

struct fixture {
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_target *target;
	struct fgt_slice *slice;
	pid_t child;
};

static volatile uint64_t anchor;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_sec = ms / 1000,
				  .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		continue;
}

static void burn_ms(unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ull;

	while (now_ns() < end)
		for (int i = 0; i < 10000; i++)
			anchor = anchor * 31 + (uint64_t)i;
}

static int set_up(void **state)
{
	const struct fgt_sampler_options options = {
		.ring = { .size_bytes = 8 << 20 }
	};
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	assert_int_equal(
		fgt_sampler_new(&options, fixture->cache, &fixture->sampler),
		0);
	assert_int_equal(fgt_sampler_start(fixture->sampler), 0);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	if (fixture->child > 0) {
		kill(fixture->child, SIGKILL);
		waitpid(fixture->child, NULL, 0);
	}
	fgt_slice_free(fixture->slice);
	fgt_sampler_free(fixture->sampler);
	fgt_target_put(fixture->target);
	fgt_image_cache_free(fixture->cache);
	free(fixture);
	return 0;
}

static void start_child(struct fixture *fixture, void (*act)(void))
{
	fixture->child = fork();
	assert_true(fixture->child >= 0);
	if (fixture->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 1);
		act();
		_exit(0);
	}
	sleep_ms(50);
}

static void attach(struct fixture *fixture)
{
	struct fgt_why why = { "" };
	int rc = fgt_sampler_attach(fixture->sampler, fixture->child,
				    &fixture->target, &why);

	if (rc < 0)
		print_message("%s\n", why.text);
	assert_int_equal(rc, 0);
}

static void cut(struct fixture *fixture, uint64_t from_ns)
{
	fgt_slice_free(fixture->slice);
	fixture->slice = NULL;
	assert_int_equal(fgt_ring_cut(fgt_target_ring(fixture->target), from_ns,
				      UINT64_MAX, &fixture->slice),
			 0);
	assert_int_equal(fgt_slice_name_states(fixture->slice, fgt_state_name),
			 0);
	assert_true(fgt_slice_is_valid(fixture->slice));
}

/* Share of ticks of the threads called name (any: NULL) in a state. */
static double share(const struct fgt_slice *slice, const char *name,
		    const char *state_name)
{
	unsigned int in_state = 0, all = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (name &&
		    strcmp(fgt_slice_string(slice,
					    slice->threads[run->thread].name),
			   name) != 0)
			continue;
		all += run->tick_count;
		if (strcmp(fgt_slice_state_name(slice, run->state),
			   state_name) == 0)
			in_state += run->tick_count;
	}
	return all ? in_state * 100.0 / all : 0;
}

static unsigned int count_threads(const struct fgt_slice *slice,
				  const char *name)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < slice->thread_count; i++)
		count += strcmp(fgt_slice_string(slice, slice->threads[i].name),
				name) == 0;
	return count;
}

static bool is_truncated(const struct fgt_slice *slice, uint32_t node)
{
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_frame *frame =
			&slice->frames[slice->nodes[node].frame].frame;

		if ((frame->flags & FGT_FRAME_MARKER) &&
		    frame->address >= FGT_MARKER_TRUNCATED_NO_CFI)
			return true;
	}
	return false;
}

/* ---- What the children do ---------------------------------------------- */

static void start_thread(const char *name, void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL) != 0)
		_exit(9);
	pthread_setname_np(thread, name);
}

static void *be_busy(void *argument)
{
	for (;;)
		burn_ms(1000);
	return argument;
}

static void *be_asleep(void *argument)
{
	for (;;)
		sleep_ms(3);
	return argument;
}

static void *be_waiting(void *argument)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	/* A stop and go on ends the call with EINTR. */
	for (;;)
		epoll_wait(fd, &event, 1, -1);
	return argument;
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *be_locked_out(void *argument)
{
	pthread_mutex_lock(&held);
	return argument;
}

static void act_mixed(void)
{
	pthread_mutex_lock(&held);
	start_thread("busy", be_busy);
	start_thread("asleep", be_asleep);
	start_thread("waiting", be_waiting);
	start_thread("locked", be_locked_out);
	pause();
}

static void act_pause(void)
{
	pause();
}

static void act_busy(void)
{
	be_busy(NULL);
}

static void *burn_and_end(void *argument)
{
	pthread_setname_np(pthread_self(), "mayfly");
	burn_ms(25);
	return argument;
}

static void act_churn(void)
{
	for (;;) {
		pthread_t thread;

		pthread_create(&thread, NULL, burn_and_end, NULL);
		pthread_join(thread, NULL);
	}
}

static void act_exec(void)
{
	sleep_ms(300);
	execlp("sleep", "sleep", "30", (char *)NULL);
}

static void act_fork(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "offspring");
		be_busy(NULL);
	}
	pause();
}

static void act_end_first_thread(void)
{
	start_thread("survivor", be_asleep);
	pthread_exit(NULL);
}

/* ---- The tests --------------------------------------------------------- */

static void busy_and_blocked_threads_are_told_apart(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_slice *slice;
	unsigned int truncated = 0;
	uint64_t from_ns;

	start_child(fixture, act_mixed);
	attach(fixture);
	from_ns = now_ns() + 200000000u;
	sleep_ms(1100);
	cut(fixture, from_ns);
	slice = fixture->slice;
	assert_int_equal(slice->thread_count, 5);
	assert_true(share(slice, "busy", "running") > 90);
	assert_true(share(slice, "asleep", "clock_nanosleep") +
			    share(slice, "asleep", "running") >
		    99);
	assert_true(share(slice, "asleep", "clock_nanosleep") > 60);
	assert_true(share(slice, "waiting", "epoll_wait") == 100);
	assert_true(share(slice, "locked", "futex") == 100);
	assert_true(share(slice, "test_sampler", "pause") == 100);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		assert_int_not_equal(slice->runs[i].stack, FGT_NODE_NONE);
		truncated += is_truncated(slice, slice->runs[i].stack);
	}
	assert_true(truncated * 100 <= slice->run_count);
}

static void threads_that_never_used_a_cpu_are_seen(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, act_pause);
	attach(fixture);
	sleep_ms(300);
	cut(fixture, 0);
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, NULL, "pause") > 90);
	fgt_target_get_status(fixture->target, &status);
	assert_true(status.is_alive);
	assert_int_equal(status.threads, 1);
	/* Read once; then its run simply went on. */
	assert_in_range(status.samples_blocked, 1, 4);
}

static void short_lived_threads_leave_the_table(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, act_churn);
	attach(fixture);
	sleep_ms(900);
	cut(fixture, 0);
	fgt_target_get_status(fixture->target, &status);
	assert_in_range(status.threads, 1, 4);
	assert_true(count_threads(fixture->slice, "mayfly") > 8);
	assert_true(share(fixture->slice, "mayfly", "running") > 20);
}

static void another_program_takes_over(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;
	uint64_t from_ns;

	start_child(fixture, act_exec);
	attach(fixture);
	sleep_ms(650);
	from_ns = now_ns();
	sleep_ms(300);
	cut(fixture, from_ns);
	fgt_target_get_status(fixture->target, &status);
	assert_string_equal(status.name, "sleep");
	assert_non_null(strstr(status.exe, "/sleep"));
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, "sleep", "clock_nanosleep") == 100);
	for (uint32_t i = 0; i < fixture->slice->run_count; i++)
		assert_false(is_truncated(fixture->slice,
					  fixture->slice->runs[i].stack));
	for (uint32_t i = 0; i < fixture->slice->image_count; i++)
		assert_null(
			strstr(fgt_slice_string(fixture->slice,
						fixture->slice->images[i].path),
			       "test_sampler"));
}

static void children_of_a_target_are_not_sampled(void **state)
{
	struct fixture *fixture = *state;

	start_child(fixture, act_fork);
	attach(fixture);
	sleep_ms(400);
	cut(fixture, 0);
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, NULL, "running") < 5);
	assert_int_equal(count_threads(fixture->slice, "offspring"), 0);
}

static void a_stopped_target_is_stopped_and_goes_on(void **state)
{
	struct fixture *fixture = *state;
	uint64_t from_ns;

	start_child(fixture, act_mixed);
	attach(fixture);
	sleep_ms(200);
	kill(fixture->child, SIGSTOP);
	sleep_ms(200);
	from_ns = now_ns();
	sleep_ms(300);
	cut(fixture, from_ns);
	assert_true(share(fixture->slice, NULL, "stopped") == 100);
	kill(fixture->child, SIGCONT);
	sleep_ms(200);
	from_ns = now_ns();
	sleep_ms(300);
	cut(fixture, from_ns);
	assert_true(share(fixture->slice, NULL, "stopped") == 0);
	assert_true(share(fixture->slice, "waiting", "epoll_wait") == 100);
}

static void a_dead_target_keeps_its_ring(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;
	siginfo_t info;

	start_child(fixture, act_busy);
	attach(fixture);
	sleep_ms(300);
	kill(fixture->child, SIGKILL);
	/* Nobody has waited for it: a zombie is dead, too. */
	assert_int_equal(
		waitid(P_PID, (id_t)fixture->child, &info, WEXITED | WNOWAIT),
		0);
	sleep_ms(100);
	assert_false(fgt_target_is_alive(fixture->target));
	fgt_target_get_status(fixture->target, &status);
	assert_int_equal(status.threads, 0);
	assert_true(status.ended_ns > status.attached_ns);
	cut(fixture, 0);
	assert_true(share(fixture->slice, NULL, "running") > 50);
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 -ESRCH);
}

static void the_first_thread_may_end_before_the_others(void **state)
{
	struct fixture *fixture = *state;
	uint64_t from_ns;

	start_child(fixture, act_end_first_thread);
	attach(fixture);
	from_ns = now_ns() + 50000000u;
	sleep_ms(400);
	cut(fixture, from_ns);
	assert_true(fgt_target_is_alive(fixture->target));
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, "survivor", "clock_nanosleep") > 60);
}

static void orders_are_checked(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target *again = NULL;
	struct fgt_why why = { "" };

	start_child(fixture, act_pause);
	attach(fixture);
	assert_int_equal(fgt_sampler_attach(fixture->sampler, fixture->child,
					    &again, &why),
			 -EEXIST);
	assert_ptr_equal(again, fixture->target);
	fgt_target_put(again);
	assert_int_equal(
		fgt_sampler_attach(fixture->sampler, INT32_MAX, &again, &why),
		-ESRCH);
	assert_int_equal(
		fgt_sampler_attach(fixture->sampler, getpid(), &again, &why),
		-EPERM);
	assert_non_null(strstr(why.text, "include_self"));
	if (geteuid() != 0) {
		int rc = fgt_sampler_attach(fixture->sampler, 1, &again, &why);

		assert_true(rc == -EPERM || rc == -EACCES);
		assert_non_null(strstr(why.text, "CAP_SYS_PTRACE"));
	}
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 0);
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 -ESRCH);
}

static void the_rate_can_be_changed(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status before, after;

	start_child(fixture, act_busy);
	attach(fixture);
	fgt_sampler_set_hz(fixture->sampler, 500);
	sleep_ms(200);
	fgt_target_get_status(fixture->target, &before);
	sleep_ms(600);
	fgt_target_get_status(fixture->target, &after);
	assert_in_range(after.ticks + after.missed_ticks - before.ticks -
				before.missed_ticks,
			240, 400);
	assert_true(after.samples_running > before.samples_running);
}

/* ---- Calls last as long as asked --------------------------------------- */

static unsigned int *failures; /* shared with the child */

static void *wait_and_measure(void *argument)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (;;) {
		struct timespec pause = { .tv_nsec = 12000000 };
		uint64_t begin = now_ns();

		if (epoll_wait(fd, &event, 1, 25) != 0 ||
		    now_ns() - begin < 24900000)
			__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
		begin = now_ns();
		if (nanosleep(&pause, NULL) != 0 || now_ns() - begin < 12000000)
			__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
		burn_ms(4);
		__atomic_fetch_add(failures + 1, 1, __ATOMIC_RELAXED);
	}
	return argument;
}

static void act_measure(void)
{
	for (int i = 0; i < 4; i++)
		start_thread("measure", wait_and_measure);
	pause();
}

static void blocking_calls_last_as_long_as_asked(void **state)
{
	struct fixture *fixture = *state;

	__atomic_store_n(failures, 0, __ATOMIC_RELAXED);
	__atomic_store_n(failures + 1, 0, __ATOMIC_RELAXED);
	start_child(fixture, act_measure);
	attach(fixture);
	sleep_ms(1100);
	assert_int_equal(__atomic_load_n(failures, __ATOMIC_RELAXED), 0);
	assert_true(__atomic_load_n(failures + 1, __ATOMIC_RELAXED) > 20);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int run_all(const char *name)
{
	const struct CMUnitTest tests[] = {
		LIVE(busy_and_blocked_threads_are_told_apart),
		LIVE(threads_that_never_used_a_cpu_are_seen),
		LIVE(short_lived_threads_leave_the_table),
		LIVE(another_program_takes_over),
		LIVE(children_of_a_target_are_not_sampled),
		LIVE(a_stopped_target_is_stopped_and_goes_on),
		LIVE(a_dead_target_keeps_its_ring),
		LIVE(the_first_thread_may_end_before_the_others),
		LIVE(orders_are_checked),
		LIVE(the_rate_can_be_changed),
		LIVE(blocking_calls_last_as_long_as_asked),
	};

	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

/* The same once more without privileges, in a process of its own. */
static int run_as_nobody(void)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 ||
		    setuid(NOBODY) < 0)
			_exit(8);
		prctl(PR_SET_DUMPABLE, 1);
		_exit(run_all("sampler, as an ordinary user"));
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
	int failed;

	failures = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (failures == MAP_FAILED)
		return 1;
	fflush(stdout);
	failed = run_all("sampler");
	if (geteuid() == 0)
		failed += run_as_nobody();
	return failed;
}
