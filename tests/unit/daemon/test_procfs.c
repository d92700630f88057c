/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads below /proc/PID that do not return: a FIFO without a writer is in the
 * place of the file. And which pages a process owns.
 */
#include "agent/capture/threads/procfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

#define TRIES 5000 /* of a millisecond */

struct read {
	void (*run)(int dir_fd);
	int dir_fd;
	struct fgt_heartbeat *_Atomic heartbeat;
	bool has_gone_on;
};

static void *read_below(void *argument)
{
	struct read *read = argument;
	jmp_buf given_up;

	if (setjmp(given_up))
		return NULL;
	read->heartbeat = fgt_heartbeat_begin("test", &given_up);
	fgt_heartbeat_set(read->heartbeat, FGT_STEP_WORK, 5);
	read->run(read->dir_fd);
	read->has_gone_on = true;
	fgt_heartbeat_end();
	return NULL;
}

/* Is it given up in the call, and not before? */
static bool is_given_up(struct read *read)
{
	for (int i = 0; i < TRIES; i++) {
		struct fgt_heartbeat *heartbeat = read->heartbeat;
		uint64_t beat = heartbeat ? heartbeat->beat : 0;

		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		if (beat && fgt_beat_is_call(beat) &&
		    fgt_heartbeat_give_up(heartbeat, beat))
			return true;
	}
	return false;
}

static void assert_given_up(const char *name, void (*run)(int dir_fd))
{
	char folder[] = "/tmp/fgt-procfs-XXXXXX";
	struct read read = { .run = run };
	pthread_t thread;
	bool was_given_up;
	int fd;

	assert_non_null(mkdtemp(folder));
	read.dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkfifoat(read.dir_fd, name, 0600), 0);
	assert_int_equal(pthread_create(&thread, NULL, read_below, &read), 0);
	was_given_up = is_given_up(&read);
	fd = openat(read.dir_fd, name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (was_given_up)
		fgt_heartbeat_free(read.heartbeat);
	close(fd);
	assert_int_equal(unlinkat(read.dir_fd, name, 0), 0);
	close(read.dir_fd);
	assert_int_equal(rmdir(folder), 0);
	assert_true(was_given_up);
	assert_false(read.has_gone_on);
}

static void own_page(int dir_fd)
{
	(void)fgt_procfs_owns(dir_fd, 4096, 8);
}

static void read_text(int dir_fd)
{
	char text[8];

	(void)fgt_procfs_read(dir_fd, "stat", text, sizeof(text));
}

static void open_file(int dir_fd)
{
	(void)fgt_procfs_open(dir_fd, "task", O_RDONLY);
}

static void reads_that_do_not_return_can_be_given_up(void **state)
{
	(void)state;
	assert_given_up("pagemap", own_page);
	assert_given_up("stat", read_text);
	assert_given_up("task", open_file);
}

static bool owns(const char *at, size_t len)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fgt_procfs_owns(fd, (uint64_t)(uintptr_t)at, len);
}

static char *map(int fd, size_t len)
{
	char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void pages_that_were_written_to_are_owned(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *anonymous = map(-1, 2 * page), *file = map(fd, 2 * page);

	(void)state;
	assert_false(owns(anonymous, 8));
	*(volatile char *)anonymous = 1;
	assert_true(owns(anonymous, 8));
	assert_true(owns(anonymous + page - 8, 8));
	/* The next one was not. */
	assert_false(owns(anonymous + page - 4, 8));
	(void)*(volatile char *)file;
	assert_false(owns(file, 8));
	*(volatile char *)file = 1;
	assert_true(owns(file, 8));
	munmap(anonymous, 2 * page);
	munmap(file, 2 * page);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_that_do_not_return_can_be_given_up),
		cmocka_unit_test(pages_that_were_written_to_are_owned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
