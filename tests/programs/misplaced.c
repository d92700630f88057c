/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread whose stack, or whose code, lies in a mapped file, as a hostile
 * program may have it: the file system may not answer those who read there.
 *
 * misplaced stack|code FILE
 *
 * Prints "ready", waits for a line, and goes to sleep in FILE.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define FILE_BYTES  (1u << 20)
#define STACK_BYTES (64u << 10) /* the pages above it are never touched */

static ucontext_t before, inside;

static void sleep_long(void)
{
	for (;;)
		sleep(600);
}

static void wait_for_line(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
}

static int sleep_on_file(char *memory)
{
	memset(memory, 0, STACK_BYTES);
	getcontext(&inside);
	inside.uc_stack.ss_sp = memory;
	inside.uc_stack.ss_size = STACK_BYTES;
	inside.uc_link = &before;
	makecontext(&inside, sleep_long, 0);
	wait_for_line();
	return swapcontext(&before, &inside);
}

/* The file has a function that calls pause(2) for ever. */
static int sleep_in_file(char *memory)
{
	void (*function)(void) = (void (*)(void))memory;
	volatile char first = *memory;

	(void)first;
	wait_for_line();
	function();
	return 1;
}

int main(int argc, char **argv)
{
	bool is_code = argc == 3 && strcmp(argv[1], "code") == 0;
	int fd = argc == 3 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	char *memory;

	if (fd < 0)
		return 2;
	memory = mmap(NULL, FILE_BYTES,
		      PROT_READ | (is_code ? PROT_EXEC : PROT_WRITE),
		      MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return 1;
	/* No page is read before it is asked for. */
	madvise(memory, FILE_BYTES, MADV_RANDOM);
	close(fd);
	return is_code ? sleep_in_file(memory) : sleep_on_file(memory);
}
