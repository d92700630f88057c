/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process being sampled, as all threads see it: identity, ring, counters.
 * Reference counted: the sampler, each slice in work and the daemon hold one.
 */
#ifndef FGT_AGENT_CAPTURE_TARGET_H
#define FGT_AGENT_CAPTURE_TARGET_H

#include "agent/capture/threads/owner.h"
#include "agent/unwind/unwinder.h"
#include "ringbuf/ring/ring.h"

struct fgt_target;

struct fgt_target_status {
	int32_t pid;
	uint32_t uid; /* of the process at attach, re-read on exec */
	uint64_t start_time;
	bool is_alive; /* false: ended; the ring is still there */
	bool is_given_up; /* not alive: it may run, but cannot be sampled */
	bool is_stopped; /* by its end or a detach: no tick comes any more */
	uint64_t attached_ns, ended_ns; /* CLOCK_MONOTONIC; 0 if not */
	/* The signal that ended it; "": none, or not known. */
	char ended_by[FGT_ENDED_BY_MAX];
	/* Ticks up to this one show no program that began later than those
	 * that are known. */
	uint64_t checked_ns;
	uint32_t threads; /* alive now */
	double effective_hz;
	double rate_hz; /* aimed at now */
	uint32_t rate_periods; /* of the sampler, to a tick; 1: not lowered */
	double cpu_percent; /* of one core, for sampling it */
	uint64_t ticks, missed_ticks;
	uint64_t samples_running, samples_blocked; /* snapshots taken */
	uint64_t torn; /* thrown away: the thread moved meanwhile */
	uint64_t lost_waker_stacks; /* more than were kept between two ticks */
	uint64_t credited_ticks; /* shown by the sample after them */
	/* Of threads that ended before a tick knew them; see
	 * fgt_who_ran.read_brief. */
	uint64_t brief_threads, brief_cpu_ns;
	/* Child processes that ended while they were not sampled; counted where
	 * the source reports ends. */
	uint64_t unsampled_children;
	const char *who_ran; /* provider: "bpf", "schedstat", "clock" */
	const char *running; /* source: "perf-cpu", "perf-thread", "ptrace",
			     * "signal", "cpu-time" */
	/* Up to a second old. */
	struct fgt_unwind_stats unwind;
	char name[64];
	char exe[512];
	char title[FGT_TITLE_MAX]; /* what it calls itself, or "" */
	struct fgt_service service;
	char rate_note[200]; /* why the rate is lowered, or "" */
	char limitation[240]; /* what is not permitted and the remedy, or "" */
	struct fgt_ring_stats ring;
};

struct fgt_target *fgt_target_get(struct fgt_target *target);
void fgt_target_put(struct fgt_target *target);
FGT_DEFINE_AUTO(struct fgt_target *, fgt_target_put);

/* Valid as long as the reference is held. MT-Safe */
const struct fgt_ring *fgt_target_ring(const struct fgt_target *target);
int32_t fgt_target_pid(const struct fgt_target *target);
uint64_t fgt_target_start_time(const struct fgt_target *target);
bool fgt_target_is_alive(const struct fgt_target *target);
bool fgt_target_is_given_up(const struct fgt_target *target);
/* MT-Safe; figures are of the last tick. */
void fgt_target_get_status(const struct fgt_target *target,
			   struct fgt_target_status *ret_status);

/*
 * From now on its slices hold the spans that it writes into a span log, see
 * ringbuf/spans/span_log.h. memfd is borrowed; -1: none. errno of dup(2).
 *
 * MT-Safe
 */
int fgt_target_set_spans(struct fgt_target *target, int memfd);
/* Is that what it was given, and not closed since by a program that records
 * itself? MT-Safe */
bool fgt_target_has_spans(struct fgt_target *target, int memfd);
/* … and those that its sampler writes into this one, once. Takes it over. */
struct fgt_span_log;
void fgt_target_set_traces(struct fgt_target *target, struct fgt_span_log *log);
/* Adds both to a slice that was just cut, and what the whole machine lacked. A
 * log that makes no sense adds nothing. -ENOMEM. MT-Safe */
int fgt_target_cut_spans(struct fgt_target *target,
			 struct fgt_ring_slice *slice);

/* Adds the signal that ended it, if that was before to_ns. MT-Safe */
void fgt_target_cut_end(struct fgt_target *target, uint64_t to_ns,
			struct fgt_ring_slice *slice);

/* Adds what is known of threads that ended between two of its ticks, to within
 * a second. MT-Safe */
void fgt_target_cut_brief(struct fgt_target *target,
			  struct fgt_ring_slice *slice);

/*
 * ---- Whose program it is ---------------------------------------------------
 *
 * A process becomes another program by exec, which may have other rights. The
 * sampler notices each at the tick after it, before it looks at a stack.
 */

struct fgt_program {
	uint64_t number; /* counts the execs that were noticed, from 1 */
	/* No tick before shows it, and the process has been no other one since;
	 * of the first one: when it was attached. */
	uint64_t begun_ns;
	uint64_t first_exec_ns; /* likewise of the second one; 0: not yet */
	struct fgt_owner owner;
	/* Since then the process has been plain, and of this user and group;
	 * of the first program: 0. */
	uint64_t plain_ns;
};

/* MT-Safe */
void fgt_target_get_program(const struct fgt_target *target,
			    struct fgt_program *ret_program);

/*
 * What was read of its owner while it was the program of that number; of no
 * effect if it is another by now. What becomes plain counts as such a little
 * later, so that no sample of the time before is shown.
 *
 * MT-Safe
 */
void fgt_target_note_owner(struct fgt_target *target, uint64_t number,
			   const struct fgt_owner *owner, uint64_t now_ns);

/*
 * ---- How it ended ----------------------------------------------------------
 *
 * The sampler hands over the pidfd of a process that has ended, and the daemon
 * learns the rest, which may have to wait for the parent.
 */

/* Takes it over. MT-Safe */
void fgt_target_keep_pidfd(struct fgt_target *target, int pidfd);
/* The caller's from now on; -1: none. MT-Safe */
int fgt_target_take_pidfd(struct fgt_target *target);
/* MT-Safe */
void fgt_target_note_signal(struct fgt_target *target, const char *name);

/* ---- The sampler's ------------------------------------------------------ */

/* It is another program from this tick on. is_continuous: between two plain
 * ones there was certainly no third. MT-Safe */
void fgt_target_note_exec(struct fgt_target *target,
			  const struct fgt_owner *owner, bool is_continuous,
			  uint64_t tick_ns);

/* The ring belongs to the target then. owner: of the program that is sampled
 * first. -ENOMEM. */
int fgt_target_new(struct fgt_ring *ring,
		   const struct fgt_target_status *status,
		   const struct fgt_owner *owner,
		   struct fgt_target **ret_target);
/*
 * Shows a new status, with the texts (which are too much for each tick) or
 * without. limitation: in the place of the status's, or NULL.
 */
void fgt_target_show(struct fgt_target *target,
		     const struct fgt_target_status *status, bool has_texts,
		     const char *limitation);
/* It is sampled no longer, for that reason. MT-Safe */
void fgt_target_give_up(struct fgt_target *target, uint64_t now_ns,
			const char *reason);
/* Keeps the counts that the status has, about once a second, in order. */
void fgt_target_note_brief(struct fgt_target *target, uint64_t now_ns,
			   uint64_t threads, uint64_t cpu_ns);
/* In the child of a fork: closes its descriptors. AS-Safe */
void fgt_target_forked(const struct fgt_target *target);

#endif
