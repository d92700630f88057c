/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library and agents that are absent, hang, send nonsense, or come and go:
 * each call ends in its time, with the error that the header documents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "agent/protocol/channel.h"
#include "ringbuf/base/owner.h"
#include "tests/unit/lib/library_kit.h"

#define MS UINT64_C(1000000)
/* On a busy machine; far below "never". */
#define PATIENCE_MS (LIBRARY_TIMEOUT_MS + 5000)

static int cut(void)
{
	struct fgt_slice *slice = NULL;
	uint64_t begun_ns = fgt_now();
	int r = fgt_get_slice(1, 2, &slice);

	assert_true(fgt_now() - begun_ns < PATIENCE_MS * MS);
	assert_true((r == 0) == (slice != NULL));
	fgt_slice_free(slice);
	return r;
}

static void start_succeeds_without_an_agent(void **state)
{
	struct fake_agent *agent = *state;

	fake_agent_kill(agent);
	assert_int_equal(library_start(agent), 0);
	assert_false(library_status().is_recording);
	assert_int_equal(cut(), -ENOTCONN);
}

/* An agent may come before its end; other services continue its trace. */
static void transaction_begins_without_an_agent(void **state)
{
	struct fake_agent *agent = *state;
	struct fgt_transaction *transaction;
	char trace[50] = "";

	fake_agent_kill(agent);
	assert_null(fgt_transaction_begin("early", NULL));
	assert_int_equal(library_start(agent), 0);
	assert_int_equal(library_status().mode, FGT_AGENT);
	assert_false(library_status().is_recording);
	transaction = fgt_transaction_begin("GET /cart", "http.server");
	assert_non_null(transaction);
	assert_int_equal(
		fgt_transaction_get_trace(transaction, trace, sizeof(trace)),
		49);
	assert_int_equal(fgt_transaction_finish(transaction), 0);
	fgt_stop();
	assert_null(fgt_transaction_begin("late", NULL));
}

static void agent_is_found_when_it_starts_later(void **state)
{
	struct fake_agent *agent = *state;

	fake_agent_kill(agent);
	assert_int_equal(library_start(agent), 0);
	fake_agent_start(agent);
	for (int i = 0; i < 500 && !library_status().is_recording; i++)
		usleep(10000);
	assert_true(library_status().is_recording);
	assert_int_equal(cut(), 0);
}

static void agent_is_found_again_after_a_restart(void **state)
{
	struct fake_agent *agent = *state;

	assert_int_equal(library_start(agent), 0);
	for (int round = 1; round <= 2; round++) {
		fake_agent_kill(agent);
		assert_int_equal(cut(), -ENOTCONN);
		fake_agent_start(agent);
		for (int i = 0; i < 500 && agent->registers <= round; i++)
			usleep(10000);
		for (int i = 0; i < 500 && !library_status().is_recording; i++)
			usleep(10000);
		assert_int_equal(cut(), 0);
	}
}

static void slice_is_cut_again_after_an_unknown_process(void **state)
{
	struct fake_agent *agent = *state;

	assert_int_equal(library_start(agent), 0);
	agent->behaviour = FAKE_SLICE_UNKNOWN;
	assert_int_equal(cut(), -ENOTCONN);
	agent->behaviour = FAKE_GOOD;
	assert_int_equal(cut(), 0);
}

static void start_ends_after_the_timeout_if_the_agent_is_silent(void **state)
{
	struct fake_agent *agent = *state;
	uint64_t begun_ns = fgt_now();

	agent->behaviour = FAKE_SILENT;
	assert_int_equal(library_start(agent), 0);
	assert_true(fgt_now() - begun_ns >= LIBRARY_TIMEOUT_MS * MS);
	assert_true(fgt_now() - begun_ns < PATIENCE_MS * MS);
	assert_false(library_status().is_recording);
}

static atomic_int late_logged, closed_logged;

static void note_why(void *context, const char *line)
{
	(void)context;
	if (strstr(line, "did not answer within 300 ms"))
		late_logged++;
	if (strstr(line, "closed the connection"))
		closed_logged++;
}

/* The agent was stopped (SIGSTOP): the library closed the connection. */
static void timeout_is_logged_when_the_agent_hangs_later(void **state)
{
	struct fake_agent *agent = *state;
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = LIBRARY_TIMEOUT_MS,
					     .socket = agent->path,
					     .log = note_why };
	struct fgt_slice *slice = NULL;

	late_logged = closed_logged = 0;
	assert_int_equal(fgt_start(&options), 0);
	assert_int_equal(fgt_get_slice(1, 2, &slice), 0);
	agent->behaviour = FAKE_SILENT;
	assert_int_equal(fgt_slice_upload(slice, "/tmp"), 0);
	fgt_slice_free(slice);
	for (int i = 0; i < 500 && !late_logged; i++)
		usleep(10000);
	assert_int_equal(late_logged, 1);
	assert_int_equal(closed_logged, 0);
	assert_non_null(strstr(library_status().limitation, "not answer"));
}

/* connect(2) itself would wait. */
static void start_ends_after_the_timeout_if_the_backlog_is_full(void **state)
{
	struct fake_agent *agent = *state;
	uint64_t begun_ns = fgt_now();

	agent->shall_end = true;
	pthread_join(agent->thread, NULL);
	agent->is_running = false;
	assert_int_equal(listen(agent->listen_fd, 0), 0);
	assert_int_equal(library_start(agent), 0);
	for (int i = 0; i < 2; i++) {
		fgt_stop();
		assert_int_equal(library_start(agent), 0);
	}
	assert_true(fgt_now() - begun_ns < 3 * PATIENCE_MS * MS);
	assert_false(library_status().is_recording);
	close(agent->listen_fd);
}

/* The kernel takes microseconds below a million only. */
static void deadline_of_whole_seconds_is_accepted(void **state)
{
	struct fake_agent *agent = *state;

	for (int i = 0; i < 500; i++) {
		struct fgt_channel channel = { .fd = -1 };

		assert_int_equal(fgt_channel_open(agent->path, false,
						  fgt_now() + 20000 * MS,
						  &channel),
				 0);
		fgt_channel_close(&channel);
	}
}

static void start_records_nothing_if_the_agent_refuses(void **state)
{
	static const int behaviours[] = { FAKE_CLOSES,	    FAKE_REFUSES,
					  FAKE_HZ_NAN,	    FAKE_HZ_HUGE,
					  FAKE_HZ_NEGATIVE, FAKE_HZ_TEXT };
	struct fake_agent *agent = *state;

	for (size_t i = 0; i < sizeof(behaviours) / sizeof(int); i++) {
		agent->behaviour = behaviours[i];
		assert_int_equal(library_start(agent), 0);
		assert_false(library_status().is_recording);
		assert_int_equal(cut(), -ENOTCONN);
		fgt_stop();
	}
}

static atomic_int versions_logged;

static void note_version(void *context, const char *line)
{
	versions_logged += strstr(line, context) != NULL;
}

static void other_version_is_refused_and_the_older_named(void **state)
{
	static const struct {
		enum fake_behaviour behaviour;
		const char *line, *limitation;
	} zoo[] = {
		{ FAKE_NEWER, "the agent uses protocol 3, this program 2",
		  "this program is older; update it" },
		{ FAKE_OLDER, "the agent uses protocol 1, this program 2",
		  "the agent is older; restart it" },
	};
	struct fake_agent *agent = *state;

	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		const struct fgt_options options = {
			.size = sizeof(options),
			.mode = FGT_AGENT,
			.timeout_ms = LIBRARY_TIMEOUT_MS,
			.socket = agent->path,
			.log = note_version,
			.context = (void *)zoo[i].line,
		};

		versions_logged = 0;
		agent->behaviour = zoo[i].behaviour;
		assert_int_equal(fgt_start(&options), 0);
		assert_false(library_status().is_recording);
		assert_non_null(
			strstr(library_status().limitation, zoo[i].limitation));
		for (int wait = 0; wait < 500 && !versions_logged; wait++)
			usleep(10000);
		fgt_stop();
		assert_int_equal(versions_logged, 1);
	}
}

static void malformed_slice_has_its_error(void **state)
{
	static const struct {
		enum fake_behaviour behaviour;
		int error;
	} zoo[] = {
		{ FAKE_SLICE_BUSY, -EBUSY },
		{ FAKE_SLICE_NO_DATA, -ENODATA },
		{ FAKE_SLICE_SILENT, -ETIMEDOUT },
		{ FAKE_SLICE_DRIPS, -ETIMEDOUT },
		{ FAKE_SLICE_ENDLESS, -ETIMEDOUT },
		{ FAKE_SLICE_GIANT, -EBADMSG },
		{ FAKE_SLICE_NEGATIVE, -EBADMSG },
		{ FAKE_SLICE_REVERSED, -EBADMSG },
		{ FAKE_SLICE_SHORT, -EBADMSG },
		{ FAKE_SLICE_NO_MAGIC, -EBADMSG },
		{ FAKE_SLICE_JUNK, -EBADMSG },
		{ FAKE_SLICE_NO_VERSION, -EBADMSG },
		{ FAKE_SLICE_GARBAGE, -EBADMSG },
		{ FAKE_SLICE_BREAKS_OFF, -ENOMEM },
		{ FAKE_SLICE_TRUNCATED, -ENOTCONN }, /* it died meanwhile */
		{ FAKE_GOOD, 0 },
	};
	struct fake_agent *agent = *state;

	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		agent->behaviour = zoo[i].behaviour;
		assert_int_equal(library_start(agent), 0);
		assert_true(library_status().is_recording);
		assert_int_equal(cut(), zoo[i].error);
		fgt_stop();
		/* It may still be busy with the request. */
		fake_agent_kill(agent);
		fake_agent_start(agent);
	}
}

/* Ends by its size or its time, whichever the machine reaches first. */
static void cut_ends_in_a_flood_of_bytes(void **state)
{
	struct fake_agent *agent = *state;
	int r;

	assert_int_equal(library_start(agent), 0);
	agent->behaviour = FAKE_SLICE_FLOOD;
	r = cut();
	assert_true(r == -EBADMSG || r == -ETIMEDOUT || r == -ENOMEM);
}

/* Tried once and logged; the agent stays connected. */
static void slice_too_large_for_the_agent_is_given_up(void **state)
{
	struct fake_agent *agent = *state;
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = 20000,
					     .socket = agent->path };
	struct fgt_status status = { .size = sizeof(status) };
	uint64_t before = library_status().undelivered;
	struct fgt_slice *slice = NULL;

	assert_int_equal(fgt_start(&options), 0);
	agent->behaviour = FAKE_SLICE_LARGE;
	assert_int_equal(fgt_get_slice(1, 2, &slice), 0);
	assert_int_equal(fgt_slice_upload(slice, "/nowhere"), 0);
	fgt_slice_free(slice);
	assert_int_equal(fgt_flush(20000), 0);
	assert_int_equal(fgt_get_status(&status), 0);
	assert_int_equal(status.undelivered, before + 1);
	assert_true(status.is_recording);
	assert_int_equal(agent->registers, 1);
}

static atomic_int interruptions;

static void interrupt(int number)
{
	(void)number;
	interruptions++;
}

/* Signals of the program, without SA_RESTART, interrupt every wait. */
static void calls_survive_signals_of_the_program(void **state)
{
	const struct sigaction action = { .sa_handler = interrupt };
	const struct itimerval often = { .it_interval = { .tv_usec = 1000 },
					 .it_value = { .tv_usec = 1000 } };
	const struct itimerval never = { .it_value = { 0 } };
	struct fake_agent *agent = *state;
	uint64_t end_ns;
	struct fgt_slice *slice = NULL;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(library_start(agent), 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(cut(), 0);
	end_ns = fgt_now() + 100 * MS;
	assert_int_equal(fgt_get_slice(1, end_ns, &slice), 0);
	assert_true(fgt_now() >= end_ns);
	fgt_slice_free(slice);
	agent->behaviour = FAKE_SLICE_SILENT;
	assert_int_equal(cut(), -ETIMEDOUT);
	fgt_stop();
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(interruptions > 10);
}

static void connection_is_renewed_after_the_program_closed_it(void **state)
{
	struct fake_agent *agent = *state;
	int ends[2];

#ifdef __SANITIZE_THREAD__
	skip(); /* TSan reports what is tested: a number used by two threads */
#endif
	assert_int_equal(library_start(agent), 0);
	/* The program becomes a daemon, and then opens files. */
	for (int fd = 3; fd < 1024; fd++)
		if (fd != agent->listen_fd) {
			struct sockaddr_storage address;
			socklen_t len = sizeof(address);

			if (getpeername(fd, (void *)&address, &len) == 0 &&
			    fd != agent->clients[0])
				close(fd);
		}
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < 500 && agent->registers < 2; i++)
		usleep(10000);
	assert_true(agent->registers >= 2);
	fgt_stop();
	assert_int_equal(write(ends[1], "x", 1), 1); /* the test's */
	close(ends[0]);
	close(ends[1]);
}

/* ---- Misuse ------------------------------------------------------------- */

static atomic_int misuses_logged;

static void count_misuses(void *context, const char *line)
{
	(void)context;
	if (strstr(line, "call fgt_task_begin()"))
		misuses_logged++;
}

static void start_logging(const struct fake_agent *agent,
			  void (*log)(void *context, const char *line))
{
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = LIBRARY_TIMEOUT_MS,
					     .socket = agent->path,
					     .log = log };

	assert_int_equal(fgt_start(&options), 0);
}

static void expect_logged(const struct fake_agent *agent, int times)
{
	start_logging(agent, count_misuses);
	for (int i = 0; i < 500 && misuses_logged < times; i++)
		usleep(10000);
	assert_int_equal(misuses_logged, times);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fgt_span_end(0), -ENOTCONN);
	fgt_stop();
}

static atomic_int culprits_logged;

static void find_culprit(void *context, const char *line)
{
	(void)context;
	culprits_logged += strstr(line, "call fgt_task_begin()") &&
			   strstr(line, ", 'lonely')");
}

static void misuse_is_logged_with_thread_and_name(void **state)
{
	start_logging(*state, find_culprit);
	assert_int_equal(fgt_span_begin("lonely", 0, NULL), -ENOTCONN);
	assert_int_equal(fgt_span_begin("another", 0, NULL), -ENOTCONN);
	for (int i = 0; i < 500 && !culprits_logged; i++)
		usleep(10000);
	fgt_stop();
	assert_int_equal(culprits_logged, 1);
}

static void misuse_is_logged_once_after_each_start(void **state)
{
	uint64_t before = library_status().misuses;

	misuses_logged = 0;
	assert_int_equal(fgt_span_end(0), -ENOTCONN);
	/* At the start, and not again. */
	expect_logged(*state, 1);
	/* Nothing between: when it happens again. */
	expect_logged(*state, 1);
	assert_int_equal(misuses_logged, 2);
	assert_int_equal(fgt_span_end(0), -ENOTCONN);
	expect_logged(*state, 3);
	assert_int_equal(misuses_logged, 3);
	assert_int_equal(library_status().misuses, before + 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIBRARY_TEST(start_succeeds_without_an_agent),
		LIBRARY_TEST(transaction_begins_without_an_agent),
		LIBRARY_TEST(agent_is_found_when_it_starts_later),
		LIBRARY_TEST(agent_is_found_again_after_a_restart),
		LIBRARY_TEST(slice_is_cut_again_after_an_unknown_process),
		LIBRARY_TEST(
			start_ends_after_the_timeout_if_the_agent_is_silent),
		LIBRARY_TEST(timeout_is_logged_when_the_agent_hangs_later),
		LIBRARY_TEST(
			start_ends_after_the_timeout_if_the_backlog_is_full),
		LIBRARY_TEST(deadline_of_whole_seconds_is_accepted),
		LIBRARY_TEST(start_records_nothing_if_the_agent_refuses),
		LIBRARY_TEST(other_version_is_refused_and_the_older_named),
		LIBRARY_TEST(malformed_slice_has_its_error),
		LIBRARY_TEST(cut_ends_in_a_flood_of_bytes),
		LIBRARY_TEST(slice_too_large_for_the_agent_is_given_up),
		LIBRARY_TEST(calls_survive_signals_of_the_program),
		LIBRARY_TEST(connection_is_renewed_after_the_program_closed_it),
		LIBRARY_TEST(misuse_is_logged_once_after_each_start),
		LIBRARY_TEST(misuse_is_logged_with_thread_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
