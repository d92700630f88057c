/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control socket in a new directory, and the loop behind it. Every
 * function fails the running test when it cannot do its work.
 */
#ifndef FGT_TESTS_UNIT_CONTROL_KIT_H
#define FGT_TESTS_UNIT_CONTROL_KIT_H

#include "agent/daemon/socket/control.h"

/* A request or a reply may take so long: much longer than this process may be
 * kept from its CPU. */
#define CONTROL_TIMEOUT_MS 500

struct control_bench {
	char directory[64];
	char path[80];
	struct fgt_loop *loop;
	struct fgt_listener listener;
	struct fgt_control *control;
};

/* Requests go to options.handle. */
void control_bench_open(struct control_bench *bench,
			struct fgt_control_options options);
void control_bench_close(struct control_bench *bench);

/* Lets a loop run for ms, or until a callback stops it. */
void control_run_loop(struct fgt_loop *loop, unsigned int ms);
/* Lets the loop of the bench run for ms, then a few rounds more. */
void control_spin(struct control_bench *bench, unsigned int ms);

/* Descriptors of this process. */
size_t control_count_descriptors(void);

#endif
