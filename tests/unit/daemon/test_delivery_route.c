/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which destinations of the configuration a delivery goes to, and who may name
 * them; through real delivering processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_job.h"
#include "tests/unit/daemon/delivery_kit.h"

#define NOBODY 65534

static int route(uint32_t uid, const char *destination)
{
	const struct fgt_delivery_asker asker = { destination, uid };
	const struct fgt_delivery_order order = {
		.pid = 4242,
		.uid = uid,
		.gid = uid,
		.kind = FGT_DELIVERY_FILE,
		.fds = { { delivery_slice_fd(), -1, -1, -1, -1 } },
		.event_id = "0123456789abcdef0123456789abcdef",
	};
	struct fgt_why why = { "" };
	int r = fgt_deliveries_route(delivery_world.deliveries, &order, &asker,
				     &why);

	assert_int_equal(r < 0, why.text[0] != 0);
	return r;
}

static unsigned int count_files(const char *ending)
{
	DIR *directory = opendir(delivery_world.directory);
	struct dirent *entry;
	unsigned int count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += strstr(entry->d_name, ending) != NULL;
	closedir(directory);
	return count;
}

static void slice_without_destination_goes_to_all_of_transactions(void **state)
{
	(void)state;
	assert_int_equal(route(geteuid(), ""), -ENOENT);
	delivery_configure("upload:{destinations=("
			   "{name=\"a\";directory=\"%s\";format=\"chrome\"},"
			   "{name=\"b\";directory=\"%s\";format=\"folded\"},"
			   "{name=\"c\";directory=\"%s\";format=\"fgt\"},"
			   "{name=\"d\";directory=\"/nonexistent\"});"
			   "transactions=[\"a\",\"b\",\"d\"]}",
			   delivery_world.directory, delivery_world.directory,
			   delivery_world.directory);
	assert_int_equal(route(geteuid(), ""), 0);
	delivery_run_until(3);
	assert_int_equal(delivery_counters().delivered, 2);
	assert_int_equal(delivery_counters().failed, 1);
	assert_int_equal(count_files(".trace.json"), 1);
	assert_int_equal(count_files(".folded"), 1);
	assert_int_equal(count_files(".fgt"), 0);
	/* The same id again: it has been queued. */
	assert_int_equal(route(geteuid(), ""), 0);
	assert_int_equal(
		delivery_counters().waiting + delivery_counters().active, 0);
	assert_int_equal(route(geteuid(), "c"), 0);
	delivery_run_until(4);
	assert_int_equal(count_files(".fgt"), 1);
}

static void other_users_name_only_those_of_transactions(void **state)
{
	(void)state;
	delivery_configure(
		"upload:{destinations=({name=\"a\";directory=\"%s\"},"
		"{name=\"b\";directory=\"%s\"});transactions=[\"a\"]}",
		delivery_world.directory, delivery_world.directory);
	assert_int_equal(route(NOBODY, "b"), -EPERM);
	assert_int_equal(route(NOBODY, "absent"), -EPERM);
	assert_int_equal(route(geteuid(), "absent"), -ENOENT);
	assert_int_equal(route(geteuid(), "b"), 0);
	assert_int_equal(route(NOBODY, "a"), 0);
	delivery_run_until(2);
}

static struct fgt_destination_entry *entry_of(const char *name)
{
	return fgt_destinations_find(&delivery_world.deliveries->destinations,
				     name);
}

/* A slice that was delivered may come again. */
static void forget_accepted(void)
{
	memset(&delivery_world.deliveries->accepted, 0,
	       sizeof(delivery_world.deliveries->accepted));
}

/* As after a restart, which knows nothing of the former agent. */
static void sequence_does_not_repeat_after_a_restart(void **state)
{
	char text[200];
	uint64_t before;

	(void)state;
	snprintf(text, sizeof(text),
		 "upload:{destinations=({name=\"a\";"
		 "directory=\"%s\"})}",
		 delivery_world.directory);
	delivery_configure("%s", text);
	assert_int_equal(route(geteuid(), "a"), 0);
	delivery_run_until(1);
	before = entry_of("a")->sequence;
	delivery_configure("%s", "");
	forget_accepted();
	delivery_configure("%s", text);
	assert_int_equal(entry_of("a")->sequence, 0);
	assert_int_equal(route(geteuid(), "a"), 0);
	assert_true(entry_of("a")->sequence > before);
	/* A clock that is set back. */
	entry_of("a")->sequence = before = UINT64_MAX / 2;
	assert_int_equal(fgt_destination_entry_next_sequence(entry_of("a")),
			 before + 1);
}

static void destination_without_its_secret_is_not_used(void **state)
{
	(void)state;
	delivery_configure(
		"upload:{destinations=({name=\"a\";dsn_file=\"%s/none\"},"
		"{name=\"b\";directory=\"%s\"});"
		"transactions=[\"a\",\"b\"]}",
		delivery_world.directory, delivery_world.directory);
	assert_int_equal(route(geteuid(), "a"), -ENOENT);
	assert_int_equal(route(geteuid(), ""), 0);
	delivery_run_until(1);
	assert_int_equal(delivery_counters().delivered, 1);
	assert_int_equal(entry_of("a")->dropped[FGT_DROP_REJECTED], 2);
	assert_non_null(strstr(entry_of("a")->error.text, "cannot be used"));
	forget_accepted();
	fgt_deliveries_leave(delivery_world.deliveries);
	assert_int_equal(route(geteuid(), "b"), -ESHUTDOWN);
	assert_int_equal(entry_of("b")->dropped[FGT_DROP_LEAVING], 1);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, delivery_set_up,                 \
					delivery_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slice_without_destination_goes_to_all_of_transactions),
		TEST(other_users_name_only_those_of_transactions),
		TEST(sequence_does_not_repeat_after_a_restart),
		TEST(destination_without_its_secret_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
