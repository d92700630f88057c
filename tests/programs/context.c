/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes an OpenTelemetry process context, written from the specification
 * alone (OTEP 4719), or one that is meant to mislead its readers.
 *
 * context WAY [KEY=VALUE…]
 *
 * Prints "ready PID". Each line of its input, words as above, is published in
 * the place of the former one, and answered by "done". Works a little all the
 * time. Ways:
 *   memfd, anon  as programs do; memfd closed, or memory with a name
 *   resource     the payload is a Resource, as programs had it until 2026
 *   writing      the time stays 0
 *   endless      a payload of 4 GiB
 *   nowhere      a payload where nothing is mapped
 *   changing     published again and again, by a thread
 *   garbage      a payload that is no protobuf
 *   silent       publishes, and then works no more
 *   none         publishes nothing yet
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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

#define PAGE	  4096
#define WORDS_MAX 16

struct header {
	char signature[8];
	uint32_t version, payload_size;
	_Atomic uint64_t published_at_ns;
	uint64_t payload;
};

static struct header *header;
static uint8_t *payloads[2]; /* one is published; of the heap: static data may
			      * lie in a mapped file, which is not read */
static volatile uint64_t anchor;
static atomic_bool is_silent;

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A field of bytes before at; the place where it begins. */
static uint8_t *before(uint8_t *at, unsigned int number, const void *bytes,
		       size_t len)
{
	at -= len;
	memmove(at, bytes, len);
	if (len > 127) {
		*--at = (uint8_t)(len >> 7);
		*--at = (uint8_t)(len | 0x80);
	} else {
		*--at = (uint8_t)len;
	}
	*--at = (uint8_t)(number << 3 | 2);
	return at;
}

/* From its end to its begin; the number of bytes, at the begin of page. */
static uint32_t encode(uint8_t *page, int is_resource, int count, char **words)
{
	uint8_t *end = page + PAGE, *at = end;

	while (count-- > 0) {
		char *equals = strchr(words[count], '=');
		uint8_t *pair = at, *value;

		if (!equals)
			continue;
		value = before(at, 1, equals + 1, strlen(equals + 1));
		at = before(pair, 2, value, (size_t)(pair - value));
		at = before(at, 1, words[count],
			    (size_t)(equals - words[count]));
		at = before(pair, 1, at, (size_t)(pair - at));
	}
	if (!is_resource)
		at = before(end, 1, at, (size_t)(end - at));
	memmove(page, at, (size_t)(end - at));
	return (uint32_t)(end - at);
}

static void map_header(const char *way)
{
	int fd = strcmp(way, "anon") ? memfd_create("OTEL_CTX", MFD_CLOEXEC)
				     : -1;

	if (fd >= 0 && ftruncate(fd, PAGE) < 0)
		abort();
	header = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		      fd >= 0 ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS, fd,
		      0);
	if (header == MAP_FAILED || madvise(header, PAGE, MADV_DONTFORK) < 0)
		abort();
	if (fd >= 0)
		close(fd);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, header, PAGE, "OTEL_CTX");
}

static void publish(const char *way, int count, char **words)
{
	static int which;
	uint8_t *page = payloads[which ^= 1];
	uint32_t size = encode(page, !strcmp(way, "resource"), count, words);

	if (!header)
		map_header(way);
	if (!strcmp(way, "garbage"))
		memset(page, 0xff, size = 100);
	atomic_store(&header->published_at_ns, 0);
	header->version = 2;
	header->payload_size = strcmp(way, "endless") ? size : UINT32_MAX;
	header->payload = strcmp(way, "nowhere") ? (uintptr_t)page : 4096;
	memcpy(header->signature, "OTEL_CTX", 8);
	if (strcmp(way, "writing"))
		atomic_store(&header->published_at_ns, boot_ns());
	atomic_store(&is_silent, !strcmp(way, "silent"));
}

static void *change(void *unused)
{
	for (;;)
		atomic_fetch_add(&header->published_at_ns, 1);
	return unused;
}

static void *work(void *unused)
{
	const struct timespec nap = { .tv_nsec = 2000000 };

	for (;;) {
		for (unsigned int i = 0; i < 20000; i++)
			anchor = anchor * 31 + i;
		if (atomic_load(&is_silent))
			pause();
		nanosleep(&nap, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	char line[1024], *words[WORDS_MAX];
	pthread_t thread;

	if (argc < 2)
		return 2;
	for (int i = 0; i < 2; i++)
		if (!(payloads[i] = malloc(PAGE)))
			return 1;
	if (strcmp(argv[1], "none"))
		publish(argv[1], argc - 2, argv + 2);
	if (pthread_create(&thread, NULL, work, NULL) ||
	    (!strcmp(argv[1], "changing") &&
	     pthread_create(&thread, NULL, change, NULL)))
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int count = 0;

		for (char *word = strtok(line, " \n");
		     word && count < WORDS_MAX; word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count)
			publish(words[0], count - 1, words + 1);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
