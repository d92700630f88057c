/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors in a program that closes those that it did not open.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/base/owner.h"

static int open_apart(void)
{
	int fd = fgt_fd_apart(open("/dev/null", O_RDONLY | O_CLOEXEC));

	assert_true(fd > 2);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* SIGXFSZ would end the program, before its main() at times. */
static void memory_beyond_the_limit_of_files_is_refused(void **state)
{
	struct rlimit before, low;
	int fd = -1;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low = before;
	low.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(fgt_memfd_open("test", 8192, &fd), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(fd, -1);
}

static void moved_descriptors_are_closed(void **state)
{
	int fd = open_apart();

	(void)state;
	fgt_fd_close(fd);
	assert_false(is_open(fd));
	/* It is known no more: whatever has the number now is closed. */
	assert_int_equal(dup2(STDOUT_FILENO, fd), fd);
	fgt_fd_close(fd);
	assert_false(is_open(fd));
}

static void files_of_the_program_are_not_closed(void **state)
{
	int pipe_fds[2], fd = open_apart();

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(dup2(pipe_fds[0], fd), fd);
	fgt_fd_close(fd);
	assert_true(is_open(fd));
	close(fd);
	fd = open_apart();
	close(fd);
	fgt_fd_close(fd);
	assert_false(is_open(fd));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void what_has_become_a_pipe_is_not_taken_for_the_file(void **state)
{
	int pipe_fds[2], fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	int last = fd;
	char byte;

	(void)state;
	assert_int_equal(fgt_fd_pread(&fd, &byte, 1, 0), 1);
	assert_int_equal(fd, last);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(dup2(pipe_fds[0], fd), fd);
	assert_int_equal(fgt_fd_pread(&fd, &byte, 1, 1), -1);
	assert_int_equal(fd, -1);
	close(last);
	fd = last;
	assert_int_equal(fgt_fd_pread(&fd, &byte, 1, 1), -1);
	assert_int_equal(fd, -1);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void moved_descriptors_are_recognised(void **state)
{
	int fd = open_apart(), other;

	(void)state;
	assert_true(fgt_fd_apart_is_kept(fd));
	close(fd);
	assert_false(fgt_fd_apart_is_kept(fd));
	other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(dup2(other, fd), fd);
	assert_false(fgt_fd_apart_is_kept(fd));
	/* A descriptor that was never moved is not recognised. */
	assert_true(fgt_fd_apart_is_kept(other));
	assert_true(fgt_fd_apart_is_kept(-1));
	fgt_fd_close(fd);
	close(fd);
	close(other);
}

/* Two owners of one number would close each other's file. */
static void number_has_one_owner(void **state)
{
	int a = open_apart(), b = open_apart(), c, d;

	(void)state;
	close(a);
	close(b);
	c = open_apart();
	d = open_apart();
	assert_true(c != a && c != b && d != a && d != b);
	fgt_fd_close(b);
	fgt_fd_close(a);
	assert_true(is_open(c));
	assert_true(is_open(d));
	fgt_fd_close(c);
	fgt_fd_close(d);
	assert_false(is_open(c));
	assert_false(is_open(d));
}

static int begin(void **state)
{
	(void)state;
	fgt_fd_apart_begin();
	return 0;
}

/* The numbers of moved descriptors first; the program can use small ones. */
static void numbers_are_counted_wherever_they_are(void **state)
{
	struct rlimit before, few;
	int fds[256], count = 0, fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ 256, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 128)) >= 0)
		fds[count++] = fd;
	assert_true(count > 0);
	assert_true(fgt_fd_apart_has_room(STDOUT_FILENO));
	assert_true(fgt_fd_apart_count_free(256) > 50);
	assert_int_equal(fgt_fd_apart_count_free(7), 7);
	while ((fd = dup(STDOUT_FILENO)) >= 0)
		fds[count++] = fd;
	assert_false(fgt_fd_apart_has_room(STDOUT_FILENO));
	assert_int_equal(fgt_fd_apart_count_free(256), 0);
	few.rlim_cur = 2048;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_true(fgt_fd_apart_has_room(STDOUT_FILENO));
	assert_int_equal(fgt_fd_apart_count_free(1024), 1024);
	while (count > 0)
		close(fds[--count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_counted_wherever_they_are),
		cmocka_unit_test(memory_beyond_the_limit_of_files_is_refused),
		cmocka_unit_test(moved_descriptors_are_closed),
		cmocka_unit_test(files_of_the_program_are_not_closed),
		cmocka_unit_test(
			what_has_become_a_pipe_is_not_taken_for_the_file),
		cmocka_unit_test(moved_descriptors_are_recognised),
		cmocka_unit_test(number_has_one_owner),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
