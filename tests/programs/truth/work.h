/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose shares of the time are known; each takes so many ns.
 */
#ifndef TESTS_PROGRAMS_TRUTH_WORK_H
#define TESTS_PROGRAMS_TRUTH_WORK_H

#include <stdint.h>
#include <time.h>

#define NOINLINE   __attribute__((noinline, noclone))
#define NS_PER_MS  1000000ull
#define NS_PER_SEC 1000000000ull

/* Keeps work and calls from being optimised away or turned into jumps. */
extern volatile uint64_t truth_anchor;
extern uint64_t truth_end_ns; /* when all shall end, CLOCK_MONOTONIC */

uint64_t truth_now_ns(void);
struct timespec truth_timespec(uint64_t ns);

void burn_alpha(uint64_t ns);
void burn_beta(uint64_t ns);
void burn_gamma(uint64_t ns);
void block_nanosleep(uint64_t ns);
void block_until(uint64_t ns);
void block_futex(uint64_t ns);
void block_poll(uint64_t ns);
void block_ppoll(uint64_t ns);
void block_select(uint64_t ns);
void block_epoll(uint64_t ns);
void block_read(uint64_t ns);
void block_recv(uint64_t ns);
void block_sigwait(uint64_t ns);
void block_semop(uint64_t ns);

#endif
