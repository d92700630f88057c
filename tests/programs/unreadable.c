/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that becomes unreadable while it is sampled: a read of its
 * memory waits for a file system that does not answer.
 *
 * unreadable lock|stack FILE
 *
 * lock: a thread faults on FILE and keeps the lock of the memory, for which
 * another one waits in order to write. stack: FILE lies over the upper part of
 * a thread's stack. Prints "ready", and does it after a line.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

static void start(void *(*run)(void *))
{
	static volatile char byte;
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 8 * FILE_BYTES);
	pthread_create(&thread, &attributes, run, (void *)&byte);
}

int main(int argc, char **argv)
{
	int is_lock = argc == 3 && strcmp(argv[1], "lock") == 0;

	file = argc == 3 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return 2;
	memory = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, FILE_BYTES, MADV_RANDOM);
	start(is_lock ? work_flat : work_deep);
	usleep(200000);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	if (is_lock) {
		start(change_memory);
		start(fault);
	} else if (mmap(stack, ROOM_BYTES / 2, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) {
		return 1;
	}
	for (;;)
		pause();
}
