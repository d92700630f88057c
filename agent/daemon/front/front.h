/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front's own side (agent/daemon/requests/fronts.h is the daemon's): reads
 * the msgpack of one user's requests. Must not run in a process with rights.
 */
#ifndef FGT_AGENT_DAEMON_FRONT_FRONT_H
#define FGT_AGENT_DAEMON_FRONT_FRONT_H

#include "agent/daemon/requests/request.h"

/*
 * Decodes and checks the frame whole. What is no request, or has an argument
 * of another type or out of its range, becomes a refusal.
 *
 * MT-Unsafe | AS-Unsafe
 */
void fgt_request_read(const struct fgt_request_frame *frame,
		      struct fgt_request *ret_request);

/* The front's life; returns only if these are not its arguments. Early in
 * main(), while there is one thread. */
void fgt_front_serve_if_asked(int argc, char **argv);

#endif
