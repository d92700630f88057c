/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries from their order to the file or the failure, through a real
 * delivering process: this very program. The loop runs in the main thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/delivery/delivery_limits.h"
#include "agent/daemon/loop/log.h"
#include "agent/protocol/transaction_facts.h"
#include "ringbuf/slice/slice_codec.h"
#include "tests/unit/daemon/delivery_kit.h"

#define NOBODY 65534

/* Each with another id: the same one again is queued once only. */
static int submit(int fd, uint32_t uid, const char *destination)
{
	static unsigned int count;
	struct fgt_transaction_facts facts = { .name = "checkout" };
	uint8_t packed[256];
	struct fgt_delivery_order order = {
		.pid = 4242,
		.uid = uid,
		.gid = uid,
		.kind = FGT_DELIVERY_FILE,
		.fds = { { fd, -1, -1, -1, -1 } },
		.destination = destination,
		.name = facts.name,
		.event_id = facts.event_id,
		.facts = packed,
	};
	struct fgt_why why;

	snprintf(facts.event_id, sizeof(facts.event_id), "%032x", ++count);
	assert_int_equal(fgt_facts_pack(&facts, packed, sizeof(packed),
					&order.facts_len),
			 0);
	return fgt_deliveries_submit(delivery_world.deliveries, &order, &why);
}

/* The only envelope in the directory. */
static void find_envelope(struct stat *ret_status)
{
	struct dirent *entry;
	DIR *directory = opendir(delivery_world.directory);
	unsigned int count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		count++;
		assert_int_equal(strncmp(entry->d_name, "checkout-", 9), 0);
		assert_int_equal(
			fstatat(dirfd(directory), entry->d_name, ret_status, 0),
			0);
	}
	closedir(directory);
	assert_int_equal(count, 1);
}

static void slice_becomes_a_file(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().delivered, 1);
	find_envelope(&status);
	assert_true(status.st_size > 1000);
	assert_int_equal(status.st_mode & 0777, 0600);
}

static void files_are_written_as_their_user(void **state)
{
	struct stat status;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(
		submit(delivery_slice_fd(), NOBODY, delivery_world.directory),
		0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().failed,
			 1); /* the folder is root's */
	assert_int_equal(chown(delivery_world.directory, NOBODY, NOBODY), 0);
	assert_int_equal(
		submit(delivery_slice_fd(), NOBODY, delivery_world.directory),
		0);
	delivery_run_until(2);
	assert_int_equal(delivery_counters().delivered, 1);
	find_envelope(&status);
	assert_int_equal(status.st_uid, NOBODY);
	assert_int_equal(status.st_gid, NOBODY);
}

static void failed_delivery_leaves_the_others_alone(void **state)
{
	static const char garbage[] = "FGT1 and then nothing of sense";

	(void)state;
	assert_int_equal(submit(delivery_memfd(garbage, sizeof(garbage)),
				geteuid(), delivery_world.directory),
			 0);
	assert_int_equal(submit(delivery_memfd("", 0), geteuid(),
				delivery_world.directory),
			 0);
	assert_int_equal(submit(delivery_slice_fd(), geteuid(), "/nonexistent"),
			 0);
	assert_int_equal(
		submit(delivery_slice_fd(), geteuid(), "ftp://nowhere"), 0);
	delivery_run_until(4);
	assert_int_equal(delivery_counters().failed, 4);
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 0);
	delivery_run_until(5);
	assert_int_equal(delivery_counters().delivered, 1);
}

static int submit_last_word(uint32_t uid, const char *destination)
{
	const struct fgt_delivery_order order = {
		.uid = uid,
		.gid = uid,
		.kind = FGT_DELIVERY_RING,
		.fds = { { delivery_memfd("x", 1), -1, -1, -1, -1 } },
		.destination = destination,
		.is_last_word = true,
	};
	struct fgt_why why;

	return fgt_deliveries_submit(delivery_world.deliveries, &order, &why);
}

static void unreachable_server_is_tried_again(void **state)
{
	(void)state;
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				"http://0123456789abcdef0123456789abcdef@"
				"127.0.0.1:1/42"),
			 0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().retried, 1);
	assert_int_equal(delivery_counters().waiting, 1);
	/* Who leaves tries once more, and does not wait for another time. */
	fgt_deliveries_leave(delivery_world.deliveries);
	delivery_run_until(2);
	assert_int_equal(delivery_counters().retried, 1);
	assert_int_equal(delivery_counters().failed, 1);
	assert_int_equal(delivery_counters().waiting, 0);
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 -ESHUTDOWN);
}

static void accepted_delivery_is_sent_before_leaving(void **state)
{
	(void)state;
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 0);
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 0);
	fgt_deliveries_leave(delivery_world.deliveries);
	assert_int_equal(submit_last_word(geteuid(), delivery_world.directory),
			 0);
	delivery_run_until(3);
	assert_int_equal(delivery_counters().delivered, 2);
	assert_int_equal(delivery_counters().failed, 1); /* that is no ring */
}

static void destination_beyond_its_queue_share_is_refused(void **state)
{
	(void)state;
	for (int i = 0; i < FGT_DELIVERIES_PER_DESTINATION; i++)
		assert_int_equal(submit(delivery_memfd("x", 1), 1000, "/there"),
				 0);
	assert_int_equal(submit(delivery_memfd("x", 1), 1000, "/there"),
			 -EBUSY);
	assert_int_equal(submit(delivery_memfd("x", 1), 1000, "/elsewhere"), 0);
	assert_int_equal(submit(delivery_memfd("x", 1), 1001, "/there"), 0);
	/* What has ended does not log it again. */
	for (int i = 0; i < FGT_DELIVERIES_LAST; i++)
		assert_int_equal(submit_last_word(1000, "/there"), 0);
	assert_int_equal(submit_last_word(1000, "/there"), -EBUSY);
}

static void user_beyond_its_queue_share_is_refused(void **state)
{
	unsigned int queued = 0;

	(void)state;
	for (uint32_t uid = 1000; uid < 1010; uid++)
		for (int i = 0; i < FGT_DELIVERIES_PER_USER + 1; i++) {
			char destination[32];
			int r;

			snprintf(destination, sizeof(destination), "/%d",
				 i % 10);
			r = submit(delivery_memfd("x", 1), uid, destination);
			if (i == FGT_DELIVERIES_PER_USER)
				assert_int_equal(r, -EBUSY);
			queued += r == 0;
		}
	assert_int_equal(queued, FGT_DELIVERIES_MAX);
	assert_int_equal(delivery_counters().refused,
			 10 * (FGT_DELIVERIES_PER_USER + 1) -
				 FGT_DELIVERIES_MAX);
}

/* One user's large rings leave room for those of others. */
static void user_beyond_its_memory_share_is_refused(void **state)
{
	const off_t large = FGT_DELIVERIES_BYTES_PER_USER / 2 + 4096;
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		fds[i] = delivery_memfd("x", 1);
		assert_int_equal(fallocate(fds[i], 0, 0, large), 0);
	}
	assert_int_equal(submit(fds[0], 1000, delivery_world.directory), 0);
	assert_int_equal(submit(fds[1], 1000, delivery_world.directory),
			 -EBUSY);
	assert_int_equal(submit(fds[2], 1001, delivery_world.directory), 0);
	/* A delivery that is too large all by itself could never be sent. */
	fds[0] = delivery_memfd("x", 1);
	assert_int_equal(fallocate(fds[0], 0, 0, 2 * large), 0);
	assert_int_equal(submit(fds[0], 1002, delivery_world.directory),
			 -EBUSY);
}

/* A server that takes connections and sends nothing. */
static int open_deaf_server(char *ret_destination, size_t size)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 64), 0);
	getsockname(fd, (struct sockaddr *)&address, &len);
	snprintf(ret_destination, size,
		 "http://0123456789abcdef0123456789abcdef@127.0.0.1:%d/42",
		 ntohs(address.sin_port));
	return fd;
}

static void slow_server_does_not_delay_other_users(void **state)
{
	char destinations[3][128];
	int servers[3];

	(void)state;
	if (geteuid() != 0)
		skip();
	for (int i = 0; i < 3; i++)
		servers[i] = open_deaf_server(destinations[i],
					      sizeof(destinations[i]));
	for (int i = 0; i < 12; i++)
		assert_int_equal(submit(delivery_slice_fd(), NOBODY,
					destinations[i % 3]),
				 0);
	assert_int_equal(
		submit(delivery_slice_fd(), 0, delivery_world.directory), 0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().delivered, 1);
	assert_int_equal(delivery_counters().active,
			 FGT_DELIVERIES_AT_WORK_PER_USER);
	for (int i = 0; i < 3; i++)
		close(servers[i]);
}

static void slow_server_does_not_delay_other_destinations(void **state)
{
	char destination[128];
	int server = open_deaf_server(destination, sizeof(destination));

	(void)state;
	for (int i = 0; i < FGT_DELIVERIES_PER_DESTINATION; i++)
		assert_int_equal(
			submit(delivery_slice_fd(), geteuid(), destination), 0);
	assert_int_equal(submit(delivery_slice_fd(), geteuid(),
				delivery_world.directory),
			 0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().delivered, 1);
	assert_int_equal(delivery_counters().active,
			 FGT_DELIVERIES_AT_WORK_PER_DESTINATION);
	close(server);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, delivery_set_up,                 \
					delivery_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slice_becomes_a_file),
		TEST(files_are_written_as_their_user),
		TEST(failed_delivery_leaves_the_others_alone),
		TEST(unreachable_server_is_tried_again),
		TEST(accepted_delivery_is_sent_before_leaving),
		TEST(destination_beyond_its_queue_share_is_refused),
		TEST(user_beyond_its_queue_share_is_refused),
		TEST(user_beyond_its_memory_share_is_refused),
		TEST(slow_server_does_not_delay_other_users),
		TEST(slow_server_does_not_delay_other_destinations),
	};

	fgt_log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
