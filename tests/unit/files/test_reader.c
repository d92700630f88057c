/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/files: the reader, and what is checked before a file is
 * opened. A stopped reader stands for one whose file system does not answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/open_file.h"
#include "ringbuf/base/clock.h"

#define TEXT "contents\n"

static char root[] = "/tmp/fgt-files-XXXXXX";
static int root_fd = -1;
static unsigned int explained;
static char explained_text[4096];

static void explain(uint32_t uid, const char *text)
{
	(void)uid;
	explained++;
	snprintf(explained_text, sizeof(explained_text), "%s", text);
}

static struct fgt_open_request request_of(const char *path)
{
	return (struct fgt_open_request){
		.place = FGT_OPEN_BELOW,
		.dir_fd = root_fd,
		.path = path,
		.uid = getuid(),
	};
}

static int open_path(const char *path)
{
	const struct fgt_open_request request = request_of(path);
	struct fgt_opened_file file = { .fd = -1 };
	int r = fgt_file_open(&request, &file);

	if (file.fd >= 0)
		close(file.fd);
	return r;
}

/* The only child of this process. */
static pid_t reader_pid(void)
{
	char path[64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	return (pid_t)strtol(text, NULL, 10);
}

static void files_are_opened_and_checked_first(void **state)
{
	struct fgt_open_request request = request_of("/file");
	struct fgt_file_version version;
	struct fgt_opened_file file;
	char text[32];

	(void)state;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	assert_int_equal(pread(file.fd, text, sizeof(text), 0), strlen(TEXT));
	assert_memory_equal(text, TEXT, strlen(TEXT));
	assert_int_equal(file.status.st_size, strlen(TEXT));
	close(file.fd);
	fgt_file_version_of(&file.status, &version);
	request.known = &version;
	assert_int_equal(fgt_file_open(&request, &file), -EALREADY);
	version.size++;
	request.is_copied = true;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	assert_int_equal(pread(file.fd, text, sizeof(text), 0), strlen(TEXT));
	assert_memory_equal(text, TEXT, strlen(TEXT));
	close(file.fd);
	request.size_max = strlen(TEXT) - 1;
	assert_int_equal(fgt_file_open(&request, &file), -EFBIG);
	assert_int_equal(open_path("/none"), -ENOENT);
	assert_int_equal(open_path("/fifo"), -EINVAL);
	assert_int_equal(open_path("/"), -EINVAL);
	assert_int_equal(open_path("/outside"), -ENOENT);
	assert_int_equal(open_path("/link"), 0);
	request = request_of("/link");
	request.is_link_refused = true;
	assert_int_equal(fgt_file_open(&request, &file), -ELOOP);
	request = request_of("/file");
	request.is_of_user = true;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	close(file.fd);
	if (getuid() == 0)
		return;
	request.uid++;
	assert_int_equal(fgt_file_open(&request, &file), -EPERM);
}

static void files_of_processes_are_opened_by_their_links(void **state)
{
	int proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct fgt_open_request request = { .place = FGT_OPEN_LINK,
					    .dir_fd = proc_fd,
					    .path = "exe" };
	struct fgt_opened_file file;
	struct stat status;

	(void)state;
	assert_int_equal(stat("/proc/self/exe", &status), 0);
	request.dev = status.st_dev;
	request.ino = status.st_ino;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	assert_int_equal(file.status.st_ino, status.st_ino);
	close(file.fd);
	request.ino++;
	assert_int_equal(fgt_file_open(&request, &file), -ESTALE);
	request = (struct fgt_open_request){ .place = FGT_OPEN_BELOW_PROCESS,
					     .dir_fd = proc_fd,
					     .path = "/file" };
	assert_int_equal(fgt_file_open(&request, &file), -ENOENT);
	request = (struct fgt_open_request){ .place = FGT_OPEN_ROOT,
					     .dir_fd = proc_fd };
	assert_int_equal(fgt_file_open(&request, &file), 0);
	assert_int_equal(fstat(file.fd, &status), 0);
	assert_true(S_ISDIR(status.st_mode));
	close(file.fd);
	close(proc_fd);
}

static void killed_readers_are_replaced(void **state)
{
	(void)state;
	assert_int_equal(open_path("/file"), 0);
	kill(reader_pid(), SIGKILL);
	usleep(50000);
	assert_int_equal(open_path("/file"), 0);
}

/* Fault X7. */
static void readers_that_do_not_answer_are_given_up(void **state)
{
	struct fgt_open_request request = request_of("/file");
	struct fgt_opened_file file;
	uint64_t began_ns;
	pid_t stopped;

	(void)state;
	request.is_urgent = true;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	close(file.fd);
	usleep(50000);
	stopped = reader_pid();
	kill(stopped, SIGSTOP);
	began_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(fgt_file_open(&request, &file), -ETIMEDOUT);
	assert_in_range(fgt_clock_ns(CLOCK_MONOTONIC) - began_ns, 150000000,
			900000000);
	assert_int_equal(explained, 1);
	assert_non_null(strstr(explained_text, "/file"));
	assert_non_null(strstr(explained_text, "has been stopped"));
	assert_int_equal(fgt_file_open(&request, &file), -EBUSY);
	request.is_trusted = true;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	close(file.fd);
	request.is_trusted = false;
	request.uid++;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	close(file.fd);
	request.uid--;
	usleep(1100000);
	assert_int_equal(fgt_file_open(&request, &file), 0);
	close(file.fd);
	/* This one could end. */
	assert_int_equal(fgt_reader_count_lost(), 0);
	assert_int_equal(explained, 1);
}

static void requests_end_with_the_time_of_their_caller(void **state)
{
	struct fgt_open_request request = request_of("/file");
	struct fgt_opened_file file;
	int64_t left_ms = 0, took_ms;
	uint64_t began_ns;

	(void)state;
	request.left_ms = &left_ms;
	assert_int_equal(fgt_file_open(&request, &file), -ETIME);
	left_ms = 1000;
	began_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(fgt_file_open(&request, &file), 0);
	took_ms =
		(int64_t)((fgt_clock_ns(CLOCK_MONOTONIC) - began_ns) / 1000000);
	close(file.fd);
	/* No more than the caller has waited. */
	assert_in_range(left_ms, 1000 - took_ms, 1000);
}

static void closing_is_left_to_another_thread(void **state)
{
	struct fgt_open_request request = request_of("/file");
	struct fgt_opened_file file;
	struct stat status;

	(void)state;
	assert_int_equal(fgt_file_open(&request, &file), 0);
	assert_int_equal(fgt_file_status(file.fd, &status), 0);
	assert_int_equal(status.st_ino, file.status.st_ino);
	assert_int_equal(status.st_dev, file.status.st_dev);
	assert_int_equal(status.st_size, file.status.st_size);
	fgt_file_close_of(file.fd, getuid());
	for (int i = 0; i < 500 && fcntl(file.fd, F_GETFD) >= 0; i++)
		usleep(10000);
	assert_int_equal(fcntl(file.fd, F_GETFD), -1);
}

/* Far more than are closed at a time, and all of one user. */
static void many_files_at_once_are_all_closed(void **state)
{
	enum {
		FILES = 300
	};
	int fds[FILES], left = FILES;

	(void)state;
	for (int i = 0; i < FILES; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	for (int i = 0; i < FILES; i++)
		fgt_file_close_of(fds[i], getuid());
	for (int tries = 0; tries < 500 && left; tries++) {
		usleep(10000);
		left = 0;
		for (int i = 0; i < FILES; i++)
			left += fcntl(fds[i], F_GETFD) >= 0;
	}
	assert_int_equal(left, 0);
}

static void make_path(char path[64], const char *name)
{
	snprintf(path, 64, "%s/%s", root, name);
}

static int make_root(void **state)
{
	char path[64];
	FILE *file;

	(void)state;
	if (!mkdtemp(root))
		return -1;
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_path(path, "file");
	file = fopen(path, "we");
	if (!file)
		return -1;
	fputs(TEXT, file);
	fclose(file);
	make_path(path, "fifo");
	if (mkfifo(path, 0600))
		return -1;
	make_path(path, "link");
	if (symlink("file", path))
		return -1;
	make_path(path, "outside");
	return symlink("/proc/self/exe", path);
}

static int remove_root(void **state)
{
	static const char *const names[] = { "file", "fifo", "link",
					     "outside" };
	char path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		make_path(path, names[i]);
		unlink(path);
	}
	close(root_fd);
	return rmdir(root);
}

static int begin(void **state)
{
	(void)state;
	fgt_reader_begin(explain);
	return 0;
}

static int end(void **state)
{
	(void)state;
	fgt_reader_end();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_opened_and_checked_first),
		cmocka_unit_test(files_of_processes_are_opened_by_their_links),
		cmocka_unit_test_setup_teardown(
			files_are_opened_and_checked_first, begin, end),
		cmocka_unit_test_setup_teardown(
			files_of_processes_are_opened_by_their_links, begin,
			end),
		cmocka_unit_test_setup_teardown(killed_readers_are_replaced,
						begin, end),
		cmocka_unit_test_setup_teardown(
			readers_that_do_not_answer_are_given_up, begin, end),
		cmocka_unit_test_setup_teardown(
			closing_is_left_to_another_thread, begin, end),
		cmocka_unit_test_setup_teardown(
			many_files_at_once_are_all_closed, begin, end),
		cmocka_unit_test_setup_teardown(
			requests_end_with_the_time_of_their_caller, begin, end),
	};

	fgt_reader_serve_if_asked(argc, argv);
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
