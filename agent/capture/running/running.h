/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads that are on a CPU. One interface, several sources, best
 * first; a sampler uses one of them. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_RUNNING_H
#define FGT_AGENT_CAPTURE_RUNNING_RUNNING_H

#include "agent/capture/threads/fd_budget.h"
#include "agent/capture/threads/thread.h"
#include "agent/unwind/arch/arch.h"
#include "ringbuf/base/why.h"

/* Registers and the top of the stack of a thread that was on a CPU. */
struct fgt_running_sample {
	int32_t pid, tid;
	uint64_t ip;
	bool is_kernel; /* ip is in the kernel */
	/* When it fell due the thread was in the kernel, where the source may
	 * not look: this is what came next in user mode. */
	bool is_after_kernel;
	bool was_in_kernel; /* likewise at ticks before the last */
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: not known */
	uint64_t count_ns; /* of the event: how long it has counted */
	/* Of a sample that a tick asked for: so long the thread had no CPU from
	 * then until it was taken. */
	uint64_t off_ns;
	uint64_t late_ns; /* of it, since the tick that asked */
	/* Not 0: it comes at the end of a long call in the kernel, which began
	 * at most so long after the sample before it, of CPU time. */
	uint64_t call_blur_ns;
	/* In a call of the kernel, in which no sample comes: so long after
	 * time_ns it was still there. */
	uint64_t call_ns;
	/* Samples before and after it that the source has dropped; 0: none. */
	uint64_t before_ns, next_ns;
	/* The thread has had no CPU for a moment since the source's last look
	 * at it: this may be of a run before the present one. */
	bool is_past;
	bool has_regs; /* of a 64-bit user program */
	struct fgt_regs regs;
	const uint8_t *stack; /* from the stack pointer upward; borrowed */
	size_t stack_len; /* bytes that could be copied */
	/* Of a thread on an alternate stack: a piece of its usual one, copied
	 * at the same instant; NULL: there is none. Borrowed. */
	const uint8_t *other;
	uint64_t other_start;
	size_t other_len;
};

/* What births, deaths, new names and new mappings have in common. */
struct fgt_running_task {
	int32_t pid, tid;
	int32_t parent_pid; /* of a FORK or EXIT record; else 0 */
	bool is_exec; /* of a COMM record */
};

/* Takes what a source has. Called in the thread that drains. */
struct fgt_running_handler {
	bool (*is_wanted)(void *context, int32_t pid);
	void (*sample)(void *context, const struct fgt_running_sample *sample);
	/* type: PERF_RECORD_FORK, _EXIT, _COMM, _MMAP2; only of wanted pids, and
	 * the end of a process that is not wanted, but has a wanted parent */
	void (*task)(void *context, uint32_t type,
		     const struct fgt_running_task *task);
	void (*lost)(void *context); /* records were dropped */
	void *context;
};

/* Between these instants (CLOCK_MONOTONIC) the events of all CPUs began. */
struct fgt_running_started {
	uint64_t first_ns, last_ns;
};

/* What a thread did since its last tick. */
struct fgt_running_use {
	uint64_t now_ns;
	uint64_t period_ns; /* of its ticks */
	uint64_t event_ns; /* of CPU time, wanted between two samples */
	uint64_t runtime_ns, switches;
	bool is_throughout; /* it was on a CPU nearly all the time */
	bool is_new; /* nothing is known of it yet */
	bool is_first_tick; /* of the target */
};

/* When samples come, and so what they estimate: see look_polled.c. */
enum fgt_running_timing {
	/* Never by themselves. */
	FGT_RUNNING_ON_REQUEST,
	/* At each tick, of every thread that is on a CPU: threads without a
	 * sample were not running. */
	FGT_RUNNING_AT_TICKS,
	/* After a tick that asks for the thread, as soon as it has been on a
	 * CPU for a moment: one for each such tick. */
	FGT_RUNNING_AFTER_TICKS,
	/* Once in each period in which the thread ran: in a run, one sample
	 * more than there are ticks. */
	FGT_RUNNING_IN_EACH_PERIOD,
};

/* What a tick that finds a thread running may expect. */
enum fgt_running_answer {
	FGT_RUNNING_NO_SAMPLE, /* none will come */
	FGT_RUNNING_SAMPLE_COMES,
	FGT_RUNNING_USER_SAMPLE_COMES, /* … of user mode only */
	/* … but since an earlier tick the thread has been in the kernel, where
	 * the source may not look. */
	FGT_RUNNING_IN_KERNEL,
};

struct fgt_running {
	const char *name; /* as status shows it */
	enum fgt_running_timing timing;

	/* One state for a sampler; period_ns: of its timer. -EACCES, -EPERM,
	 * -ENOSYS with why naming what is in the way, -EMFILE, -ENOMEM … */
	int (*open)(struct fgt_fd_budget *budget, uint64_t period_ns,
		    void **ret_state, struct fgt_why *why);
	void (*close)(void *state);
	/* Hands out what came since the last call. NULL: nothing comes. */
	void (*drain)(void *state, const struct fgt_running_handler *handler);

	/* ---- Of FGT_RUNNING_AT_TICKS only, else NULL ---- */

	/*
	 * Samples then come once in period_ns, the first time one period after
	 * *ret_started. errno of ioctl(2).
	 */
	int (*start)(void *state, uint64_t period_ns,
		     struct fgt_running_started *ret_started);
	/* From now on once in this period: the first time one period after
	 * *ret_started. */
	void (*change)(void *state, uint64_t period_ns,
		       struct fgt_running_started *ret_started);
	void (*stop)(void *state);
	/* A stack was longer (or not) than what a sample may hold. */
	void (*note_size)(void *state, bool is_too_short);
	/*
	 * If more than 1 % were too short: opens all again with twice the room;
	 * they are stopped then. 1 if so, 0 if not; negative errno: none is
	 * open now.
	 */
	int (*adapt)(void *state);

	/* ---- Of sources that choose threads, else NULL ---- */

	/* Decides by what a thread did whether it shall be sampled. */
	void (*consider)(void *state, struct fgt_thread *thread,
			 const struct fgt_running_use *use);
	/* Keeps nothing of an active thread any more. */
	void (*drop)(void *state, struct fgt_thread *thread);
	/*
	 * A tick finds it running: will a sample show what it does? Asks for
	 * one where samples do not come by themselves. now_ns: of the tick.
	 */
	enum fgt_running_answer (*ask)(void *state, struct fgt_thread *thread,
				       uint64_t now_ns);
	/*
	 * Right after a tick: hands out samples that it asked for of threads
	 * whose samples do not hold all of the stack, since the rest can be
	 * read now. False: no such sample is awaited any more. NULL: none is.
	 */
	bool (*drain_awaited)(void *state,
			      const struct fgt_running_handler *handler);
	/*
	 * Once a tick: which threads may not be sampled, and why; NULL: all
	 * may. threads: of the program. Valid until the close.
	 */
	const char *(*limit)(void *state, uint32_t threads, uint64_t now_ns);
	/* The thread that the source has started, which is not sampled. 0:
	 * there is none. NULL: there never is. */
	int32_t (*own_tid)(const void *state);

	/* ---- Of a source that stops threads, else NULL ---- */

	/*
	 * Stops a thread that was running a moment ago, calls read() with its
	 * registers while it stands, and lets it go. read() copies and does
	 * nothing else. A call that the stop interrupted is restarted.
	 * -EPERM, -ESRCH; -EBUSY another one is still held, or this one did not
	 * stop within a millisecond.
	 */
	int (*request)(void *state, int32_t tid,
		       void (*read)(void *context, const struct fgt_regs *regs),
		       void *context);
	/* Once a tick: lets go of a thread that was late to stop. */
	void (*poll)(void *state);
	/* A thread was late to stop, and is still held? */
	bool (*is_holding)(const void *state);
};

/* One perf event per CPU for all targets, and the births, deaths, names and
 * mappings that the kernel reports along with it. Needs CAP_PERFMON (or
 * kernel.perf_event_paranoid <= 0). */
extern const struct fgt_running fgt_running_perf_cpu;
/*
 * Perf events on single threads of the user's own processes, in user mode only
 * unless kernel.perf_event_paranoid is below 2. An event is switched on by a
 * tick that finds its thread running, and off by its first sample. Switched off
 * it costs about 0.3 µs at each context switch of the thread (on: 2 µs), so
 * threads that switch all the time have one for single ticks only.
 */
extern const struct fgt_running fgt_running_perf_thread;
/* The last resort: stops a thread for some microseconds. Never a blocked one,
 * never more than one at a time. The sampler's thread is the tracer. */
extern const struct fgt_running fgt_running_ptrace;
/* No stacks: CPU time only. Has no operations. */
extern const struct fgt_running fgt_running_none;

/* ---- Stops (running_ptrace.c) ------------------------------------------- */

/* Is ptrace permitted at all here (Yama, seccomp)? 0, else -EPERM with why. */
int fgt_ptrace_check(struct fgt_why *why);

/* Is a call of this state certain to be restarted unnoticed after a stop? */
bool fgt_ptrace_is_safe_call(uint32_t state);

/*
 * Do the registers show that one of the calls that can be restarted is about
 * to return EINTR? Then changes them so that the kernel restarts it, unless a
 * signal's handler runs first: that one's EINTR stays. MT-Safe | AS-Safe
 */
struct user_regs_struct;
bool fgt_ptrace_prepare_restart(struct user_regs_struct *user);

#endif
