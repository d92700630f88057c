/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that made themselves known through the library: who they are, what
 * they passed, and who is told when they want something or die.
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_H
#define FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/socket/control.h"
#include "ringbuf/base/owner.h"

struct fgt_service;
struct fgt_target;

#define FGT_REGISTRATION_TEXT	     1023 /* bytes of a destination */
#define FGT_REGISTRATION_RELEASE     200
#define FGT_REGISTRATION_ENVIRONMENT 64

/* One process, as long as its connection is open. The loop's; what is here
 * does not change. */
struct fgt_registration {
	int32_t pid;
	uint64_t start_time;
	uint32_t uid, gid;
	bool is_embedded; /* it samples itself */
	char name[64]; /* comm, when it registered; "" if not known */
	char destination[FGT_REGISTRATION_TEXT + 1]; /* "": none */
	char release[FGT_REGISTRATION_RELEASE + 1];
	char environment[FGT_REGISTRATION_ENVIRONMENT + 1];
	int spans_fd; /* memfd of its span log, -1 */
	int ring_fd; /* memfd of its own ring, -1 */
	int pid_fd; /* of the process */
	struct fgt_target *target; /* a reference; NULL if is_embedded */
};

/* Who works for registered processes. All in the loop; members may be NULL. */
struct fgt_registration_calls {
	/*
	 * Verb deliver of a registered process. Exactly one of
	 * fgt_control_reply, _fail and _park follows before this returns; if
	 * parked, its gone is called before the registration goes.
	 */
	void (*deliver)(void *context,
			const struct fgt_registration *registration,
			struct fgt_control_client *client,
			const struct fgt_message *request);
	/*
	 * It has ended without saying bye: pid_fd is readable; perhaps it is a
	 * zombie still. Whoever needs the descriptors or the target longer
	 * takes copies.
	 */
	void (*died)(void *context,
		     const struct fgt_registration *registration);
	void *context;
};

struct fgt_registrations;

/* The service is borrowed. -ENOMEM. */
int fgt_registrations_new(struct fgt_service *service,
			  struct fgt_registrations **ret_registrations);
/* After the clients are gone. */
void fgt_registrations_free(struct fgt_registrations *registrations);
FGT_DEFINE_AUTO(struct fgt_registrations *, fgt_registrations_free);

/* Copied; before the first request. */
void fgt_registrations_set_calls(struct fgt_registrations *registrations,
				 const struct fgt_registration_calls *calls);

/* The verb register: answers the client in the end, whatever happens. */
void fgt_registrations_submit(struct fgt_registrations *registrations,
			      struct fgt_control_client *client,
			      const struct fgt_message *request);

/* From now on connections that end are not looked into. */
void fgt_registrations_leave(struct fgt_registrations *registrations);

size_t fgt_registrations_count(const struct fgt_registrations *registrations);

#endif
