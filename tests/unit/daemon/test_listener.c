/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket's name, directory and lock. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/socket/listener.h"

struct fixture {
	char top[64]; /* made by the test */
	char below[80]; /* made by the listener */
	char path[100];
	char lock[100];
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->top, "/tmp/fgt-listener-XXXXXX");
	if (!mkdtemp(fixture->top))
		return -errno;
	snprintf(fixture->below, sizeof(fixture->below), "%s/run",
		 fixture->top);
	snprintf(fixture->path, sizeof(fixture->path), "%s/agent.sock",
		 fixture->below);
	snprintf(fixture->lock, sizeof(fixture->lock), "%s/agent.lock",
		 fixture->below);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	unlink(fixture->path);
	unlink(fixture->lock);
	rmdir(fixture->below);
	rmdir(fixture->top);
	free(fixture);
	return 0;
}

static mode_t mode_of(const char *path)
{
	struct stat status;

	assert_int_equal(lstat(path, &status), 0);
	return status.st_mode & 07777;
}

static void socket_and_directory_have_their_modes(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_listener listener;
	struct fgt_why why;
	mode_t mask = umask(0022);

	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why), 0);
	umask(mask);
	assert_int_equal(mode_of(fixture->below), 0750);
	assert_int_equal(mode_of(fixture->path), 0660);
	assert_true(fcntl(listener.fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(listener.lock_fd, F_GETFD) & FD_CLOEXEC);
	fgt_listener_close(&listener);
	assert_int_equal(access(fixture->path, F_OK), -1);
	fgt_listener_close(&listener);
}

/* Opens the socket in a child, which waits to be killed. */
static pid_t start_holder(struct fixture *fixture)
{
	struct fgt_listener listener;
	struct fgt_why why;
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		if (fgt_listener_open(fixture->path, true, &listener, &why) <
			    0 ||
		    write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	return pid;
}

static void second_is_refused_with_the_pid_of_the_first(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_listener listener;
	char expected[40];
	struct fgt_why why;
	pid_t pid = start_holder(fixture);
	int fd;

	/* The text of the file is not believed. */
	fd = open(fixture->lock, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, "1\n", 2), 2);
	close(fd);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why),
		-EADDRINUSE);
	snprintf(expected, sizeof(expected), "pid %ld", (long)pid);
	assert_non_null(strstr(why.text, expected));
	assert_int_equal(access(fixture->path, F_OK), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why), 0);
	fgt_listener_close(&listener);
}

/* What kill -9 leaves: the name is there, no process listens, the lock is free
 * and its file names a process that has nothing to do with it. */
static void stale_socket_and_lock_are_replaced(void **state)
{
	struct fixture *fixture = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct fgt_listener listener;
	struct fgt_why why;
	int fd;

	assert_int_equal(mkdir(fixture->below, 0750), 0);
	strcpy(address.sun_path, fixture->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (void *)&address, sizeof(address)), 0);
	close(fd);
	fd = open(fixture->lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
	assert_int_equal(write(fd, "1\n", 2), 2);
	close(fd);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why), 0);
	assert_int_equal(mode_of(fixture->lock), 0600);
	fgt_listener_close(&listener);
}

static void *wait_for_ever(void *context)
{
	(void)context;
	for (;;)
		pause();
	return NULL;
}

/* As of a daemon that was killed: its first thread is over, another holds its
 * descriptors. */
static void run_ending_daemon(const char *path, int ready_fd)
{
	struct fgt_listener listener;
	struct fgt_why why;
	pthread_t thread;

	if (fgt_listener_open(path, true, &listener, &why) < 0 ||
	    pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
		_exit(1);
	(void)!write(ready_fd, "", 1);
	syscall(SYS_exit, 0);
}

static void wait_for_zombie(pid_t pid)
{
	char path[40], text[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 1000 && !strstr(text, ") Z "); i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		close(fd);
		poll(NULL, 0, 5);
	}
	assert_non_null(strstr(text, ") Z "));
}

/* Fault R6. Any user may lock a directory that may be read. */
static void ending_daemon_is_replaced_though_others_lock(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_listener listener, second;
	struct fgt_why why;
	int pair[2], directory_fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(pair), 0);
	pid = fork();
	if (pid == 0)
		run_ending_daemon(fixture->path, pair[1]);
	assert_int_equal(read(pair[0], &byte, 1), 1);
	wait_for_zombie(pid);
	directory_fd = open(fixture->below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(directory_fd, LOCK_EX), 0);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why), 0);
	assert_int_equal(mode_of(fixture->lock), 0600);
	assert_int_equal(fgt_listener_open(fixture->path, true, &second, &why),
			 -EADDRINUSE);
	fgt_listener_close(&listener);
	close(directory_fd);
	close(pair[0]);
	close(pair[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void live_socket_of_another_program_is_kept(void **state)
{
	struct fixture *fixture = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct fgt_listener listener;
	struct fgt_why why;
	int fd;

	assert_int_equal(mkdir(fixture->below, 0750), 0);
	strcpy(address.sun_path, fixture->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (void *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why),
		-EADDRINUSE);
	close(fd);
}

/* Fault C4. */
static void unsafe_places_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_listener listener;
	struct fgt_why why = { "" };
	char path[200];
	int fd;

	assert_int_equal(mkdir(fixture->below, 0700), 0);
	assert_int_equal(chmod(fixture->below, 0770), 0);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why),
		-EPERM);
	assert_non_null(strstr(why.text, "other users may write"));
	assert_int_equal(chmod(fixture->below, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(fixture->below, 65534, 65534), 0);
		assert_int_equal(
			fgt_listener_open(fixture->path, true, &listener, &why),
			-EPERM);
		assert_non_null(strstr(why.text, "belongs to user 65534"));
		assert_int_equal(chown(fixture->below, 0, 0), 0);
	}
	fd = open(fixture->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why),
		-EEXIST);
	/* No lock file was left beside it. */
	assert_int_equal(access(fixture->lock, F_OK), -1);
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	assert_int_equal(fgt_listener_open(path, true, &listener, &why),
			 -ENAMETOOLONG);
	assert_int_equal(fgt_listener_open("/tmp/", true, &listener, &why),
			 -EINVAL);
}

static void lock_that_is_a_link_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_listener listener;
	struct fgt_why why;

	assert_int_equal(mkdir(fixture->below, 0700), 0);
	assert_int_equal(symlink("/dev/null", fixture->lock), 0);
	assert_int_equal(
		fgt_listener_open(fixture->path, true, &listener, &why),
		-ELOOP);
}

#define LISTENER_TEST(name)                                                    \
	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void directory_of_another_path_is_not_made(void **state)
{
	struct fgt_listener listener;
	struct fgt_why why;
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "/tmp/fgtrace-none-%d/x.sock", getpid());
	assert_int_equal(fgt_listener_open(path, false, &listener, &why),
			 -ENOENT);
	assert_non_null(strstr(why.text, "does not exist"));
	*strrchr(path, '/') = '\0';
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LISTENER_TEST(socket_and_directory_have_their_modes),
		LISTENER_TEST(second_is_refused_with_the_pid_of_the_first),
		LISTENER_TEST(stale_socket_and_lock_are_replaced),
		LISTENER_TEST(live_socket_of_another_program_is_kept),
		LISTENER_TEST(ending_daemon_is_replaced_though_others_lock),
		LISTENER_TEST(unsafe_places_are_refused),
		LISTENER_TEST(lock_that_is_a_link_is_refused),
		LISTENER_TEST(directory_of_another_path_is_not_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
