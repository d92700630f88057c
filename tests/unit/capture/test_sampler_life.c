/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler on processes that exec, fork, stop and die. Run by root,
 * everything runs a second time as an ordinary user.
 */
#include "tests/unit/capture/live_target.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool are_stacks_whole(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (is_truncated(slice, slice->runs[i].stack))
			return false;
	return true;
}

/* Cuts pieces of 100 ms until the thread is in that state all the time, with
 * whole stacks; the last one after 10 s. */
static void cut_until(struct fixture *fixture, const char *thread,
		      const char *wanted)
{
	for (int i = 0; i < 100; i++) {
		uint64_t from_ns = now_ns();

		sleep_ms(100);
		cut(fixture, from_ns);
		if (share(fixture->slice, thread, wanted) == 100 &&
		    are_stacks_whole(fixture->slice))
			break;
	}
}

static void another_program_takes_over(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, "exec", -1);
	attach(fixture);
	cut_until(fixture, "sleep", "clock_nanosleep");
	/* The first such piece may begin in the old program. */
	cut_until(fixture, "sleep", "clock_nanosleep");
	fgt_target_get_status(fixture->target, &status);
	assert_string_equal(status.name, "sleep");
	assert_non_null(strstr(status.exe, "/sleep"));
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, "sleep", "clock_nanosleep") == 100);
	assert_true(are_stacks_whole(fixture->slice));
	for (uint32_t i = 0; i < fixture->slice->image_count; i++)
		assert_null(
			strstr(fgt_slice_string(fixture->slice,
						fixture->slice->images[i].path),
			       "scenes"));
}

/* Fault U3. Where its maps were read too early: again once they are known. */
static void code_that_was_mapped_late_is_known(void **state)
{
	struct fixture *fixture = *state;

#ifndef __x86_64__
	skip(); /* the scene is of its instructions */
#endif
	start_child(fixture, "late", -1);
	attach(fixture);
	cut_until(fixture, NULL, "pause");
	assert_true(share(fixture->slice, NULL, "pause") == 100);
	assert_true(are_stacks_whole(fixture->slice));
}

static void children_of_a_target_are_not_sampled(void **state)
{
	struct fixture *fixture = *state;

	start_child(fixture, "fork", -1);
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

	start_child(fixture, "mixed", -1);
	attach(fixture);
	cut_until(fixture, "waiting", "epoll_wait");
	kill(fixture->child, SIGSTOP);
	cut_until(fixture, NULL, "stopped");
	assert_true(share(fixture->slice, NULL, "stopped") == 100);
	kill(fixture->child, SIGCONT);
	cut_until(fixture, "waiting", "epoll_wait");
	/* Other threads may have been stopped at the first tick of that. */
	cut_until(fixture, "waiting", "epoll_wait");
	assert_true(share(fixture->slice, NULL, "stopped") == 0);
	assert_true(share(fixture->slice, "waiting", "epoll_wait") == 100);
}

static void a_dead_target_keeps_its_ring(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;
	siginfo_t info;

	start_child(fixture, "busy", -1);
	attach(fixture);
	sleep_ms(300);
	kill(fixture->child, SIGKILL);
	/* No process has waited for it: a zombie is dead, too. */
	assert_int_equal(
		waitid(P_PID, (id_t)fixture->child, &info, WEXITED | WNOWAIT),
		0);
	sleep_ms(100);
	assert_false(fgt_target_is_alive(fixture->target));
	fgt_target_get_status(fixture->target, &status);
	assert_int_equal(status.threads, 0);
	assert_true(status.ended_ns > status.attached_ns);
	cut(fixture, 0);
	/* Where other programs are busy it waits for a CPU besides. */
	assert_true(share(fixture->slice, NULL, "running") +
			    share(fixture->slice, NULL, "runnable") >
		    50);
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 -ESRCH);
}

/* Its memory goes first, and with it the link to its program. */
static void what_a_dead_target_ran_is_known(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;
	siginfo_t info;

	start_child(fixture, "large", -1);
	attach(fixture);
	cut_until(fixture, NULL, "pause");
	kill(fixture->child, SIGKILL);
	assert_int_equal(
		waitid(P_PID, (id_t)fixture->child, &info, WEXITED | WNOWAIT),
		0);
	sleep_ms(100);
	assert_false(fgt_target_is_alive(fixture->target));
	fgt_target_get_status(fixture->target, &status);
	assert_non_null(strstr(status.exe, "/scenes"));
	cut(fixture, 0);
	assert_non_null(strstr(fixture->slice->process.exe, "/scenes"));
}

static void orders_are_checked(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target *again = NULL;
	struct fgt_why why = { "" };

	start_child(fixture, "pause", -1);
	attach(fixture);
	assert_int_equal(fgt_sampler_attach(fixture->sampler, fixture->child, 0,
					    &again, &why),
			 -EEXIST);
	assert_ptr_equal(again, fixture->target);
	fgt_target_put(again);
	assert_int_equal(fgt_sampler_attach(fixture->sampler, INT32_MAX, 0,
					    &again, &why),
			 -ESRCH);
	assert_int_equal(
		fgt_sampler_attach(fixture->sampler, getpid(), 0, &again, &why),
		-EPERM);
	assert_non_null(strstr(why.text, "include_self"));
	if (geteuid() != 0) {
		int rc = fgt_sampler_attach(fixture->sampler, 1, 0, &again,
					    &why);

		assert_true(rc == -EPERM || rc == -EACCES);
		assert_non_null(strstr(why.text, "CAP_SYS_PTRACE"));
	}
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 0);
	assert_int_equal(fgt_sampler_detach(fixture->sampler, fixture->target),
			 -ESRCH);
}

static int run_group(const char *user)
{
	const struct CMUnitTest tests[] = {
		LIVE(another_program_takes_over),
		LIVE(code_that_was_mapped_late_is_known),
		LIVE(children_of_a_target_are_not_sampled),
		LIVE(a_stopped_target_is_stopped_and_goes_on),
		LIVE(a_dead_target_keeps_its_ring),
		LIVE(what_a_dead_target_ran_is_known),
		LIVE(orders_are_checked),
	};

	print_message("processes, %s\n", user);
	return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}

int main(void)
{
	return run_twice(run_group);
}
