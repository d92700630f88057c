/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of the library: calls of the program that are under way, and the
 * worker. While there are users, nothing that they use is freed.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_START_START_H
#define FGT_AGENT_LIB_START_START_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/lib/library.h"

/*
 * Between enter and leave fgt_stop() frees nothing: it waits, at most
 * timeout_ms or 1.25 s, then leaves the freeing to the last caller that leaves.
 * Errors of fgt_library_check().
 */
int fgt_library_enter(void);
void fgt_library_leave(void);
/* A user makes another thread one, also while the library stops. */
void fgt_library_hold(void);

/* -ESHUTDOWN if fgt_stop() comes first. Between enter and leave. */
int fgt_library_wait_until(uint64_t when_ns);

/* Worker, after each round. is_idle: the parts have done all that was due
 * before the round; wanted: see fgt_worker_want(). */
void fgt_library_round_ended(bool is_idle, uint64_t wanted);

/* In the order of their start. */
#define FGT_PARTS 6
extern const struct fgt_part *const fgt_parts[FGT_PARTS];

/* $FGTRACE_OUT started the recording, which then ends at exit. */
bool fgt_preload_holds(void);
/* Writes that recording, and stops it. */
void fgt_preload_end(void);

#endif
