/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread at one tick: sampled on a CPU, blocked, or neither. A look returns
 * a verdict, and writes nothing to the ring. All of it belongs to the sampler's
 * thread.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_H

#include "agent/capture/running/running.h"
#include "agent/capture/stacks/stacks.h"
#include "agent/capture/threads/thread_table.h"
#include "agent/capture/who_ran/who_ran.h"
#include "ringbuf/slice/wait.h"

/* ---- What a look finds -------------------------------------------------- */

enum fgt_verdict_kind {
	FGT_VERDICT_AS_BEFORE, /* the stack and state of the tick before */
	FGT_VERDICT_STACK, /* frames, in state */
	FGT_VERDICT_MARKED, /* the ring's stack below leaf, in state */
	FGT_VERDICT_ENDED, /* no tick has this thread any more */
};

enum fgt_refusal {
	FGT_REFUSAL_NONE,
	FGT_REFUSAL_OF_TARGET, /* not readable, perhaps for a short time */
	/* The program that records itself is not dumpable. */
	FGT_REFUSAL_NOT_DUMPABLE,
};

struct fgt_verdict {
	enum fgt_verdict_kind kind;
	enum fgt_refusal refusal;
	uint32_t state;
	enum fgt_marker leaf;
	/* Borrowed: of the tick, or kept of the thread. */
	const struct fgt_frame *frames;
	size_t frame_count;
	uint32_t credit_ticks; /* so many before this one belong to it */
	/* These ticks before this one had that state and stack; frames NULL:
	 * the stack that the ring has. */
	uint32_t past_ticks, past_state;
	const struct fgt_frame *past_frames;
	size_t past_count;
	/* Since the tick before; NULL: not known. Borrowed of the look. */
	const struct fgt_edge_list *edges;
	const struct fgt_wait *wait; /* why it is blocked; NULL: as before */
	/* It got or left a CPU since the tick before, shown by edges or not. */
	bool has_moved;
};

static inline struct fgt_verdict
fgt_verdict_stack(const struct fgt_frame *frames, size_t count, uint32_t state)
{
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_STACK,
		.state = state,
		.frames = frames,
		.frame_count = count,
	};
}

/* ---- CPU time not yet shown (account.c) --------------------------------- */

/*
 * The CPU time of one thread, and the time for which it waited for a CPU, where
 * no perf event of every CPU shows at each tick which threads are on a CPU.
 * Pure arithmetic.
 */
struct fgt_account {
	struct fgt_cpu_use seen; /* up to here it is on the account */
	int64_t due_ns; /* used and not shown; negative: shown too much */
	int64_t wait_due_ns; /* likewise of the time for which it waited */
};

/* Forgets what was before: the thread is older than the recording. */
void fgt_account_start(struct fgt_account *account,
		       const struct fgt_cpu_use *use);

/* Adds what came since. */
void fgt_account_add(struct fgt_account *account,
		     const struct fgt_cpu_use *use);

/* A tick is about to be shown as running: false if it is not paid for. */
bool fgt_account_take_tick(struct fgt_account *account, uint64_t period_ns);

/* A tick finds it running or waiting for a CPU: is it owed more of the latter?
 * Then the tick is taken from that. */
bool fgt_account_take_wait(struct fgt_account *account, uint64_t period_ns);
/* A tick finds it woken, without a CPU so far: false if that is not paid for,
 * and it may have been woken after the tick. */
bool fgt_account_take_woken(struct fgt_account *account, uint64_t period_ns);
/* So many ticks were waits: how many of them does the account pay for? */
uint32_t fgt_account_take_waits(struct fgt_account *account, uint64_t period_ns,
				uint32_t ticks);
/* A tick that was taken as running was waiting, or the other way round. */
void fgt_account_move_tick(struct fgt_account *account, uint64_t period_ns,
			   bool is_waiting);
/* It has waited, which fgt_account_add() was not given. */
void fgt_account_add_wait(struct fgt_account *account, uint64_t before_ns,
			  uint64_t after_ns);

/* Has it used the CPU for more ticks than chance leaves unshown? */
bool fgt_account_is_overdue(const struct fgt_account *account,
			    uint64_t period_ns);

/* Once a tick: what is too old to be made up for is written off. */
void fgt_account_age(struct fgt_account *account, uint64_t period_ns);

/* ---- What is known of a target and its threads -------------------------- */

/* One tick of one target. */
struct fgt_tick {
	uint64_t mono_ns, wall_ns;
	uint64_t number; /* of the target's tick */
	uint64_t missed; /* ticks before it that the sampler was too late for */
	uint64_t instant_ns; /* that it reports, where switches are known */
	uint64_t fired_ns; /* its events, where there are some of every CPU */
	uint64_t period_ns; /* that a tick of the target stands for */
	uint64_t event_ns; /* of CPU time, between samples of one thread */
	uint64_t timer_ns; /* the sampler's period */
	int64_t last_pid; /* see fgt_thread_table_scan() */
	/* [FGT_SNAPSHOT_MAX_BYTES] each: a stack, and the one that a signal
	 * interrupted whose handler has its own. */
	uint8_t *buffer, *other_buffer;
	struct fgt_frame *frames; /* of the look that goes on */
	const struct fgt_running *running;
	void *running_state;
	/* Samples come at ticks, of every thread that is on a CPU, and with
	 * them the kernel's reports of births, names and mappings. */
	bool has_cpu_events;
	/* It is over, and samples that it asked for are handed out. */
	bool is_over;
};

/* Waits whose reasons are read again: see look_wait.c. */
struct fgt_followed_waits {
	struct fgt_followed *waits;
	uint32_t count, capacity;
	uint32_t next; /* where the next tick goes on */
	uint64_t tick; /* in this one … */
	uint32_t left, changed; /* … so many are left, and have new reasons */
	uint32_t links_left; /* … so many descriptors may be looked up */
	struct fgt_owner_read {
		uint64_t tick, address;
		uint32_t kind;
		int32_t owner_tid;
	} last;
};

/* Holders of locks by the numbers that the target has for them: see
 * look_holder.c. */
#define FGT_LOOK_HOLDERS 8u
struct fgt_look_holders {
	unsigned int level; /* of its PID namespace; 0: not read yet */
	uint64_t tick; /* in this one … */
	uint32_t reads_left; /* … so much of procfs may be read */
	/* Where it is not that of /proc: threads, by their tids; NULL: none. */
	struct fgt_look_number *numbers;
	struct {
		int32_t tid;
		uint64_t tick; /* when it was found to be there */
	} others[FGT_LOOK_HOLDERS]; /* threads of other processes */
};

/* Wake-ups of a thread since the tick before; see look_wakes.c. */
struct fgt_wake_list {
	struct fgt_switch_wake wakes[FGT_SWITCH_WAKES];
	uint32_t count, lost;
};

/* Ticks whose instants are kept, at the highest rate for more than 100 ms. */
#define FGT_LOOK_RECENT 128u

struct fgt_look {
	struct fgt_process process;
	struct fgt_fd_budget *budget; /* the sampler's */
	struct fgt_thread_table threads;
	struct fgt_stacks stacks;
	const struct fgt_who_ran *who_ran;
	void *who_ran_state;
	struct fgt_switches *switches; /* the sampler's; NULL: not by these */

	uint64_t tick; /* number */
	uint64_t tick_ns, elapsed_ns; /* its instant, and since the last one */
	uint64_t recent_ns[FGT_LOOK_RECENT]; /* of ticks, by their numbers */
	uint32_t random; /* see look_polled.c */
	struct fgt_edge_list edges; /* of the thread that is looked at */
	struct fgt_wake_list wakes; /* likewise */
	struct fgt_wait wait; /* likewise */
	/* … and where it was blocked then; ns 0: it still is, or was not */
	struct fgt_switch_off then;
	uint64_t wait_tick; /* in this one … */
	uint32_t wait_reads; /* … so many waits were read … */
	uint32_t child_reads_left; /* … and children may be, in namespaces */
	uint32_t file_locks_left; /* … and locks on files looked up */
	struct fgt_followed_waits followed;
	struct fgt_look_holders holders;
	struct fgt_look_sockets
		*sockets; /* see look_descriptor.c; NULL: none */
	/* The kernel takes long to list an epoll descriptor of this process:
	 * none is listed any more. */
	bool has_long_epoll;
	bool is_embedded; /* this very process */
	bool is_readable;
	bool is_traced; /* by a debugger */
	bool is_stop_possible; /* some thread may be stopped: ask each */
	uint64_t stop_tick; /* when that was last asked */
	int leader_stat_fd;

	/* Counted for the status. */
	uint64_t lost_waker_stacks; /* more than were kept between two ticks */
	uint64_t samples_running, samples_blocked; /* stacks read */
	uint64_t torn; /* thrown away: the thread moved meanwhile */
	uint64_t credited_ticks;
	uint64_t stopped_ns; /* threads were stopped, not yet charged */
};

/* Places at which the kernel has put what a signal handler interrupted, and
 * what lay there when a sample was asked for: see look_signal.c. */
#define FGT_SIGNAL_PLACES 16u
struct fgt_signal_places {
	uint64_t sp[FGT_SIGNAL_PLACES]; /* 0: none */
	uint64_t hash[FGT_SIGNAL_PLACES]; /* 0: not read */
	uint8_t unused[FGT_SIGNAL_PLACES]; /* ticks since its last handler */
	uint32_t next;
};

/* A part of a thread's stack, as it was at ticks that ask for a sample: see
 * look_kernel.c. */
struct fgt_look_words {
	uint64_t sample_sp, root_sp; /* of the last sample; 0: none */
	uint8_t *bytes;
	uint64_t start; /* their address */
	uint32_t len; /* 0: not known */
	uint32_t from; /* those before were not the same at all ticks */
};

/* A sample shows a thread from one instant to another: see fgt_running_sample. */
struct fgt_sample_times {
	uint64_t from_ns, to_ns;
	uint64_t before_ns, next_ns;
	bool is_of_long_call; /* every such call has one that is kept */
};

/* How often a thread gave up a CPU by itself, lost one, and got one. */
struct fgt_switch_counts {
	uint64_t blocked, lost, gained;
	uint64_t runtime_ns; /* of CPU time */
};

/* Has a thread been on a CPU since it blocked? See look_woken.c. */
struct fgt_standing {
	struct fgt_switch_counts counts; /* at the last reading; 0: none */
	/* The least of gained - blocked - lost; one more on a CPU. */
	int64_t ahead;
	bool is_woken; /* it had not, as far as is known */
};

/* What is remembered of an active thread. */
struct fgt_look_thread {
	bool is_run_sampled; /* a sample showed a tick since it blocked */
	bool is_run_long; /* its last run: samples of two ticks in a row */
	bool was_stopped; /* by ptrace since: that switch does not count */
	uint32_t pending_ticks; /* the last so many have no sample yet */
	uint32_t pending_waits; /* of them, so many waited for a CPU */
	struct fgt_account account; /* where perf has no events per CPU */
	uint64_t used_ns; /* CPU time since the last tick, likewise */
	uint64_t stretch_ns; /* used since it was last put on a CPU */
	uint8_t busy_ticks; /* in a row, of which it ran more than half */

	uint64_t sampled_wait_ns; /* use.wait_ns at its last sample */
	uint64_t sampled_run_ns; /* use.runtime_ns then; 0: before a block */
	/* Times that it blocked, and the tick at which that was read; 0: none.
	 * See look_runnable.c. */
	uint64_t block_count, block_count_tick;
	uint64_t woken_tick; /* when it was last found woken, without a CPU */
	bool is_wait_shown; /* the ring shows that wait */
	struct fgt_kept_stack last_run, last_block; /* its last sample, block */
	struct fgt_kept_stack former_block; /* elsewhere: see look_place.c */
	uint32_t block_state; /* of last_block; 0: not known */
	uint64_t blocked_tick; /* when last_block was read; 0: never */
	uint64_t varied_tick; /* last_block became another stack; 0: never */
	bool keeps_block; /* without events of every CPU: it works in bursts */
	uint64_t block_sp, block_pc; /* of last_block; 0: not known */
	/* With events of every CPU, when a block was last read: what it had
	 * used, and its count of blocks, which is read of those that have lately
	 * lost a CPU; 0: not known. */
	struct fgt_cpu_use block_use;
	uint64_t block_use_count;
	uint64_t lost_cpu_tick; /* it was last found so; 0: never */
	struct fgt_standing standing;
	/* What was read after its last sample: see look_stack.c. */
	struct fgt_kept_stack later;
	uint64_t later_tick; /* when that was */
	/* Its stack is larger than all that is read of one: not tried at so
	 * many looks, of which so many have passed. */
	uint8_t deep_pause, deep_passed;
	enum fgt_marker run_leaf; /* above last_run, or 0 */
	bool is_after_kernel, was_in_kernel; /* see fgt_running_sample */
	struct fgt_kept_stack callers; /* what is known of time in the kernel */
	struct fgt_look_words words; /* likewise */
	uint64_t read_wait_ns; /* waited for a CPU, where a look reads it */
	/* When it was last known to sleep, or to run, and how long it had
	 * waited for a CPU by then: see look_waited.c. */
	uint64_t still_tick, still_wait_ns;
	struct fgt_kept_stack unshown; /* a sample that no tick has shown … */
	uint64_t unshown_tick; /* … and when it came */
	uint64_t call_blur_ns; /* see fgt_running_sample */
	struct fgt_sample_times times, former_times; /* of its last samples */
	bool is_past; /* likewise */
	uint64_t sample_tick; /* when the last sample came */
	struct fgt_signal_places signals;
	uint64_t counted_switches; /* times put on a CPU … */
	uint64_t counted_ns; /* … up to this instant */
	uint64_t slice_ns; /* mean time on a CPU then; UINT64_MAX: not known */
};

/*
 * For fgt_thread_table's on_active and on_idle: what the thread keeps of its
 * account while it is idle is taken up again. False: no memory.
 */
bool fgt_look_thread_begin(struct fgt_thread_table *threads,
			   struct fgt_thread *thread);
void fgt_look_thread_end(struct fgt_thread_table *threads,
			 struct fgt_thread *thread);

/* The verdict on it has this state. */
void fgt_look_thread_settle(struct fgt_thread *thread, uint32_t state);
/* What waits for a sample, or for a tick, is given up. */
void fgt_look_thread_forget(struct fgt_thread *thread);
/* Where it has blocked is of a former program. */
void fgt_switch_places_forget(struct fgt_thread_switches *switches);

/* ---- Looks -------------------------------------------------------------- */

/* Call before all looks of a tick. mono_ns: its instant, CLOCK_MONOTONIC. */
void fgt_look_begin_tick(struct fgt_look *look, uint64_t mono_ns);

/* A sample of its source fell on it. */
struct fgt_verdict fgt_look_sampled(struct fgt_look *look,
				    const struct fgt_tick *tick,
				    struct fgt_thread *thread,
				    const struct fgt_running_sample *sample);

/*
 * CPU time used since the last tick goes onto the thread's account; once a
 * tick for every active thread, before the next one.
 */
void fgt_look_account(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread);

/*
 * Why a thread waits that the verdict finds blocked, with a stack: read once,
 * as long as the thread has not moved since. Where it has, by its call alone.
 * NULL: it is not blocked, or goes on with what it did. Borrowed of the look.
 */
const struct fgt_wait *fgt_look_wait(struct fgt_look *look,
				     struct fgt_thread *thread,
				     const struct fgt_verdict *verdict);

/* That reason is in the ring: if it is a lock, its owner is read again; what
 * descriptors are, of which one is waited for, is read if the wait lasts. */
void fgt_look_follow(struct fgt_look *look, struct fgt_thread *thread,
		     uint32_t state, const struct fgt_wait *wait);
/* A thread that still sleeps for a lock that has another owner by now, or for
 * descriptors, and the new reason; NULL: none is left in this tick. After all
 * looks. */
struct fgt_thread *fgt_look_next_reason(struct fgt_look *look,
					struct fgt_wait *ret_wait);
/* Frees what was kept for it. */
void fgt_look_follow_end(struct fgt_look *look);

/* No sample did; it ran, or needs a look for another reason. */
struct fgt_verdict fgt_look_unsampled(struct fgt_look *look,
				      const struct fgt_tick *tick,
				      struct fgt_thread *thread);

/* What a waker did then: frames in tick->frames, where those of a verdict are
 * until it is written. Returns their number; 0: not known. */
size_t fgt_look_waker(struct fgt_look *look, const struct fgt_tick *tick,
		      const struct fgt_switch_wake *wake);

#endif
