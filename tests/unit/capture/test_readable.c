/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory of a process may be read: memory, shared memory and mapped
 * files, known to the maps or younger than they are (fault X7). The process is
 * this one.
 */
#include "agent/capture/stacks/readable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define PAGE 4096u

struct fixture {
	struct fgt_process process;
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	struct fgt_readable readable;
};

static void read_maps(struct fixture *fixture)
{
	fgt_maps_free(FGT_TAKE(fixture->maps));
	assert_int_equal(fgt_maps_read(fixture->process.proc_fd, getpid(),
				       fixture->cache, 0, &fixture->maps, NULL),
			 0);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	assert_int_equal(fgt_process_open(getpid(), &fixture->process, NULL),
			 0);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	read_maps(fixture);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	fgt_readable_done(&fixture->readable);
	fgt_maps_free(fixture->maps);
	fgt_image_cache_free(fixture->cache);
	fgt_process_close(&fixture->process);
	free(fixture);
	return 0;
}

/* Of two pages at a place. */
static int64_t ask(struct fixture *fixture, const char *place)
{
	fixture->readable.is_refused = false;
	return fgt_readable_bytes(&fixture->readable, &fixture->process,
				  fixture->maps, (uintptr_t)place, 2 * PAGE);
}

static char *map(int flags, int fd)
{
	char *place =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_ptr_not_equal(place, MAP_FAILED);
	return place;
}

static char *map_memory(void)
{
	return map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static char *map_program(void)
{
	FGT_AUTO(fgt_fd_close) int fd = open("/proc/self/exe", O_RDONLY);

	return map(MAP_PRIVATE, fd);
}

static bool is_refused(struct fixture *fixture, const char *place)
{
	return ask(fixture, place) == 0 && fixture->readable.is_refused;
}

static void file_is_refused_as_a_whole(void **state)
{
	struct fixture *fixture = *state;
	char *file = map_program();

	read_maps(fixture);
	assert_true(is_refused(fixture, file));
	assert_true(is_refused(fixture, file + 3 * PAGE));
	munmap(file, 4 * PAGE);
}

static void read_ends_where_a_file_begins(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = open("/proc/self/exe", O_RDONLY);
	char *place = map_memory();

	assert_ptr_equal(mmap(place + PAGE, PAGE, PROT_READ,
			      MAP_PRIVATE | MAP_FIXED, fd, 0),
			 place + PAGE);
	read_maps(fixture);
	assert_int_equal(ask(fixture, place + 8), PAGE - 8);
	munmap(place, 4 * PAGE);
}

static void memory_is_read_on_into_its_neighbour(void **state)
{
	struct fixture *fixture = *state;
	char *place = map_memory();

	assert_int_equal(mprotect(place, PAGE, PROT_READ), 0);
	read_maps(fixture);
	assert_int_equal(ask(fixture, place), 2 * PAGE);
	munmap(place, 4 * PAGE);
}

static void shared_memory_is_read(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = memfd_create("stack", MFD_CLOEXEC);
	char *shared = map(MAP_SHARED | MAP_ANONYMOUS, -1);
	char *stack = map(MAP_SHARED, fd);

	read_maps(fixture);
	assert_int_equal(ask(fixture, shared), 2 * PAGE);
	assert_int_equal(ask(fixture, stack), 2 * PAGE);
	munmap(shared, 4 * PAGE);
	munmap(stack, 4 * PAGE);
}

static bool can_ask(struct fixture *fixture)
{
	struct fgt_mapping mapping;

	return fgt_maps_query(fixture->process.proc_fd,
			      (uintptr_t)fixture->maps, &mapping) != -ENOTTY;
}

static void place_younger_than_the_maps_is_asked_for(void **state)
{
	struct fixture *fixture = *state;
	char *memory = map_memory(), *file = map_program();

	if (!can_ask(fixture))
		skip();
	assert_int_equal(ask(fixture, memory + PAGE), 2 * PAGE);
	assert_true(ask(fixture, memory + 3 * PAGE) >= PAGE);
	assert_true(is_refused(fixture, file));
	assert_int_equal(fixture->readable.count, 2);
	munmap(memory, 4 * PAGE);
	munmap(file, 4 * PAGE);
	assert_int_equal(ask(fixture, (char *)8), -ENOENT);
}

static void file_that_became_memory_is_read(void **state)
{
	struct fixture *fixture = *state;
	char *file = map_program();

	if (!can_ask(fixture))
		skip();
	read_maps(fixture);
	assert_ptr_equal(mmap(file, 4 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 file);
	assert_int_equal(ask(fixture, file), 2 * PAGE);
	munmap(file, 4 * PAGE);
}

static void without_a_query_only_what_the_maps_have_is_read(void **state)
{
	struct fixture *fixture = *state;
	char *memory = map_memory();

	fixture->readable.has_no_query = true;
	assert_true(is_refused(fixture, memory));
	read_maps(fixture);
	assert_int_equal(ask(fixture, memory), 2 * PAGE);
	munmap(memory, 4 * PAGE);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(file_is_refused_as_a_whole),
		TEST(read_ends_where_a_file_begins),
		TEST(memory_is_read_on_into_its_neighbour),
		TEST(shared_memory_is_read),
		TEST(place_younger_than_the_maps_is_asked_for),
		TEST(file_that_became_memory_is_read),
		TEST(without_a_query_only_what_the_maps_have_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
