/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the process that registers and has it sampled. Runs as a job; must not
 * believe a process about any other than itself.
 */
#include "agent/daemon/programs/registration.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"
#include "agent/daemon/socket/permission.h"
#include "agent/daemon/targets/targets.h"

/*
 * SO_PEERCRED names the process that connected; a child that inherited the
 * connection may send, while the process has become another program. It gets
 * what any process of that user could have asked for.
 */
static int check_owner(const struct fgt_registration *facts,
		       struct fgt_why *why)
{
	struct fgt_owner owner;

	if (facts->gate.peer.is_root || facts->gate.peer.is_sender)
		return 0;
	if (fgt_owner_read(facts->pid, facts->start_time, &owner) < 0)
		return fgt_why_set(why, -ESRCH, "the process has ended");
	if (fgt_owner_is_visible_to(&owner, &facts->gate.peer))
		return 0;
	return fgt_why_set(why, -EPERM,
			   "not permitted: only a process itself may "
			   "register it");
}

/* Its pid may be another's by now, while a child holds the connection. */
static bool has_ended(int peer_fd)
{
	struct pollfd poll_fd = { .fd = peer_fd, .events = POLLIN };

	return peer_fd < 0 || poll(&poll_fd, 1, 0) != 0;
}

static int open_process(struct fgt_registration *facts, int peer_fd,
			struct fgt_why *why)
{
	struct fgt_process process;
	char name[sizeof(facts->name)] = ""; /* if it cannot be read */
	int r = fgt_process_open(facts->gate.peer.pid, &process, why);

	if (r == 0 && has_ended(peer_fd)) {
		fgt_process_close(&process);
		r = fgt_why_set(why, -ESRCH, "the process has ended");
	}
	if (r < 0)
		return r;
	facts->pid = facts->gate.peer.pid;
	facts->start_time = process.start_time;
	/* Now: after its end, its pid may be another process's. */
	(void)fgt_procfs_read_line(process.proc_fd, "comm", name, sizeof(name));
	memcpy(facts->name, name, sizeof(name));
	facts->pid_fd = FGT_TAKE_FD(process.pidfd);
	fgt_process_close(&process);
	r = check_owner(facts, why);
	return r < 0 ? r
		     : fgt_delivery_places_open(facts->pid, facts->pid_fd,
						facts->gate.peer.uid,
						&facts->places, why);
}

/*
 * Which program was attached. One that its user may not see, and that was
 * sampled before, may have called exec since its last tick.
 */
static void take_program(struct fgt_registration *facts)
{
	struct fgt_target *target = facts->target;
	struct fgt_program program;
	struct fgt_gate_range range;

	if (!facts->gate.peer.is_sender)
		return;
	if (fgt_gate_ask(&facts->gate, target, &range) < 0) {
		if (fgt_gate_wait(target, facts->gate.asked_ns, NULL) < 0)
			return;
		facts->needs_confirmation = true;
	}
	fgt_target_get_program(target, &program);
	facts->program = program.number;
}

int fgt_registration_attach(struct fgt_registration *facts,
			    struct fgt_targets *targets, int peer_fd,
			    struct fgt_why *why)
{
	int r = open_process(facts, peer_fd, why);

	if (r < 0 || facts->is_embedded)
		return r;
	r = fgt_targets_register(targets, facts->pid, facts->start_time,
				 fgt_charged_uid(&facts->gate.peer),
				 &facts->target, why);
	if (r < 0)
		return r;
	take_program(facts);
	/* Without descriptors left its slices have stacks only. */
	(void)fgt_target_set_spans(facts->target, facts->spans_fd);
	return 0;
}
