/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes OpenTelemetry contexts of a process and of its threads (OTEP 4719
 * and 4947) that make sense and then do not: bits, lengths and addresses
 * change all the time, and the memory below them comes and goes.
 *
 * liar SEED. Prints "ready PID", works until its input ends.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d61
#define PR_SET_VMA_ANON_NAME 0
#endif

#define PAGE	4096
#define THREADS 4
#define RECORD	28 /* bytes, without attributes */

void set_context(void *record);

struct header {
	char signature[8];
	uint32_t version, payload_size;
	uint64_t published_at_ns, payload;
};

/* Resource { attributes { "service.name": "liar", "host": "x" } } */
static const uint8_t payload[] = "\x0a\x27\x0a\x16\x0a\x0cservice.name\x12\x06"
				 "\x0a\x04liar\x0a\x0d\x0a\x04host\x12\x05\x0a"
				 "\x03xyz";
static const uint64_t extremes[] = { 0,		 1,	     4096,
				     UINT32_MAX, 1ull << 47, UINT64_MAX - 4096,
				     UINT64_MAX };

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static void nap(uint64_t *random)
{
	const struct timespec time = { .tv_nsec =
					       (long)(next(random) % 3000000) };

	nanosleep(&time, NULL);
}

/* One of some changes to bytes[len], or none. */
static void mutate(uint64_t *random, uint8_t *bytes, size_t len)
{
	static const uint8_t odd[] = { 0, 1, 0x0a, 0x12, 0x7f, 0x80, 0xff };

	for (uint64_t i = next(random) % 4; i > 0; i--) {
		size_t at = next(random) % len;

		bytes[at] = next(random) & 1 ? odd[next(random) % sizeof(odd)]
					     : (uint8_t)next(random);
	}
}

static uint64_t extreme(uint64_t *random)
{
	return extremes[next(random) % (sizeof(extremes) / sizeof(*extremes))];
}

static uint8_t *map_named(void)
{
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	uint8_t *page;

	if (fd < 0 || ftruncate(fd, PAGE) < 0)
		abort();
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		abort();
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, PAGE, "OTEL_CTX");
	return page;
}

static void publish(uint64_t *random, struct header *header)
{
	uint8_t *bytes = (uint8_t *)(header + 1);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	header->published_at_ns = 0;
	header->version = next(random) % 8 ? 2 : (uint32_t)extreme(random);
	header->payload_size = next(random) % 6 ? sizeof(payload) - 1
						: (uint32_t)extreme(random);
	header->payload = next(random) % 6 ? (uintptr_t)bytes : extreme(random);
	memcpy(bytes, payload, sizeof(payload));
	mutate(random, bytes, sizeof(payload) - 1);
	memcpy(header->signature, "OTEL_CTX", 8);
	header->published_at_ns = next(random) % 8
					  ? (uint64_t)now.tv_sec * 1000000000u +
						    (uint64_t)now.tv_nsec
					  : extreme(random);
}

/* The page of a thread's records, or another one, or none. */
static void *work(void *context)
{
	uint64_t random = (uintptr_t)context;
	uint8_t *page = map_named();

	for (;;) {
		uint8_t *record = page + next(&random) % (PAGE - RECORD);

		for (size_t i = 0; i < 24; i++)
			record[i] = (uint8_t)next(&random);
		record[24] = 1;
		memset(record + 25, 0, 3);
		mutate(&random, record, RECORD);
		if (next(&random) % 4 == 0)
			record = page + PAGE - next(&random) % RECORD;
		if (next(&random) % 4 == 0)
			record = (uint8_t *)extreme(&random);
		set_context(record);
		for (volatile unsigned int i = 0; i < 20000; i++)
			;
		nap(&random);
		if (next(&random) % 64)
			continue;
		munmap(page, PAGE); /* the variable still points to it */
		nap(&random);
		page = map_named();
	}
	return NULL;
}

static void *publish_on(void *context)
{
	uint64_t random = (uintptr_t)context;
	struct header *header = (struct header *)map_named();

	for (;;) {
		publish(&random, header);
		nap(&random);
		if (next(&random) % 256 == 0) {
			munmap(header, PAGE);
			header = (struct header *)map_named();
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uintptr_t seed = argc > 1 ? strtoul(argv[1], NULL, 10) * 1000 + 1 : 1;
	pthread_t thread;
	char byte;

	for (uintptr_t i = 0; i <= THREADS; i++)
		if (pthread_create(&thread, NULL, i ? work : publish_on,
				   (void *)(seed + i)))
			return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
