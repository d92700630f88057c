/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that work for one of four traces at a time, in a function of that
 * trace's name, and publish contexts, written from the specification alone
 * (OTEP 4719 and 4947).
 *
 * traced LIBRARY WAY [MS]; traced-own WAY [MS]; traced-transactions SOCKET [MS],
 * where libfgtrace publishes them. Prints "ready PID", works until
 * its input ends, then prints "span TID TRACE BEGIN END" for each span that has
 * ended, CLOCK_MONOTONIC in ns. A span takes 2.5 times MS (400). Ways:
 *   pointer   each span has a record, the variable changes
 *   in-place  a thread has one record, which changes
 *   hostile   records where nothing is mapped, unreadable, not valid, too short
 *   silent    without a process context
 */
#include <dlfcn.h>
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

#ifdef IS_LIBRARY
#include <fgtrace.h>
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d61
#define PR_SET_VMA_ANON_NAME 0
#endif

#define PAGE	4096
#define THREADS 3
#define TRACES	4
#define SPANS	4096

struct __attribute__((packed, aligned(2))) record {
	uint8_t trace_id[16], span_id[8];
	_Atomic uint8_t valid;
	uint8_t trace_flags;
	uint16_t attrs_size;
};

struct header {
	char signature[8];
	uint32_t version, payload_size;
	_Atomic uint64_t published_at_ns;
	uint64_t payload;
};

struct ended {
	int32_t tid;
	unsigned int trace;
	uint64_t begin_ns, end_ns;
};

static struct ended ended[SPANS];
static atomic_uint ended_count;
static const char *way;
static unsigned int part_ms = 400;
static volatile uint64_t anchor;
static atomic_uint_least64_t spans;

#ifdef IS_OWN
void set_context(void *record);
#elif !defined(IS_LIBRARY)
static void (*set_context)(void *record);
#endif

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef IS_LIBRARY
static void start_library(const char *socket)
{
	const struct fgt_options options = {
		.size = sizeof(options),
		.mode = FGT_AGENT,
		.socket = socket,
	};

	if (fgt_start(&options) < 0)
		abort();
}
#else
static void publish_process(void)
{
	/* Resource { attributes { "service.name": "traced" } } */
	static const char payload[] = "\x0a\x1a\x0a\x18\x0a\x0cservice.name"
				      "\x12\x08\x0a\x06traced";
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	struct header *header;

	if (fd < 0 || ftruncate(fd, PAGE) < 0)
		abort();
	header = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (header == MAP_FAILED || madvise(header, PAGE, MADV_DONTFORK) < 0)
		abort();
	close(fd);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, header, PAGE, "OTEL_CTX");
	header->version = 2;
	header->payload_size = sizeof(payload) - 1;
	memcpy(header + 1, payload, sizeof(payload));
	header->payload = (uintptr_t)(header + 1);
	memcpy(header->signature, "OTEL_CTX", 8);
	atomic_store(&header->published_at_ns, now_ns(CLOCK_BOOTTIME));
}
#endif

static void __attribute__((noinline)) burn_ms(unsigned int ms)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	while (now_ns(CLOCK_MONOTONIC) < end_ns)
		for (unsigned int i = 0; i < 1000; i++)
			anchor = anchor * 31 + i;
}

static void __attribute__((noinline)) sleep_ms(unsigned int ms)
{
	const struct timespec time = { .tv_nsec = ms * 1000000l };

	nanosleep(&time, NULL);
}

/* A function for each trace, so that a stack names it. */
#define TRACE(name)                                                            \
	static void __attribute__((noinline)) name(unsigned int ms)            \
	{                                                                      \
		burn_ms(ms);                                                   \
		sleep_ms(ms);                                                  \
		burn_ms(ms / 2);                                               \
		anchor++;                                                      \
	}
TRACE(span_of_1)
TRACE(span_of_2)
TRACE(span_of_3)
TRACE(span_of_4)

static void (*const traces[TRACES])(unsigned int) = { span_of_1, span_of_2,
						      span_of_3, span_of_4 };

#ifndef IS_LIBRARY
static void fill(struct record *record, unsigned int trace)
{
	uint64_t span = atomic_fetch_add(&spans, 1) + 1;

	atomic_store(&record->valid, 0);
	memset(record, 0, sizeof(*record));
	record->trace_id[0] = 0xfe;
	record->trace_id[15] = (uint8_t)(trace + 1);
	memcpy(record->span_id, &span, sizeof(span));
	atomic_store(&record->valid, 1);
}

/* A record that readers must not believe, or not be hurt by. */
static void *hostile(unsigned int i)
{
	static struct record *end;
	uint8_t *pages;

	if (!end) {
		pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED ||
		    mprotect(pages + PAGE, PAGE, PROT_NONE) < 0)
			abort();
		end = (struct record *)(pages + PAGE - sizeof(*end));
		memset(pages, 0xff, PAGE);
	}
	switch (i % 5) {
	case 0:
		return (void *)16; /* nothing there */
	case 1:
		return (uint8_t *)end + sizeof(*end); /* not readable */
	case 2:
		return end; /* valid is 255 */
	case 3:
		return (uint8_t *)end + 8; /* its end cannot be read */
	default:
		return (void *)UINT64_MAX;
	}
}
#endif

/* The context is set all that time. */
static void note(unsigned int trace, uint64_t begin_ns, uint64_t end_ns)
{
	unsigned int i = atomic_fetch_add(&ended_count, 1);

	if (i < SPANS)
		ended[i] = (struct ended){ gettid(), trace, begin_ns, end_ns };
}

static void print_spans(void)
{
	unsigned int count = atomic_load(&ended_count);

	for (unsigned int i = 0; i < count && i < SPANS; i++)
		if (ended[i].end_ns)
			printf("span %d %u %llu %llu\n", ended[i].tid,
			       ended[i].trace + 1,
			       (unsigned long long)ended[i].begin_ns,
			       (unsigned long long)ended[i].end_ns);
}

#ifdef IS_LIBRARY
/* A transaction of this thread for each span; every second one ends in another
 * thread, as those of event loops do. */
static void *end(void *transaction)
{
	fgt_transaction_finish(transaction);
	return NULL;
}

static void end_elsewhere(struct fgt_transaction *transaction)
{
	pthread_t other;

	if (pthread_create(&other, NULL, end, transaction) ||
	    pthread_join(other, NULL))
		abort();
}

static void *work(void *argument)
{
	unsigned int thread = (unsigned int)(uintptr_t)argument;

	for (unsigned int i = 0;; i++) {
		unsigned int trace = (i + thread) % TRACES;
		struct fgt_transaction *transaction =
			fgt_transaction_begin("traced", NULL);
		char header[64];
		uint64_t begin_ns;

		snprintf(header, sizeof(header), "00-fe%030x-%016x-01",
			 trace + 1, i + 1);
		if (!transaction ||
		    fgt_transaction_set_parent(transaction, header) < 0)
			abort();
		begin_ns = now_ns(CLOCK_MONOTONIC);
		traces[trace](part_ms + part_ms / 6 * thread);
		note(trace, begin_ns, now_ns(CLOCK_MONOTONIC));
		if (i % 2)
			fgt_transaction_finish(transaction);
		else
			end_elsewhere(transaction);
		sleep_ms(15);
	}
	return NULL;
}
#else
static void *work(void *argument)
{
	unsigned int thread = (unsigned int)(uintptr_t)argument;
	struct record records[2];

	memset(records, 0, sizeof(records));
	for (unsigned int i = 0;; i++) {
		unsigned int trace = (i + thread) % TRACES;
		struct record *record =
			&records[strcmp(way, "in-place") ? i % 2 : 0];
		uint64_t begin_ns;

		fill(record, trace);
		set_context(strcmp(way, "hostile") ? (void *)record
						   : hostile(i));
		begin_ns = now_ns(CLOCK_MONOTONIC);
		traces[trace](part_ms + part_ms / 6 * thread);
		note(trace, begin_ns, now_ns(CLOCK_MONOTONIC));
		if (strcmp(way, "in-place"))
			set_context(NULL);
		else
			atomic_store(&record->valid, 0);
		sleep_ms(15);
	}
	return NULL;
}
#endif

int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	if (argc < 2)
		return 2;
	if (argc > 2 && atoi(argv[argc - 1]) > 0)
		part_ms = (unsigned int)atoi(argv[--argc]);
	way = argv[argc - 1];
#ifdef IS_LIBRARY
	start_library(way);
#else
#ifndef IS_OWN
	void *library = dlopen(argv[1], RTLD_NOW);

	if (!library)
		return 1;
	*(void **)&set_context = dlsym(library, "set_context");
	if (!set_context)
		return 1;
#endif
	if (strcmp(way, "silent"))
		publish_process();
#endif
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, work, (void *)i))
			return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	print_spans();
	return 0;
}
