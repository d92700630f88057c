/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault S18: reads by io_uring whose requests wait in threads of the kernel
 * that look like the program's; and waits for many requests that must not end
 * before the last one, also in threads that never waited before, beside a
 * thread that works and has other waits.
 *
 * workers SECONDS    exits 77 where io_uring is not permitted
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

#define ENTRIES	  4096u
#define BATCHES	  8
#define NEWCOMERS 20

struct ring {
	int fd;
	unsigned char *queue; /* both, in one mapping */
	size_t queue_bytes;
	struct io_uring_sqe *entries;
	struct io_uring_params params;
};

static atomic_uint *field(const struct ring *ring, unsigned int offset)
{
	return (atomic_uint *)(void *)(ring->queue + offset);
}

static int open_ring(struct ring *ring)
{
	size_t bytes;

	ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP))
		return 77;
	bytes = ring->params.cq_off.cqes +
		ring->params.cq_entries * sizeof(struct io_uring_cqe);
	if (bytes < ring->params.sq_off.array + ENTRIES * sizeof(unsigned int))
		bytes = ring->params.sq_off.array +
			ENTRIES * sizeof(unsigned int);
	ring->queue_bytes = bytes;
	ring->queue = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring->fd, IORING_OFF_SQ_RING);
	ring->entries = mmap(NULL, ENTRIES * sizeof(struct io_uring_sqe),
			     PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			     IORING_OFF_SQES);
	return ring->queue == MAP_FAILED || (void *)ring->entries == MAP_FAILED
		       ? 77
		       : 0;
}

static void close_ring(struct ring *ring)
{
	munmap(ring->entries, ENTRIES * sizeof(struct io_uring_sqe));
	munmap(ring->queue, ring->queue_bytes);
	close(ring->fd);
}

static void submit_read(struct ring *ring, int fd, void *buffer, unsigned len)
{
	atomic_uint *tail = field(ring, ring->params.sq_off.tail);
	unsigned int index = atomic_load(tail) & (ENTRIES - 1);

	ring->entries[index] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC, /* always by a worker */
		.fd = fd,
		.addr = (uintptr_t)buffer,
		.len = len,
	};
	atomic_store(field(ring, ring->params.sq_off.array) + index, index);
	atomic_fetch_add(tail, 1);
	syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0);
}

static int take_result(struct ring *ring)
{
	atomic_uint *head = field(ring, ring->params.cq_off.head);
	const struct io_uring_cqe *results =
		(void *)(ring->queue + ring->params.cq_off.cqes);
	int result;

	while (atomic_load(field(ring, ring->params.cq_off.tail)) ==
	       atomic_load(head))
		if (syscall(SYS_io_uring_enter, ring->fd, 0, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -errno;
	result = results[atomic_load(head) & (ring->params.cq_entries - 1)].res;
	atomic_fetch_add(head, 1);
	return result;
}

/* Makes many empty system calls, which take long, then waits shortly. */
static void fill_batch(struct ring *ring, long long pause_ns)
{
	static struct {
		long long s, ns;
	} pause;
	atomic_uint *tail = field(ring, ring->params.sq_off.tail);
	unsigned int first = atomic_load(tail);

	pause.ns = pause_ns;
	for (unsigned int i = 0; i < ENTRIES; i++) {
		unsigned int index = (first + i) & (ENTRIES - 1);

		ring->entries[index] = (struct io_uring_sqe){
			.opcode = i ? IORING_OP_NOP : IORING_OP_TIMEOUT,
			.addr = i ? 0 : (uintptr_t)&pause,
			.len = i == 0,
		};
		atomic_store(field(ring, ring->params.sq_off.array) + index,
			     index);
	}
	atomic_fetch_add(tail, ENTRIES);
}

/* False: the wait ended too early. */
static bool run_batch(struct ring *ring, long long pause_ns)
{
	atomic_uint *head = field(ring, ring->params.cq_off.head);
	atomic_uint *end = field(ring, ring->params.cq_off.tail);
	bool is_whole;

	fill_batch(ring, pause_ns);
	is_whole = syscall(SYS_io_uring_enter, ring->fd, ENTRIES, ENTRIES,
			   IORING_ENTER_GETEVENTS, NULL, 0) == ENTRIES &&
		   atomic_load(end) - atomic_load(head) == ENTRIES;
	while (atomic_load(end) - atomic_load(head) != ENTRIES)
		syscall(SYS_io_uring_enter, ring->fd, 0, ENTRIES,
			IORING_ENTER_GETEVENTS, NULL, 0);
	atomic_store(head, atomic_load(end));
	return is_whole;
}

/* Works, then waits for the first time, for its own ring. */
static void *come_newly(void *argument)
{
	struct ring ring = { .fd = -1 };
	unsigned long *wrong = argument;

	zoo_burn_ms(20);
	if (open_ring(&ring) != 0) {
		++*wrong;
		return NULL;
	}
	*wrong += !run_batch(&ring, 5000000);
	close_ring(&ring);
	return NULL;
}

/* One after the other. */
static unsigned long run_newcomers(void)
{
	unsigned long wrong = 0;
	pthread_t thread;

	for (int i = 0; i < NEWCOMERS; i++) {
		if (pthread_create(&thread, NULL, come_newly, &wrong))
			return NEWCOMERS;
		pthread_join(thread, NULL);
	}
	return wrong;
}

static void *work_and_rest(void *argument)
{
	(void)argument;
	for (;;) {
		zoo_burn_ms(20);
		zoo_sleep_ms(10);
	}
	return NULL;
}

static void start_worker(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work_and_rest, NULL) == 0)
		pthread_detach(thread);
}

int main(int argc, char **argv)
{
	struct ring ring = { .fd = -1 };
	unsigned int turns = 0, most = 0;
	unsigned long wrong = 0;
	uint64_t end_ns;
	int ends[2];

	zoo_begin();
	end_ns = zoo_now_ns() +
		 (uint64_t)(argc > 1 ? atoi(argv[1]) : 2) * 1000000000u;
	if (pipe(ends) < 0 || open_ring(&ring) != 0)
		return 77;
	start_worker();
	/* The recorder knows waits only of threads that it saw waiting. */
	wrong += !run_batch(&ring, 50000000);
	wrong += run_newcomers();
	while (zoo_now_ns() < end_ns) {
		char written[8] = "abcdefg", got[8] = "";
		unsigned int threads;

		submit_read(&ring, ends[0], got, sizeof(got));
		zoo_burn_ms(20);
		threads = zoo_count_entries("/proc/self/task");
		most = threads > most ? threads : most;
		wrong += write(ends[1], written, 8) != 8;
		wrong += take_result(&ring) != 8;
		wrong += memcmp(got, written, 8) != 0;
		for (int i = 0; i < BATCHES; i++)
			wrong += !run_batch(&ring, 300000);
		turns++;
	}
	printf("# %u reads, %u threads\n", turns, most);
	zoo_end();
	return zoo_note("workers", wrong + !turns);
}
