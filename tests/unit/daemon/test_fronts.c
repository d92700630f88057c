/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fronts as processes: what they read, what they may do, and what becomes of
 * requests when one lies, hangs or is killed (fault C9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/daemon/requests/fronts.h"
#include "agent/protocol/builder.h"
#include "agent/protocol/protocol.h"
#include "tests/unit/daemon/control_kit.h"
#include "tests/unit/daemon/front_lies.h"

#define MS	   UINT64_C(1000000)
#define PATIENT_MS 20000 /* for what a busy machine may take */

struct fixture {
	struct fgt_loop *loop;
	struct fgt_fronts *fronts;
	struct fgt_reading reading;
	struct fgt_request request; /* the last */
	int done;
	char liar[600];
};

static void done(void *context, const struct fgt_request *request)
{
	struct fixture *fixture = context;

	memcpy(&fixture->request, request, fgt_request_size(request->verb));
	fixture->done++;
	fgt_loop_stop(fixture->loop);
}

static void open_fronts(struct fixture *fixture, const char *path,
			unsigned int timeout_ms)
{
	const struct fgt_fronts_options options = { .path = path,
						    .timeout_ms = timeout_ms };

	assert_int_equal(
		fgt_fronts_new(fixture->loop, &options, &fixture->fronts), 0);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	assert_int_equal(fgt_loop_new(&fixture->loop), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	fgt_fronts_free(fixture->fronts);
	fgt_loop_free(fixture->loop);
	if (fixture->liar[0])
		unlink(fixture->liar);
	free(fixture);
	return 0;
}

static void submit(struct fixture *fixture, uint32_t uid, const void *bytes,
		   size_t len, bool is_kept)
{
	fixture->reading = (struct fgt_reading){
		.done = done,
		.context = fixture,
		.uid = uid,
		.frame = { .bytes = bytes, .len = len, .is_kept = is_kept },
	};
	fgt_fronts_submit(fixture->fronts, &fixture->reading);
}

/* Waits for what has been made of it. */
static const struct fgt_request *await(struct fixture *fixture)
{
	if (fixture->done == 0)
		control_run_loop(fixture->loop, PATIENT_MS);
	assert_int_equal(fixture->done, 1);
	fixture->done = 0;
	return &fixture->request;
}

static const struct fgt_request *ask(struct fixture *fixture, uint32_t uid,
				     const char *verb)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *bytes;
	size_t len;

	assert_int_equal(fgt_builder_new_request(verb, &builder), 0);
	fgt_builder_string(builder, "name", "redis");
	assert_int_equal(fgt_builder_finish(builder, &bytes, &len), 0);
	submit(fixture, uid, bytes + FGT_PROTOCOL_LENGTH_BYTES,
	       len - FGT_PROTOCOL_LENGTH_BYTES, false);
	return await(fixture);
}

/* Of this process; at most max of them. */
static size_t find_children(pid_t *ret_pids, size_t max)
{
	char path[64];
	FILE *file;
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "re");
	assert_non_null(file);
	while (count < max && fscanf(file, "%d", &ret_pids[count]) == 1)
		count++;
	fclose(file);
	return count;
}

static pid_t only_child(void)
{
	pid_t pids[2];

	assert_int_equal(find_children(pids, 2), 1);
	return pids[0];
}

static void request_is_read_by_another_process(void **state)
{
	struct fixture *fixture = *state;
	const struct fgt_request *request;

	open_fronts(fixture, NULL, 0);
	request = ask(fixture, geteuid(), "slice");
	assert_int_equal(request->verb, FGT_REQUEST_SLICE);
	assert_string_equal(request->slice.selector.name, "redis");
	request = ask(fixture, geteuid(), "slize");
	assert_int_equal(request->verb, FGT_REQUEST_REFUSED);
	assert_int_equal(request->refusal.error, -EPROTONOSUPPORT);
}

static uint64_t status_number(pid_t pid, const char *key, int base)
{
	char path[64], line[256];
	uint64_t value = UINT64_MAX;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtoull(line + strlen(key) + 1, NULL, base);
	fclose(file);
	return value;
}

static void front_has_no_rights(void **state)
{
	struct fixture *fixture = *state;
	pid_t pid;

	open_fronts(fixture, NULL, 0);
	(void)ask(fixture, geteuid(), "status");
	pid = only_child();
	assert_int_equal(status_number(pid, "CapPrm:", 16), 0);
	assert_int_equal(status_number(pid, "CapEff:", 16), 0);
	assert_int_equal(status_number(pid, "NoNewPrivs:", 10), 1);
	assert_int_equal(status_number(pid, "Seccomp:", 10), 2);
	if (geteuid() == 0)
		assert_int_not_equal(status_number(pid, "Uid:", 10), 0);
}

/* Longer than a message of the socket. */
static void data_are_found_in_a_long_frame(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const struct fgt_request *request;
	const size_t data_len = 3 << 20;
	FGT_AUTO(free) void *data = malloc(data_len);
	const uint8_t *bytes;
	size_t len;

	memset(data, 0xa5, data_len);
	open_fronts(fixture, NULL, 0);
	assert_int_equal(fgt_builder_new_request("deliver", &builder), 0);
	fgt_builder_string(builder, "destination", "/somewhere");
	fgt_builder_bin(builder, "data", data, data_len);
	fgt_builder_string(builder, "name", "checkout");
	fgt_builder_uint(builder, "begin_ns", 1);
	fgt_builder_uint(builder, "end_ns", 2);
	assert_int_equal(fgt_builder_finish(builder, &bytes, &len), 0);
	submit(fixture, geteuid(), bytes + 4, len - 4, true);
	request = await(fixture);
	assert_int_equal(request->verb, FGT_REQUEST_DELIVER);
	assert_int_equal(request->deliver.data_len, data_len);
	assert_memory_equal(bytes + 4 + request->deliver.data_at, data,
			    data_len);
	assert_string_equal(request->deliver.name, "checkout");
	assert_int_equal(request->deliver.has_times, 1);
	assert_true(request->deliver.facts_len > 0);
}

static void front_that_is_killed_is_replaced(void **state)
{
	static const char frame[] = "\x82\xa1v\x02\xa4verb\xa7targets";
	struct fixture *fixture = *state;
	const struct fgt_request *request;
	pid_t pid;

	open_fronts(fixture, NULL, 0);
	(void)ask(fixture, geteuid(), "status");
	pid = only_child();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	submit(fixture, geteuid(), frame, sizeof(frame) - 1, false);
	control_run_loop(fixture->loop, 20);
	assert_int_equal(fixture->done, 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	request = await(fixture);
	assert_int_equal(request->verb, FGT_REQUEST_REFUSED);
	assert_int_equal(request->refusal.error, -EAGAIN);
	request = ask(fixture, geteuid(), "targets");
	assert_int_equal(request->verb, FGT_REQUEST_TARGETS);
	assert_int_not_equal(only_child(), pid);
}

static void front_that_hangs_is_replaced(void **state)
{
	struct fixture *fixture = *state;
	const struct fgt_request *request;

	open_fronts(fixture, NULL, 1000);
	(void)ask(fixture, geteuid(), "status");
	assert_int_equal(kill(only_child(), SIGSTOP), 0);
	request = ask(fixture, geteuid(), "targets");
	assert_int_equal(request->verb, FGT_REQUEST_REFUSED);
	assert_int_equal(request->refusal.error, -EAGAIN);
	request = ask(fixture, geteuid(), "targets");
	assert_int_equal(request->verb, FGT_REQUEST_TARGETS);
}

static void withdrawn_request_is_not_reported(void **state)
{
	static const char frame[] = "\x82\xa1v\x02\xa4verb\xa7targets";
	struct fixture *fixture = *state;

	open_fronts(fixture, NULL, 0);
	submit(fixture, geteuid(), frame, sizeof(frame) - 1, false);
	fgt_fronts_withdraw(&fixture->reading);
	fgt_fronts_withdraw(&fixture->reading);
	assert_int_equal(ask(fixture, geteuid(), "status")->verb,
			 FGT_REQUEST_STATUS);
	control_run_loop(fixture->loop, 20);
	assert_int_equal(fixture->done, 0);
}

/* A front that a user has taken over reads nothing of another user. */
static void users_have_fronts_of_their_own_and_these_are_few(void **state)
{
	struct fixture *fixture = *state;
	pid_t pids[FGT_FRONTS_MAX + 2];

	open_fronts(fixture, NULL, 0);
	for (uint32_t uid = 5000; uid < 5002; uid++)
		assert_int_equal(ask(fixture, uid, "status")->verb,
				 FGT_REQUEST_STATUS);
	assert_int_equal(find_children(pids, FGT_FRONTS_MAX + 2), 3);
	for (uint32_t uid = 5002; uid < 5000 + 2 * FGT_FRONTS_MAX; uid++)
		assert_int_equal(ask(fixture, uid, "status")->verb,
				 FGT_REQUEST_STATUS);
	assert_int_equal(find_children(pids, FGT_FRONTS_MAX + 2),
			 FGT_FRONTS_MAX);
}

static void program_that_is_no_front_costs_an_error(void **state)
{
	struct fixture *fixture = *state;

	open_fronts(fixture, "/bin/true", 0);
	assert_int_equal(ask(fixture, geteuid(), "status")->refusal.error,
			 -EAGAIN);
	assert_int_equal(ask(fixture, geteuid(), "status")->refusal.error,
			 -EAGAIN);
}

static size_t count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* This program by another name. */
static void make_liar(struct fixture *fixture)
{
	char own[500] = "";

	assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
	snprintf(fixture->liar, sizeof(fixture->liar), "%s" FRONT_LIAR, own);
	(void)unlink(fixture->liar);
	assert_int_equal(link(own, fixture->liar), 0);
}

static void lies_are_errors_and_end_the_front(void **state)
{
	struct fixture *fixture = *state;
	size_t before = 0;

	make_liar(fixture);
	open_fronts(fixture, fixture->liar, 0);
	for (uint8_t lie = 0; lie < FRONT_LIES; lie++) {
		const struct fgt_request *request;
		bool is_read = lie == FRONT_LIES_NOT || lie == FRONT_LIES_TWICE;

		submit(fixture, geteuid(), &lie, 1, false);
		request = await(fixture);
		assert_int_equal(request->verb, is_read ? FGT_REQUEST_SLICE
							: FGT_REQUEST_REFUSED);
		control_run_loop(fixture->loop, 20);
		assert_int_equal(fixture->done, 0); /* not twice */
		if (lie == FRONT_LIES_NOT)
			before = count_descriptors();
	}
	/* The truth is believed again, and no descriptor has come. */
	submit(fixture, geteuid(), "\0", 1, false);
	assert_int_equal(await(fixture)->verb, FGT_REQUEST_SLICE);
	assert_int_equal(count_descriptors(), before);
}

#define FRONT_TEST(name)                                                       \
	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRONT_TEST(request_is_read_by_another_process),
		FRONT_TEST(front_has_no_rights),
		FRONT_TEST(data_are_found_in_a_long_frame),
		FRONT_TEST(front_that_is_killed_is_replaced),
		FRONT_TEST(front_that_hangs_is_replaced),
		FRONT_TEST(withdrawn_request_is_not_reported),
		FRONT_TEST(users_have_fronts_of_their_own_and_these_are_few),
		FRONT_TEST(program_that_is_no_front_costs_an_error),
		FRONT_TEST(lies_are_errors_and_end_the_front),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
