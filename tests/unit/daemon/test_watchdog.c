/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts as a hang, and the messages to the service manager.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/watchdog.h"
#include "ringbuf/base/owner.h"

#define MS   UINT64_C(1000000)
#define BUSY (UINT64_C(5) << 40 | (uint64_t)FGT_STEP_WORK << 32 | 77)
#define CALL (UINT64_C(5) << 40 | (uint64_t)FGT_STEP_MEMORY << 32 | 77)
#define WAIT (UINT64_C(7) << 40 | (uint64_t)FGT_STEP_TIMER << 32)
#define IDLE (UINT64_C(6) << 40 | (uint64_t)FGT_STEP_IDLE << 32)

static void note(struct fgt_watched *watched, uint64_t beat, uint64_t ms,
		 char state, uint64_t cpu_ms)
{
	const struct fgt_thread_look look = { state,
					      watched->cpu_ns + cpu_ms * MS };

	fgt_watched_note(watched, beat, ms * MS, &look);
}

static void waiting_in_one_step_counts(void **state)
{
	struct fgt_watched watched = { .beat = BUSY };

	(void)state;
	note(&watched, BUSY, 250, 'D', 0);
	note(&watched, BUSY, 250, 'S', 0);
	assert_int_equal(watched.hung_ns, 500 * MS);
	note(&watched, BUSY + FGT_BEAT_NUMBER, 250, 'S', 0);
	assert_int_equal(watched.hung_ns, 0);
}

static void idle_thread_does_not_hang(void **state)
{
	struct fgt_watched watched = { .beat = IDLE };

	(void)state;
	note(&watched, IDLE, 250, 'S', 0);
	assert_int_equal(watched.hung_ns, 0);
}

static void timer_that_does_not_expire_is_a_hang(void **state)
{
	struct fgt_watched watched = { .beat = WAIT };

	(void)state;
	note(&watched, WAIT, 250, 'S', 0);
	assert_int_equal(watched.hung_ns, 250 * MS);
}

static void waiting_for_a_cpu_does_not_count(void **state)
{
	struct fgt_watched watched = { .beat = BUSY };

	(void)state;
	for (int i = 0; i < 100; i++)
		note(&watched, BUSY, 250, 'R', 0);
	assert_int_equal(watched.hung_ns, 0);
	/* It turns in a circle. */
	note(&watched, BUSY, 250, 'R', 240);
	assert_int_equal(watched.hung_ns, 240 * MS);
}

/* The process was stopped, the machine suspended: nor did the watchdog run. */
static void time_without_the_watchdog_does_not_count(void **state)
{
	struct fgt_watched watched = { .beat = BUSY };

	(void)state;
	note(&watched, BUSY, 3600 * 1000, 'S', 0);
	assert_int_equal(watched.hung_ns, 500 * MS);
}

static bool look(struct fgt_watched *watched, uint64_t beat, char state)
{
	note(watched, beat, 250, state, 0);
	return fgt_watched_is_stuck("sampler", watched, beat, state);
}

static void thread_inside_one_call_is_stuck(void **state)
{
	struct fgt_watched watched = { 0 };

	(void)state;
	assert_false(look(&watched, CALL, 'D'));
	assert_false(look(&watched, CALL, 'R'));
	assert_false(look(&watched, CALL, 'D'));
	assert_true(look(&watched, CALL, 'D'));
	watched = (struct fgt_watched){ 0 };
	for (int i = 0; i < 10; i++) /* in no such call */
		assert_false(look(&watched, BUSY, 'D'));
}

static void thread_that_no_tick_waits_for_has_more_time(void **state)
{
	struct fgt_watched watched = { 0 };
	int looks = 0;

	(void)state;
	do {
		note(&watched, CALL, 250, 'D', 0);
		looks++;
	} while (!fgt_watched_is_stuck("thread of jobs", &watched, CALL, 'D'));
	assert_in_range(looks, 6, 8); /* 1.5 s */
	watched = (struct fgt_watched){ 0 };
	looks = 0;
	do { /* the loop waits for it */
		note(&watched, CALL, 250, 'D', 0);
		looks++;
	} while (!fgt_watched_is_stuck("thread of reads", &watched, CALL, 'D'));
	assert_in_range(looks, 2, 3); /* 0.5 s */
}

/* Each of them returns a little too soon. */
static void thread_in_slow_calls_about_one_process_is_stuck(void **state)
{
	struct fgt_watched watched = { 0 };
	uint64_t beat = CALL;
	int looks = 0;

	(void)state;
	while (!look(&watched, beat += FGT_BEAT_NUMBER, 'S'))
		looks++;
	assert_in_range(looks, 24, 40); /* 6 to 10 s */
	watched = (struct fgt_watched){ 0 };
	for (looks = 0; looks < 400; looks++) /* about several ones */
		assert_false(look(
			&watched,
			beat += FGT_BEAT_NUMBER ^ (uint64_t)(looks % 2), 'S'));
	for (looks = 0; looks < 400; looks++) /* every third look */
		assert_false(look(&watched,
				  (beat += FGT_BEAT_NUMBER) & ~UINT64_C(7),
				  looks % 3 ? 'R' : 'S'));
}

/* A restart loses all rings. */
static void restart_is_the_last_resort(void **state)
{
	(void)state;
	assert_false(fgt_watched_is_lost("loop", 29000 * MS));
	assert_true(fgt_watched_is_lost("loop", 30000 * MS));
	assert_false(fgt_watched_is_lost("sampler", 299000 * MS));
	assert_true(fgt_watched_is_lost("sampler", 300000 * MS));
	assert_false(fgt_watched_is_lost("thread of a slice", 3600000 * MS));
	assert_false(fgt_watched_is_lost("thread of jobs", 3600000 * MS));
}

/* ---- Messages ------------------------------------------------------------ */

struct manager {
	int fd;
	char path[64];
};

static void begin_manager(struct manager *manager, const char *usec)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(manager->path, sizeof(manager->path), "/tmp/notify-%d",
		 getpid());
	unlink(manager->path);
	manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	strcpy(address.sun_path, manager->path);
	assert_int_equal(
		bind(manager->fd, (struct sockaddr *)&address, sizeof(address)),
		0);
	setenv("NOTIFY_SOCKET", manager->path, 1);
	setenv("WATCHDOG_USEC", usec, 1);
	unsetenv("WATCHDOG_PID");
}

static void end_manager(struct manager *manager)
{
	close(manager->fd);
	unlink(manager->path);
}

/* "": none within a second. */
static const char *receive(const struct manager *manager)
{
	struct pollfd poll_fd = { .fd = manager->fd, .events = POLLIN };
	static char text[256];
	ssize_t len;

	poll(&poll_fd, 1, 1000);
	len = recv(manager->fd, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	return text;
}

static void messages_go_to_the_service_manager(void **state)
{
	struct manager manager;
	struct fgt_notify notify;

	(void)state;
	begin_manager(&manager, "30000000");
	fgt_notify_open(&notify);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_int_equal(notify.watchdog_ns, 30000 * MS);
	fgt_notify_send(&notify, "READY=1\nSTATUS=sampling");
	assert_string_equal(receive(&manager), "READY=1\nSTATUS=sampling");
	fgt_notify_close(&notify);
	end_manager(&manager);
}

static void another_process_is_not_watched(void **state)
{
	struct manager manager;
	struct fgt_notify notify;

	(void)state;
	begin_manager(&manager, "30000000");
	setenv("WATCHDOG_PID", "1", 1);
	fgt_notify_open(&notify);
	assert_int_equal(notify.watchdog_ns, 0);
	fgt_notify_close(&notify);
	end_manager(&manager);
}

static void without_a_manager_nothing_is_sent(void **state)
{
	struct fgt_notify notify;
	char path[200];

	(void)state;
	unsetenv("NOTIFY_SOCKET");
	fgt_notify_open(&notify);
	assert_int_equal(notify.fd, -1);
	fgt_notify_send(&notify, "READY=1");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	setenv("NOTIFY_SOCKET", path, 1);
	fgt_notify_open(&notify);
	assert_int_equal(notify.fd, -1);
}

/* ---- The thread ---------------------------------------------------------- */

struct stuck {
	_Atomic bool shall_end;
	_Atomic bool is_busy;
};

static void *be_stuck(void *context)
{
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_begin("loop", NULL);
	struct stuck *stuck = context;

	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 345);
	stuck->is_busy = true;
	while (!stuck->shall_end)
		nanosleep(&(struct timespec){ .tv_nsec = 10 * MS }, NULL);
	fgt_heartbeat_end();
	return NULL;
}

static void hang_is_described_and_sent(void **state)
{
	FGT_AUTO(fgt_watchdog_free) struct fgt_watchdog *watchdog = NULL;
	struct stuck stuck = { false };
	struct fgt_watchdog_options options = { 0 };
	struct manager manager;
	struct fgt_notify notify;
	const char *message = "";
	char text[160];
	pthread_t thread;

	(void)state;
	begin_manager(&manager, "600000");
	fgt_notify_open(&notify);
	fgt_log_set("error", "logfmt");
	options.notify = &notify;
	assert_int_equal(pthread_create(&thread, NULL, be_stuck, &stuck), 0);
	assert_int_equal(fgt_watchdog_new(&options, &watchdog), 0);
	for (int i = 0; i < 20 && !strstr(message, "STATUS="); i++) {
		message = receive(&manager);
		assert_true(!strcmp(message, "WATCHDOG=1") ||
			    strstr(message, "STATUS="));
	}
	assert_string_equal(message,
			    "STATUS=the loop has hung for 2 s in pid 345 (at "
			    "work)");
	assert_true(fgt_watchdog_describe(watchdog, text, sizeof(text)) >=
		    2000 * MS);
	assert_non_null(strstr(text, "the loop has hung for"));
	stuck.shall_end = true;
	pthread_join(thread, NULL);
	for (int i = 0; i < 20 && strcmp(message, "STATUS=sampling"); i++)
		message = receive(&manager);
	assert_string_equal(message, "STATUS=sampling");
	fgt_watchdog_free(FGT_TAKE(watchdog));
	fgt_notify_close(&notify);
	end_manager(&manager);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_in_one_step_counts),
		cmocka_unit_test(idle_thread_does_not_hang),
		cmocka_unit_test(timer_that_does_not_expire_is_a_hang),
		cmocka_unit_test(waiting_for_a_cpu_does_not_count),
		cmocka_unit_test(time_without_the_watchdog_does_not_count),
		cmocka_unit_test(thread_inside_one_call_is_stuck),
		cmocka_unit_test(thread_that_no_tick_waits_for_has_more_time),
		cmocka_unit_test(
			thread_in_slow_calls_about_one_process_is_stuck),
		cmocka_unit_test(restart_is_the_last_resort),
		cmocka_unit_test(messages_go_to_the_service_manager),
		cmocka_unit_test(another_process_is_not_watched),
		cmocka_unit_test(without_a_manager_nothing_is_sent),
		cmocka_unit_test(hang_is_described_and_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
