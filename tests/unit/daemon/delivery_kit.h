/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop with deliveries, and an empty directory to deliver into.
 */
#ifndef FGT_TESTS_UNIT_DAEMON_DELIVERY_KIT_H
#define FGT_TESTS_UNIT_DAEMON_DELIVERY_KIT_H

#include "agent/daemon/delivery/deliveries.h"

struct delivery_world {
	struct fgt_loop *loop;
	struct fgt_deliveries *deliveries;
	struct fgt_timer look, patience;
	char directory[64];
	uint64_t wanted; /* ends of deliveries to wait for */
	bool is_late;
};

extern struct delivery_world delivery_world;

int delivery_set_up(void **state);
int delivery_tear_down(void **state);
/* Text of a configuration. */
void delivery_configure(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

struct fgt_deliveries_counters delivery_counters(void);
/* Until so many have ended or are tried again; fails after a minute. */
void delivery_run_until(uint64_t wanted);

int delivery_memfd(const void *bytes, size_t len);
/* A .fgt file with names. */
int delivery_slice_fd(void);

#endif
