/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small service, of which each program of this folder makes one with one
 * fault: a thread receives requests and queues them, workers handle them, a
 * backend answers their questions, a flusher writes a log. At a known time the
 * fault begins, and it ends after FAULT_MS.
 */
#ifndef FGT_TESTS_FAULTS_SERVICE_H
#define FGT_TESTS_FAULTS_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAULT_MS 800

/* Kept in stacks under its name. */
#define STEP __attribute__((noinline, noclone))

struct fault {
	void (*prepare)(void); /* before the threads are there; NULL: nothing */
	/* In a worker, for each request during the fault. */
	void (*handle)(void);
	/* In a thread of its name, once when the fault begins. */
	void (*act)(void);
	const char *actor;
	int workers; /* 0: 6 */
};

/*
 * Runs it for the seconds in argv[1] before the fault, and two after it; prints
 * {"from": …, "to": …} of the fault, CLOCK_MONOTONIC ns, then waits until
 * standard input ends. Returns main's status.
 */
int run_service(const struct fault *fault, int argc, char **argv);

/* The service's lock around its cache, which each request takes briefly. */
extern pthread_mutex_t g_cache_lock;
extern pthread_rwlock_t g_config_lock; /* read by each request */

bool is_faulty(void); /* now */
uint64_t now_ns(void);
void burn_us(unsigned int us); /* of CPU time */
void start_thread_named(const char *name, void *(*run)(void *));

#endif
