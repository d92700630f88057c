/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads whose return addresses lie in files that no loader would take: each
 * file is mapped as it is, as code, and a function in it is called that calls
 * back. An unwinder of the thread has to read the file.
 *
 * stand OFFSET FILE…
 *
 * OFFSET: of the function, in each FILE, in hexadecimal. It must be code that
 * needs no loader. The thread of the first file is called f0, and so on.
 * Prints "ready N": how many files could be mapped.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPPED_MAX  (1 << 20) /* sparse files may be larger */
#define STACK_BYTES (64 << 10)
#define TURNS	    20000
#define PAUSE_US    15000

typedef void rest_fn(void);
typedef int stand_fn(rest_fn *rest);

static unsigned long offset;
static volatile uint64_t anchor;

static void rest_a_while(void)
{
	for (;;) {
		for (unsigned int i = 0; i < TURNS; i++)
			anchor = anchor * 33 + i;
		usleep(PAUSE_US);
	}
}

/* NULL: it cannot be mapped. */
static char *map_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *memory;

	if (fd < 0 || fstat(fd, &status) < 0)
		return NULL;
	memory = mmap(NULL,
		      status.st_size < MAPPED_MAX ? (size_t)status.st_size
						  : MAPPED_MAX,
		      PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

static void *stand_thread(void *memory)
{
	((stand_fn *)(uintptr_t)((char *)memory + offset))(rest_a_while);
	return NULL;
}

static int start(const char *path, int number)
{
	char *memory = map_file(path), name[16];
	pthread_attr_t attributes;
	pthread_t thread;

	if (!memory)
		return 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (pthread_create(&thread, &attributes, stand_thread, memory))
		return 0;
	snprintf(name, sizeof(name), "f%d", number);
	pthread_setname_np(thread, name);
	return 1;
}

int main(int argc, char **argv)
{
	int started = 0;

	if (argc < 3)
		return 2;
	offset = strtoul(argv[1], NULL, 16);
	for (int i = 2; i < argc; i++)
		started += start(argv[i], i - 2);
	printf("ready %d\n", started);
	fflush(stdout);
	for (;;)
		pause();
}
