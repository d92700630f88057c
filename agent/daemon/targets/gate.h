/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one gate of slice, deliver, crash, targets and status: may this user see
 * this program, and since which exec? It is asked when a request comes, and
 * again when its data have been cut out of the ring: the process may have
 * become another program meanwhile, and yet another one again.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_GATE_H
#define FGT_AGENT_DAEMON_TARGETS_GATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/capture/target.h"
#include "agent/daemon/socket/control.h"

/* Who asks. */
struct fgt_gate {
	struct fgt_peer peer;
	/*
	 * The program that asks for itself, whatever its rights: see
	 * fgt_program. 0: none, or not certain.
	 */
	uint64_t program;
	/* When it asked: execs before are known then. */
	uint64_t asked_ns;
};

/* What of a ring may be seen; CLOCK_MONOTONIC, from ≤ to unless nothing. */
struct fgt_gate_range {
	uint64_t from_ns, to_ns;
};

/*
 * Reads the owner of a process that lives. -EACCES: the user may not see the
 * program that it is now, or was when it ended, or it cannot be read.
 */
int fgt_gate_ask(const struct fgt_gate *gate, struct fgt_target *target,
		 struct fgt_gate_range *ret_range);

/*
 * A program that asks for itself: which one was it for certain when its
 * connection was made, and still is? 0: not certain. Each byte of its request
 * must have been sent by its process, see fgt_peer.is_sender: the beginning may
 * be of another program, which has become it since.
 */
uint64_t fgt_gate_program_of(const struct fgt_peer *peer,
			     const struct fgt_target *target);

/*
 * Cuts what of the range the gate lets through. A program that asks for itself
 * waits for the tick that shows whether it has become another one, at most a
 * second; is_cancelled ends that (NULL: nothing does). -EACCES, -ENODATA
 * nothing of the range, -ECANCELED; the errors of fgt_ring_cut().
 */
int fgt_gate_cut(const struct fgt_gate *gate, struct fgt_target *target,
		 uint64_t from_ns, uint64_t to_ns,
		 const atomic_bool *is_cancelled,
		 struct fgt_ring_slice **ret_slice);

/* Waits for the tick that shows every exec before that instant, at most a
 * second. -EACCES: it did not come; -ESTALE: none will come; -ECANCELED. */
int fgt_gate_wait(const struct fgt_target *target, uint64_t ns,
		  const atomic_bool *is_cancelled);

/* Once a second: reads the owner, which may change without an exec. Errors as
 * below. */
int fgt_gate_refresh(struct fgt_target *target);

/* fgt_owner_read() for any thread, see aside.h; uid: whose process it was last.
 * -EAGAIN: it does not let itself be read. */
int fgt_gate_read_owner(int32_t pid, uint64_t start_time, uint32_t uid,
			struct fgt_owner *ret_owner);

#endif
