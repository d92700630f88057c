/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that registered through the library: their identity, what they
 * passed, what they ask for, and how they end.
 *
 * Runs in the loop's thread. AS-Unsafe unless a function has another note
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_H
#define FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/death.h"
#include "agent/daemon/targets/gate.h"
#include "ringbuf/base/owner.h"

struct fgt_config;
struct fgt_deliveries;
struct fgt_jobs;
struct fgt_target;
struct fgt_targets;
struct fgt_upload_limits;

/* One process, as long as its connection is open. The loop's; of what is here
 * only the gate's program changes. */
struct fgt_registration {
	int32_t pid;
	uint64_t start_time;
	uint32_t uid, gid;
	bool is_embedded; /* it samples itself */
	char name[64]; /* comm, when it registered; "" if not known */
	char destination[FGT_REQUEST_TEXT + 1]; /* "": none */
	char release[FGT_REQUEST_RELEASE + 1];
	char environment[FGT_REQUEST_ENVIRONMENT + 1];
	int spans_fd; /* memfd of its span log, -1 */
	int ring_fd; /* memfd of the ring that it writes, -1 */
	int pid_fd; /* of the process */
	/* Where it delivers: _NET and _ROOT, when it registered. */
	struct fgt_delivery_fds places;
	struct fgt_target *target; /* a reference; NULL if is_embedded */
	/* What its requests may have of the target; program: the one that has
	 * registered, as soon as a request after the reply confirms it. */
	struct fgt_gate gate;
	/* The target's program when it was attached; 0: it may have been
	 * another one that asked. */
	uint64_t program;
	bool needs_confirmation; /* it has no other right to what is its own */
};

struct fgt_registrations;

/* What it gets is borrowed; config: the one in force. -ENOMEM. */
int fgt_registrations_new(struct fgt_loop *loop, struct fgt_jobs *jobs,
			  struct fgt_targets *targets,
			  struct fgt_deliveries *deliveries,
			  struct fgt_config *const *config,
			  struct fgt_registrations **ret_registrations);
/* After the clients are gone. */
void fgt_registrations_free(struct fgt_registrations *registrations);

/* The verb register; context: struct fgt_registrations. Answers the client in
 * the end. */
void fgt_registrations_handle(void *context, struct fgt_control_client *client,
			      const struct fgt_request *request);

/* Calls finished for each transaction that a program which the agent samples
 * has handed over, after it was queued. */
void fgt_registrations_watch(
	struct fgt_registrations *registrations,
	void (*finished)(void *context, struct fgt_target *target,
			 const char *name, uint64_t begin_ns, uint64_t end_ns),
	void *context);

/* From now on the ends of connections are not examined. */
void fgt_registrations_leave(struct fgt_registrations *registrations);

size_t fgt_registrations_count(const struct fgt_registrations *registrations);
/* Registered processes ended by a signal, so far. */
uint64_t
fgt_registrations_crashes(const struct fgt_registrations *registrations);

/* ---- Its parts ---------------------------------------------------------- */

/*
 * The arguments of register: fills in what the request holds, and takes the
 * descriptors that came with it, also on errors. -EINVAL, with why.
 */
int fgt_registration_take(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_request_register *asked,
			  struct fgt_why *why);

/*
 * As a job: opens the process that the gate's peer is and has it sampled,
 * unless it records itself. peer_fd: a pidfd of it, -1. -ESRCH it has ended,
 * -EPERM another process asks; the errors of fgt_targets_register(); why is
 * set.
 */
int fgt_registration_attach(struct fgt_registration *facts,
			    struct fgt_targets *targets, int peer_fd,
			    struct fgt_why *why);

/* The verb deliver of a registered process: answers the client. limits: of the
 * configuration in force. 0, or the error of the answer. */
int fgt_program_deliver(struct fgt_deliveries *deliveries,
			const struct fgt_upload_limits *limits,
			const struct fgt_registration *registration,
			struct fgt_control_client *client,
			const struct fgt_request_deliver *asked);

/*
 * The gate of a request on the open connection. A child that holds a copy of it
 * gets what any process of its user may ask for.
 */
struct fgt_gate
fgt_registration_gate(const struct fgt_registration *registration,
		      const struct fgt_control_client *client);

/*
 * A process has ended without bye and its pidfd is readable. True: a signal
 * ended it that is not a request to end (see fgt_death_is_asked_for), or the
 * cause is not known. Then its last seconds are delivered, within limits, if it
 * named a destination, or upload.transactions does. The result goes to the log.
 */
bool fgt_crash_examine(struct fgt_deliveries *deliveries,
		       const struct fgt_upload_limits *limits,
		       const struct fgt_registration *registration);

#endif
