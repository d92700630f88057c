/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the sampler share: a sampler, a child to sample, and questions
 * to the slice.
 */
#ifndef FGT_TESTS_UNIT_LIVE_TARGET_H
#define FGT_TESTS_UNIT_LIVE_TARGET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

#include "agent/capture/sampler.h"

struct fixture {
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_target *target;
	struct fgt_ring_slice *slice;
	pid_t child;
};

int set_up(void **state);
int tear_down(void **state);
#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* Runs the group; run by root, a second time as an ordinary user. */
int run_twice(int (*run_group)(const char *user));

/* Starts tests/programs/scenes; it is sampled after attach(). counters_fd: a
 * memfd for its counters, or -1. */
void start_child(struct fixture *fixture, const char *scene, int counters_fd);
void attach(struct fixture *fixture);
/* Cuts everything from from_ns on into fixture->slice. */
void cut(struct fixture *fixture, uint64_t from_ns);

/* Waits until the last 100 ms show all threads with stacks: on a busy machine
 * it takes some time until each has had a sample. */
void wait_for_stacks(struct fixture *fixture);

/* Share of ticks of the threads called name (any: NULL) in a state, per
 * cent. */
double share(const struct fgt_ring_slice *slice, const char *name,
	     const char *state_name);
unsigned int count_threads(const struct fgt_ring_slice *slice,
			   const char *name);
/* Does the stack show that it does not reach the thread's start? */
bool is_truncated(const struct fgt_ring_slice *slice, uint32_t node);

uint64_t now_ns(void);
/* Lets a target run, or a sampler sample it: both work in real time. */
void sleep_ms(unsigned int ms);

#endif
