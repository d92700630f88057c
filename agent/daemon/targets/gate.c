/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what of a target's ring a user may see. Runs in any thread.
 *
 * The sampler notes the execs of each target at the tick after them, before it
 * looks at a stack, so that a tick is certainly of the programs that are known
 * as soon as the next one has run (checked_ns). Of a process that was not the
 * user's plain own, only what came after that is shown.
 */
#include "agent/daemon/targets/gate.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/loop/aside.h"
#include "agent/daemon/socket/permission.h"

#define TRIES	    3
#define WAIT_MAX_NS UINT64_C(1000000000)
#define WAIT_LOOK   (&(struct timespec){ .tv_nsec = 2000000 })

struct owner_reading {
	int32_t pid;
	uint64_t start_time;
	struct fgt_owner owner;
	int result;
};

static void read_owner(void *context)
{
	struct owner_reading *reading = context;

	reading->result = fgt_owner_read(reading->pid, reading->start_time,
					 &reading->owner);
}

int fgt_gate_read_owner(int32_t pid, uint64_t start_time, uint32_t uid,
			struct fgt_owner *ret_owner)
{
	struct owner_reading reading = { .pid = pid, .start_time = start_time };
	int r = fgt_aside_run(read_owner, &reading, uid);

	if (r == 0)
		r = reading.result;
	if (r == 0)
		*ret_owner = reading.owner;
	return r;
}

int fgt_gate_refresh(struct fgt_target *target)
{
	struct fgt_program program;
	struct fgt_owner owner;
	int r;

	/* The number first: what is read may be of a later program. */
	fgt_target_get_program(target, &program);
	r = fgt_gate_read_owner(fgt_target_pid(target),
				fgt_target_start_time(target),
				program.owner.uid, &owner);
	if (r == 0)
		fgt_target_note_owner(target, program.number, &owner,
				      fgt_loop_now());
	return r;
}

/* An agent without rights has read nothing that its user could not read. */
static bool sees_all(const struct fgt_peer *peer)
{
	return peer->is_root || (!peer->is_stranger && peer->uid == geteuid() &&
				 !fgt_agent_has_rights());
}

int fgt_gate_ask(const struct fgt_gate *gate, struct fgt_target *target,
		 struct fgt_gate_range *ret_range)
{
	struct fgt_gate_range range = { .to_ns = UINT64_MAX };
	struct fgt_target_status status;
	struct fgt_program program;

	if (sees_all(&gate->peer)) {
		*ret_range = range;
		return 0;
	}
	fgt_target_get_status(target, &status);
	if (status.is_alive && fgt_gate_refresh(target) == -EAGAIN)
		return -EACCES;
	/* After the status: what that shows is of programs known by now. */
	fgt_target_get_program(target, &program);
	range.to_ns = status.checked_ns;
	if (fgt_owner_is_visible_to(&program.owner, &gate->peer))
		range.from_ns = program.plain_ns;
	else if (gate->program == program.number)
		range.from_ns = program.number > 1 ? program.begun_ns : 0;
	else
		return -EACCES;
	*ret_range = range;
	return 0;
}

uint64_t fgt_gate_program_of(const struct fgt_peer *peer,
			     const struct fgt_target *target)
{
	struct fgt_program program;

	fgt_target_get_program(target, &program);
	return peer->since_ns >= program.begun_ns ? program.number : 0;
}

int fgt_gate_wait(const struct fgt_target *target, uint64_t ns,
		  const atomic_bool *is_cancelled)
{
	uint64_t until_ns = fgt_loop_now() + WAIT_MAX_NS;
	struct fgt_target_status status;

	for (;;) {
		fgt_target_get_status(target, &status);
		if (!status.is_alive || status.checked_ns >= ns)
			return 0;
		if (status.is_stopped)
			return -ESTALE;
		if (fgt_loop_now() > until_ns)
			return -EACCES;
		if (is_cancelled &&
		    atomic_load_explicit(is_cancelled, memory_order_relaxed))
			return -ECANCELED;
		(void)nanosleep(WAIT_LOOK, NULL);
	}
}

static int cut_once(const struct fgt_gate *gate, struct fgt_target *target,
		    const struct fgt_gate_range *wanted,
		    struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_gate_range range, after;
	int r = fgt_gate_ask(gate, target, &range);

	if (r < 0)
		return r;
	if (range.from_ns < wanted->from_ns)
		range.from_ns = wanted->from_ns;
	if (range.to_ns > wanted->to_ns)
		range.to_ns = wanted->to_ns;
	if (range.from_ns > range.to_ns)
		return -ENODATA;
	r = fgt_ring_cut(fgt_target_ring(target), range.from_ns, range.to_ns,
			 &slice);
	if (r < 0)
		return r;
	/* Later ticks may have been credited to earlier ones meanwhile. */
	r = fgt_gate_ask(gate, target, &after);
	if (r < 0)
		return r;
	if (after.from_ns > range.from_ns)
		return -EAGAIN;
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

int fgt_gate_cut(const struct fgt_gate *gate, struct fgt_target *target,
		 uint64_t from_ns, uint64_t to_ns,
		 const atomic_bool *is_cancelled,
		 struct fgt_ring_slice **ret_slice)
{
	const struct fgt_gate_range wanted = { from_ns, to_ns };
	int r = 0;

	if (sees_all(&gate->peer))
		return fgt_ring_cut(fgt_target_ring(target), from_ns, to_ns,
				    ret_slice);
	if (gate->program != 0)
		r = fgt_gate_wait(target, gate->asked_ns, is_cancelled);
	/* Detached since: the ring ends with what was checked. */
	r = r == -ESTALE ? 0 : r;
	for (int i = 0; r == 0 && i < TRIES; i++) {
		r = cut_once(gate, target, &wanted, ret_slice);
		if (r == 0)
			return 0;
		if (r == -EAGAIN && i + 1 < TRIES)
			r = 0;
	}
	return r;
}
