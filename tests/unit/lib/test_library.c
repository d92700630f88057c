/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library with an agent that behaves well: start, stop, slices, status,
 * fork, descriptors and threads that are left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "ringbuf/base/owner.h"
#include "tests/unit/lib/asleep.h"
#include "tests/unit/lib/library_kit.h"

#define MS UINT64_C(1000000)

static size_t count_entries(const char *path)
{
	DIR *directory = opendir(path);
	size_t count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* Memfds of the library. */
static unsigned int count_memfds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		char path[32], target[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0)
			count += strstr(target, "memfd:fgtrace") != NULL;
	}
	return count;
}

static bool has_until(bool (*is_so)(void *), void *context)
{
	for (int i = 0; i < 500; i++) {
		if (is_so(context))
			return true;
		usleep(10000);
	}
	return false;
}

static void start_registers_and_stop_unregisters(void **state)
{
	struct fake_agent *agent = *state;
	struct fgt_status status;

	assert_int_equal(library_start(agent), 0);
	assert_int_equal(agent->registers, 1);
	status = library_status();
	assert_int_equal(status.mode, FGT_AGENT);
	assert_true(status.is_recording);
	assert_true(status.hz == 101);
	assert_string_equal(status.limitation, "none of note");
	fgt_stop();
	for (int i = 0; i < 100 && agent->byes == 0; i++)
		usleep(10000);
	assert_int_equal(agent->byes, 1);
	status = library_status();
	assert_int_equal(status.mode, FGT_AUTO);
	assert_false(status.is_recording);
}

static void second_start_fails_and_changes_nothing(void **state)
{
	struct fake_agent *agent = *state;

	assert_int_equal(library_start(agent), 0);
	assert_int_equal(fgt_start(NULL), -EALREADY);
	assert_int_equal(agent->registers, 1);
	assert_true(library_status().is_recording);
}

static void stop_is_harmless_at_any_time(void **state)
{
	fgt_stop();
	fgt_stop();
	assert_int_equal(library_start(*state), 0);
	fgt_stop();
	fgt_stop();
	assert_int_equal(library_start(*state), 0);
}

static void slice_is_what_the_agent_sent(void **state)
{
	struct fgt_slice_info info = { .size = sizeof(info) };
	struct fgt_slice *slice = NULL;
	char bytes[16];
	int ends[2];

	assert_int_equal(library_start(*state), 0);
	assert_int_equal(fgt_get_slice(1, fgt_now(), &slice), 0);
	assert_int_equal(fgt_slice_get_info(slice, &info), 0);
	assert_int_equal(info.from_ns, 100);
	assert_int_equal(info.to_ns, 200);
	assert_int_equal(info.ticks, 11);
	assert_int_equal(info.threads, 3);
	assert_int_equal(info.caller_tid, gettid());
	assert_int_equal(info.bytes, FAKE_SLICE_LEN);
	assert_int_equal(library_status().slices, 1);
	fgt_stop(); /* the slice stays usable */
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fgt_slice_write(slice, FGT_FORMAT_FGT, ends[1]), 0);
	assert_int_equal(read(ends[0], bytes, sizeof(bytes)), FAKE_SLICE_LEN);
	assert_memory_equal(bytes, FAKE_SLICE, FAKE_SLICE_LEN);
	close(ends[0]);
	close(ends[1]);
	fgt_slice_free(slice);
	fgt_slice_free(NULL);
}

static void write_returns_errors(void **state)
{
	struct fgt_slice *slice = NULL;

	assert_int_equal(library_start(*state), 0);
	assert_int_equal(fgt_get_slice(1, fgt_now(), &slice), 0);
	assert_int_equal(fgt_slice_write(slice, (enum fgt_format)99, 1),
			 -EINVAL);
	assert_int_equal(fgt_slice_write(slice, FGT_FORMAT_FGT, -1), -EBADF);
	assert_int_equal(fgt_slice_write(NULL, FGT_FORMAT_FGT, 1), -EINVAL);
	fgt_slice_free(slice);
}

static void write_to_a_pipe_without_reader_raises_no_signal(void **state)
{
	struct fgt_slice *slice = NULL;
	sigset_t pipe_only, before, pending;
	int ends[2];

	assert_int_equal(library_start(*state), 0);
	assert_int_equal(fgt_get_slice(1, fgt_now(), &slice), 0);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	assert_int_equal(fgt_slice_write(slice, FGT_FORMAT_FGT, ends[1]),
			 -EPIPE);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	assert_false(sigismember(&before, SIGPIPE));
	raise(SIGPIPE);
	assert_int_equal(fgt_slice_write(slice, FGT_FORMAT_FGT, ends[1]),
			 -EPIPE);
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGPIPE));
	assert_int_equal(sigwaitinfo(&pipe_only, NULL), SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	fgt_slice_free(slice);
}

static void get_slice_needs_a_start_and_a_range(void **state)
{
	struct fgt_slice *slice = NULL;
	uint64_t now_ns = fgt_now();

	assert_int_equal(fgt_get_slice(1, 2, &slice), -ENOTCONN);
	assert_int_equal(library_start(*state), 0);
	assert_int_equal(fgt_get_slice(2, 1, &slice), -EINVAL);
	assert_int_equal(fgt_get_slice(1, 2, NULL), -EINVAL);
	assert_int_equal(fgt_get_slice(1, now_ns + 3700000 * MS, &slice),
			 -EINVAL);
	fgt_stop();
	assert_int_equal(fgt_get_slice(1, 2, &slice), -ENOTCONN);
	assert_null(slice);
}

static void get_slice_waits_for_an_end_that_lies_ahead(void **state)
{
	struct fgt_slice *slice = NULL;
	uint64_t end_ns;

	assert_int_equal(library_start(*state), 0);
	end_ns = fgt_now() + 150 * MS;
	assert_int_equal(fgt_get_slice(1, end_ns, &slice), 0);
	assert_true(fgt_now() >= end_ns);
	fgt_slice_free(slice);
}

struct call {
	uint64_t to_ns;
	int result;
	atomic_int tid;
};

static void *take_slice(void *context)
{
	struct call *call = context;
	struct fgt_slice *slice = NULL;

	call->tid = gettid();
	call->result = fgt_get_slice(1, call->to_ns, &slice);
	fgt_slice_free(slice);
	return NULL;
}

static void stop_ends_calls_that_wait_and_cut(void **state)
{
	struct fake_agent *agent = *state;
	struct call waits = { .to_ns = fgt_now() + 3000000 * MS };
	struct call cuts = { .to_ns = fgt_now() };
	pthread_t threads[2];

	assert_int_equal(library_start(agent), 0);
	agent->behaviour = FAKE_SLICE_SILENT;
	pthread_create(&threads[0], NULL, take_slice, &waits);
	pthread_create(&threads[1], NULL, take_slice, &cuts);
	for (int i = 0; i < 100 && agent->slices == 0; i++)
		usleep(10000);
	wait_until_asleep(&waits.tid);
	fgt_stop();
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert_int_equal(waits.result, -ESHUTDOWN);
	assert_int_equal(cuts.result, -ESHUTDOWN);
}

static void *start_and_stop(void *context)
{
	for (int i = 0; i < 20; i++) {
		(void)library_start(context);
		fgt_stop();
	}
	return NULL;
}

static void all_calls_work_in_many_threads_at_once(void **state)
{
	struct fake_agent *agent = *state;
	pthread_t threads[8];
	struct call calls[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, start_and_stop, agent);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 4; i++) {
			calls[i].to_ns = fgt_now();
			pthread_create(&threads[4 + i], NULL, take_slice,
				       &calls[i]);
		}
		(void)library_status();
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[4 + i], NULL);
			assert_true(calls[i].result == 0 ||
				    calls[i].result == -ENOTCONN ||
				    calls[i].result == -ESHUTDOWN);
		}
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	fgt_stop();
	assert_int_equal(library_start(agent), 0);
}

static void stop_leaves_no_thread_and_no_descriptor(void **state)
{
	struct fake_agent *agent = *state;
	struct fgt_options wrong = { .size = sizeof(wrong),
				     .mode = FGT_EMBEDDED,
				     .hz = 5000 };
	size_t tasks, fds;

	fake_agent_kill(agent);
	tasks = count_entries("/proc/self/task");
	fds = count_entries("/proc/self/fd");
	fake_agent_start(agent);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(library_start(agent), 0);
		assert_int_equal(fgt_start(&wrong), -EALREADY);
		assert_int_equal(count_memfds(), 1); /* the span log */
		fgt_stop();
		assert_int_equal(count_memfds(), 0);
	}
	fake_agent_kill(agent);
	assert_int_equal(fgt_start(&wrong), -EINVAL);
	assert_int_equal(count_entries("/proc/self/task"), tasks);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
}

static void descriptors_are_closed_on_exec(void **state)
{
	bool was_open[1024];
	int opened = 0;

	for (int fd = 0; fd < 1024; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
	assert_int_equal(library_start(*state), 0);
	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || was_open[fd])
			continue;
		assert_true(flags & FD_CLOEXEC);
		opened++;
	}
	assert_true(opened > 0);
}

/* 0, or the number of the check that failed. */
static int check_child(const struct fake_agent *agent)
{
	struct fgt_slice *slice = NULL;
	struct fgt_status status = { .size = sizeof(status) };

	if (fgt_get_slice(1, 2, &slice) != -ECHILD)
		return 1;
	if (fgt_flush(10) != -ECHILD)
		return 2;
	if (fgt_get_status(&status) != 0 || status.is_recording)
		return 3;
	fgt_stop(); /* does not stop the parent */
	if (library_start(agent) != 0)
		return 4;
	if (fgt_get_slice(1, 2, &slice) != 0)
		return 5;
	fgt_slice_free(slice);
	fgt_stop();
	return 0;
}

static void child_of_a_fork_can_start_again(void **state)
{
	struct fake_agent *agent = *state;
	struct fgt_slice *slice = NULL;
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	skip(); /* TSan ends a child that starts a thread */
#endif
	assert_int_equal(library_start(agent), 0);
	pid = fork();
	if (pid == 0)
		_exit(check_child(agent));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(agent->registers, 2);
	assert_int_equal(fgt_get_slice(1, 2, &slice), 0);
	fgt_slice_free(slice);
}

static void *fork_often(void *context)
{
	(void)context;
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct fgt_slice *slice = NULL;
			int r = fgt_get_slice(1, 2, &slice);

			/* -ENOTCONN: the parent did not record yet */
			_exit(r == -ECHILD || r == -ENOTCONN ? 0 : 1);
		}
		waitpid(pid, (int[]){ 0 }, 0);
	}
	return NULL;
}

static void fork_works_during_starts_and_stops(void **state)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fork_often, NULL);
	start_and_stop(*state);
	pthread_join(thread, NULL);
	assert_int_equal(library_start(*state), 0);
}

static void flush_with_nothing_to_do_returns(void **state)
{
	assert_int_equal(fgt_flush(100), -ENOTCONN);
	assert_int_equal(library_start(*state), 0);
	assert_int_equal(fgt_flush(2000), 0);
}

static void status_fits_the_size_of_the_caller(void **state)
{
	struct {
		struct fgt_status known;
		uint64_t unknown;
	} newer = { .known = { .size = sizeof(newer) }, .unknown = 7 };
	struct fgt_status status = { .size = 0 };

	(void)state;
	assert_int_equal(fgt_get_status(NULL), -EINVAL);
	assert_int_equal(fgt_get_status(&status), -EINVAL);
	status.size = sizeof(status) - 64;
	assert_int_equal(fgt_get_status(&status), -EINVAL);
	assert_int_equal(fgt_get_status(&newer.known), 0);
	assert_int_equal(newer.unknown, 0);
}

struct lines {
	atomic_int count;
	char text[8][300];
};

static void keep_line(void *context, const char *line)
{
	struct lines *lines = context;

	if (lines->count < 8)
		snprintf(lines->text[lines->count], sizeof(lines->text[0]),
			 "%s", line);
	lines->count++;
}

static bool has_line(void *context)
{
	const struct lines *lines = context;

	return lines->count > 0;
}

static bool has_hung_up_thrice(void *context)
{
	const struct fake_agent *agent = context;

	return agent->hang_ups >= 3;
}

static void each_cause_is_logged_once(void **state)
{
	struct fake_agent *agent = *state;
	struct lines lines = { .count = 0 };
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = 300,
					     .socket = agent->path,
					     .log = keep_line,
					     .context = &lines };

	fake_agent_kill(agent);
	assert_int_equal(fgt_start(&options), 0);
	assert_true(has_until(has_line, &lines));
	assert_non_null(strstr(lines.text[0], agent->path));
	assert_non_null(strstr(lines.text[0], "fgtrace-agent daemon"));
	/* Another cause, again and again: it tries once a second. */
	agent->behaviour = FAKE_CLOSES;
	fake_agent_start(agent);
	assert_true(has_until(has_hung_up_thrice, agent));
	fgt_stop();
	assert_int_equal(lines.count, 2);
	assert_non_null(strstr(lines.text[1], "closed the connection"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIBRARY_TEST(start_registers_and_stop_unregisters),
		LIBRARY_TEST(second_start_fails_and_changes_nothing),
		LIBRARY_TEST(stop_is_harmless_at_any_time),
		LIBRARY_TEST(slice_is_what_the_agent_sent),
		LIBRARY_TEST(write_returns_errors),
		LIBRARY_TEST(write_to_a_pipe_without_reader_raises_no_signal),
		LIBRARY_TEST(get_slice_needs_a_start_and_a_range),
		LIBRARY_TEST(get_slice_waits_for_an_end_that_lies_ahead),
		LIBRARY_TEST(stop_ends_calls_that_wait_and_cut),
		LIBRARY_TEST(all_calls_work_in_many_threads_at_once),
		LIBRARY_TEST(stop_leaves_no_thread_and_no_descriptor),
		LIBRARY_TEST(descriptors_are_closed_on_exec),
		LIBRARY_TEST(child_of_a_fork_can_start_again),
		LIBRARY_TEST(fork_works_during_starts_and_stops),
		LIBRARY_TEST(flush_with_nothing_to_do_returns),
		LIBRARY_TEST(status_fits_the_size_of_the_caller),
		LIBRARY_TEST(each_cause_is_logged_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
