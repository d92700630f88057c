/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that becomes unreadable while it is sampled: a read of its
 * memory waits for a file system that does not answer.
 *
 * unreadable lock|stack|task FILE
 * unreadable proc FILE SOCKET
 *
 * lock: a thread faults on FILE and keeps the lock of the memory, for which
 * another one waits in order to write. stack: FILE lies over the upper part of
 * a thread's stack. task, proc: a thread lists /proc/self/task or /proc/self
 * into FILE and keeps the directory locked, for which another one waits in order
 * to add a file. Prints "ready", and does it after a line; proc does it after
 * SIGUSR1, and sends what it reads to the socket.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define FILE_BYTES (1u << 20)
#define ROOM_BYTES (64u << 10)

static char *memory;
static char *_Atomic stack; /* the upper half of a frame of a thread */
static int file;

static void wait_for_line(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
}

/* Its frame reaches up into the second half of the stack, and is filled once:
 * later its memory is not touched. */
__attribute__((noinline)) static int sleep_deep(void)
{
	static int is_filled;
	char room[ROOM_BYTES];

	if (!is_filled) {
		memset(room, 1, sizeof(room));
		stack = (char *)((unsigned long)(room + sizeof(room)) &
				 -4096ul) -
			ROOM_BYTES / 2;
		is_filled = 1;
	}
	usleep(3000);
	return room[0];
}

__attribute__((noinline)) static int one(void)
{
	return sleep_deep() + 1;
}

__attribute__((noinline)) static int other(void)
{
	return sleep_deep() + 2;
}

/* By turns, so that the callers are looked for each time. */
static void *work_deep(void *argument)
{
	for (;;)
		*(volatile char *)argument = (char)(one() + other());
}

static void *work_flat(void *argument)
{
	for (;;)
		usleep(3000);
	return argument;
}

static void *fault(void *argument)
{
	volatile char byte = memory[FILE_BYTES / 2];

	(void)byte;
	return argument;
}

static void *change_memory(void *argument)
{
	sleep(1);
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return argument;
}

static void *list(void *argument)
{
	int fd = open(argument, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	syscall(SYS_getdents64, fd, memory + FILE_BYTES / 2, 4096);
	return NULL;
}

static void *add_file(void *argument)
{
	char path[64];

	sleep(1);
	snprintf(path, sizeof(path), "%s/none", (char *)argument);
	open(path, O_CREAT | O_WRONLY, 0600);
	return NULL;
}

static void *wait_and_end(void *argument)
{
	sleep(2);
	return argument;
}

static void start(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 8 * FILE_BYTES);
	pthread_create(&thread, &attributes, run, argument);
}

static void lock_directory(char *path)
{
	start(list, path);
	start(add_file, path);
	start(wait_and_end, NULL);
}

static void *lock_after_signal(void *signals)
{
	int number;

	sigwait(signals, &number);
	lock_directory("/proc/self");
	return NULL;
}

static int send_input(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static sigset_t signals;
	char bytes[4096];
	ssize_t len;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return 1;
	start(lock_after_signal, &signals);
	puts("ready");
	fflush(stdout);
	while ((len = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
		if (write(fd, bytes, (size_t)len) != len)
			return 1;
	return 0;
}

static int begin(const char *what)
{
	if (strcmp(what, "task") == 0) {
		lock_directory("/proc/self/task");
	} else if (strcmp(what, "lock") == 0) {
		start(change_memory, NULL);
		start(fault, NULL);
	} else if (mmap(stack, ROOM_BYTES / 2, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) {
		return 1;
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	static volatile char byte;

	file = argc >= 3 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return 2;
	memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		      file, 0);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, FILE_BYTES, MADV_RANDOM);
	if (argc == 4)
		return send_input(argv[3]);
	start(strcmp(argv[1], "stack") == 0 ? work_deep : work_flat,
	      (void *)&byte);
	usleep(200000);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	return begin(argv[1]);
}
