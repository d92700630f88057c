/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a look: what a thread was doing, and its stack.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_PARTS_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_PARTS_H

#include "agent/capture/look/look.h"

/* ---- By its context switches (look_switch.c) ---------------------------- */

/* Where a thread was at an instant. */
enum fgt_whereabouts {
	FGT_OFF_STILL, /* off its CPU, and has not got one since */
	FGT_OFF_THEN, /* off its CPU as in the slot, but runs again */
	FGT_OFF_BEFORE, /* the time before the last that it left its CPU */
	FGT_ON, /* on a CPU */
};

/* instant_ns: the one that was set for the kernel's half. MT-Safe | AS-Safe */
enum fgt_whereabouts fgt_whereabouts_at(const struct fgt_switch_slot *slot,
					uint64_t instant_ns);

/*
 * The verdict on a thread without a sample, by its switches. False: they show
 * nothing, and procfs must be read.
 */
bool fgt_look_switched(struct fgt_look *look, const struct fgt_tick *tick,
		       struct fgt_thread *thread,
		       struct fgt_verdict *ret_verdict);

/*
 * A sample fell on it, close to the instant. True: it was running then, and had
 * its CPU from the one to the other, as far as is known; look->edges has the
 * edges before. False: fgt_look_switched() finds what it did.
 */
bool fgt_look_switch_sampled(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread, uint64_t sampled_ns);

/*
 * Of a thread that a sample fell on: has it had its CPU from the instant on, or
 * lost it to another thread and stands still? If it has blocked since, what is
 * read of its stack by now need not be the sample's. True where switches are
 * not known.
 */
bool fgt_look_switch_unmoved(const struct fgt_look *look,
			     const struct fgt_tick *tick,
			     const struct fgt_thread *thread);
/* The same by its slot. MT-Safe | AS-Safe */
bool fgt_switch_is_unmoved(const struct fgt_switch_slot *slot,
			   uint64_t instant_ns);

/* Has it left its CPU between a sample of it and the instant? */
bool fgt_switch_has_left(const struct fgt_switch_slot *slot,
			 uint64_t sampled_ns, uint64_t instant_ns);

/*
 * When the thread blocked, and got a CPU again, since the last look's instant
 * and up to this one's: every time or, where there were more than the slot
 * keeps, or the thread waited for a CPU for a 16th of the time, none.
 * instant_ns becomes the last look's.
 *
 * MT-Unsafe | AS-Safe
 */
void fgt_switch_seen_take(struct fgt_switch_seen *seen,
			  const struct fgt_switch_slot *slot,
			  uint64_t instant_ns, struct fgt_edge_list *ret_edges);

/* The wake-ups up to an instant that have not been taken yet; those that the
 * slot has lost since are counted. Before the first look there are none. */
void fgt_switch_seen_take_wakes(struct fgt_switch_seen *seen,
				const struct fgt_switch_slot *slot,
				uint64_t instant_ns,
				struct fgt_wake_list *ret_wakes);

/*
 * A thread's blocked stack was read at a place, where it left its CPU. The same
 * call, pc, stack pointer and frame pointer do not prove the same callers: if
 * the stack that was read last is another one of the same place, the place is
 * shared from then on, and a block there that was over before it was read is
 * not known. Stacks without a root prove nothing. last: the stack read last;
 * frames: this one. The place becomes switches->blocked_at.
 *
 * MT-Unsafe | AS-Safe
 */
void fgt_switch_place_note(struct fgt_thread_switches *switches,
			   const struct fgt_switch_off *place,
			   const struct fgt_kept_stack *last,
			   const struct fgt_frame *frames, size_t count,
			   uint64_t generation);
/* Before that: the last block becomes the former one, and back, unless it was
 * at this place. */
void fgt_look_place_turn(struct fgt_look_thread *thread_look,
			 struct fgt_thread_switches *switches,
			 const struct fgt_switch_off *place);
/* The stack that was read at this place; NULL: neither of both was. */
const struct fgt_kept_stack *
fgt_look_place_find(const struct fgt_look_thread *thread_look,
		    const struct fgt_thread_switches *switches,
		    const struct fgt_switch_off *place);
bool fgt_switch_place_is_shared(const struct fgt_thread_switches *switches,
				const struct fgt_switch_off *place);
bool fgt_switch_place_is_same(const struct fgt_switch_off *a,
			      const struct fgt_switch_off *b);

/* ---- By its CPU time (look_runnable.c, look_polled.c) ------------------- */

/*
 * procfs calls it running, though no sample of its CPU fell on it at this tick:
 * it waits for a CPU, it got one since, or there are no samples of CPUs.
 */
struct fgt_verdict fgt_look_runnable(struct fgt_look *look,
				     const struct fgt_tick *tick,
				     struct fgt_thread *thread);

/* The same without events of every CPU: see look_polled.c. */
struct fgt_verdict fgt_look_polled(struct fgt_look *look,
				   const struct fgt_tick *tick,
				   struct fgt_thread *thread);

/* Where the provider has no time of waiting: it goes onto the account. */
void fgt_look_read_wait(struct fgt_look *look, struct fgt_thread *thread);

/* Where it was blocked the last time that it was read; marked if its blocks
 * have several stacks. False: not known. */
bool fgt_look_last_block(const struct fgt_look *look, struct fgt_thread *thread,
			 struct fgt_verdict *ret_verdict);

/* Its blocked stack was read, in this state. */
void fgt_look_note_block(const struct fgt_look *look, struct fgt_thread *thread,
			 const struct fgt_frame *frames, size_t count,
			 uint32_t state);

/*
 * It is shown blocked, and its stack cannot be read: what is shown goes on, but
 * marked if the thread has been on a CPU since and its blocks have several
 * stacks.
 */
struct fgt_verdict fgt_look_go_on(const struct fgt_look *look,
				  const struct fgt_thread *thread);

/*
 * Found blocked. True: it blocks and goes on all the time, and is found so too
 * often, by its CPU time: the verdict is that it runs.
 */
bool fgt_look_owed(struct fgt_look *look, const struct fgt_tick *tick,
		   struct fgt_thread *thread, struct fgt_verdict *ret_verdict);

/*
 * Found blocked, before fgt_look_thread_settle(), without events of every CPU.
 * A sample that came since the last tick stands for earlier ticks that have
 * none yet; it is added to the verdict. If there is no such tick, a signal's
 * sample of a run that no tick saw stands for a later one. Ticks that asked for
 * a sample that did not come get a marker.
 */
void fgt_look_late_sample(struct fgt_look *look, const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_verdict *verdict);

/*
 * Ticks that a thread which had run had to wait for a CPU: they belong to the
 * stack that it is found with when it gets one.
 */
uint32_t fgt_look_take_credit(struct fgt_look *look, struct fgt_thread *thread);

/*
 * The same of a thread that a sample of its CPU fell on, whose stack is in the
 * verdict: runnable, as far as the scheduler's count of its wait goes, else
 * running.
 */
void fgt_look_take_waits(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread,
			 struct fgt_verdict *verdict);

/*
 * Of the ticks that were shown runnable, those that the scheduler's count of
 * waits does not explain. due_ns: that count minus all that was shown.
 * MT-Safe | AS-Safe
 */
uint32_t fgt_look_unpaid_ticks(int64_t due_ns, uint64_t period_ns,
			       uint32_t pending_ticks);

/* Found blocked, with events of every CPU: the ticks that waited for a sample
 * have none. They are shown where the last one found the thread, below a marker
 * where it has left that. */
void fgt_look_end_run(const struct fgt_look *look, const struct fgt_tick *tick,
		      const struct fgt_thread *thread,
		      struct fgt_verdict *verdict);

/* ---- Waits of ticks without a look (look_waited.c) ---------------------- */

/* How long it has waited for a CPU in all, as far as the ticks know. */
uint64_t fgt_look_waited_ns(const struct fgt_look *look,
			    const struct fgt_thread *thread);

/*
 * Ticks that may fall into a wait, of those at which the thread was not looked
 * at: one more than it has periods, if it has more than a small part of one.
 * MT-Safe | AS-Safe
 */
uint32_t fgt_waited_ticks(uint64_t waited_ns, uint64_t period_ns,
			  uint64_t unseen_ticks);

/*
 * After each look without switches. Adds to the verdict that the thread waited
 * for a CPU at ticks that show it blocked. was_running: it was shown running,
 * or runnable, at the tick before.
 */
void fgt_look_waited(struct fgt_look *look, const struct fgt_tick *tick,
		     struct fgt_thread *thread, bool was_running,
		     struct fgt_verdict *verdict);

/* ---- Woken, and not on a CPU since (look_woken.c) ----------------------- */

/* -EBADMSG, errno of open and read; gained is left as it is. */
int fgt_switch_counts_read(const struct fgt_look *look,
			   const struct fgt_thread *thread,
			   struct fgt_switch_counts *counts);

/*
 * A thread that is called running, with its counts now: true if it has no CPU,
 * and has blocked since the last reading (it may have lost a CPU after that),
 * or has not been on one since a reading that was true. blocked and lost were
 * read before gained: equal sums then prove that it was off its CPU.
 * MT-Unsafe | AS-Safe
 */
bool fgt_standing_take(struct fgt_standing *standing,
		       const struct fgt_switch_counts *now);

/*
 * procfs calls it running, without events of every CPU: true if it was woken,
 * has no CPU since, and its stack is that of its last block.
 */
bool fgt_look_woken(struct fgt_look *look, const struct fgt_tick *tick,
		    struct fgt_thread *thread, struct fgt_verdict *ret_verdict);

/* ---- Samples that ticks ask for (look_asked.c) -------------------------- */

/* fgt_running.ask; without it none will come. */
enum fgt_running_answer fgt_look_ask(const struct fgt_tick *tick,
				     struct fgt_thread *thread);

/* So many ticks before the verdict's show what shown does, if that has a
 * stack. */
void fgt_verdict_set_past(struct fgt_verdict *verdict,
			  const struct fgt_verdict *shown, uint32_t ticks);

/* The tick finds it in that state, running or runnable: with which stack? */
struct fgt_verdict fgt_look_asked(struct fgt_look *look,
				  const struct fgt_tick *tick,
				  struct fgt_thread *thread, uint32_t state);
/* See fgt_look_late_sample(). */
void fgt_look_asked_late(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread,
			 struct fgt_verdict *verdict);

/*
 * A sample came, without events of every CPU: before it becomes the thread's
 * last one. frames: its stack; of the first, all that was unwound last.
 */
void fgt_look_note_callers(const struct fgt_look *look,
			   struct fgt_thread *thread,
			   const struct fgt_running_sample *sample,
			   const struct fgt_frame *frames, size_t count);
void fgt_look_note_sample(struct fgt_thread *thread,
			  const struct fgt_running_sample *sample,
			  const struct fgt_frame *frames, size_t count);

/* ---- Handlers that began after the tick (look_signal.c) ----------------- */

/* A tick is about to ask for a sample. */
void fgt_look_note_signals(struct fgt_look *look, struct fgt_thread *thread);

/* The sample has come; its stack is in frames. Without a handler that began
 * while the thread waited for its CPU: returns the number of frames left. */
size_t fgt_look_before_signal(const struct fgt_look *look,
			      struct fgt_thread *thread,
			      const struct fgt_running_sample *sample,
			      struct fgt_frame *frames, size_t count);

/* ---- Its stack (look_stack.c) ------------------------------------------- */

/*
 * Copies len bytes of the target's memory, or what may be read of them without
 * waiting for a file system: see fgt_stacks_readable(). Errors: those of
 * fgt_blocked_copy(); -EFAULT if nothing may be read.
 */
int64_t fgt_look_copy(struct fgt_look *look, const struct fgt_thread *thread,
		      uint64_t address, uint8_t *buffer, size_t len);

/*
 * The first bytes of the stack of a thread that is on no CPU, in tick->buffer.
 * Errors: those of fgt_blocked_copy(), and then the snapshot has no bytes.
 */
int64_t fgt_look_stack_begin(struct fgt_look *look, const struct fgt_tick *tick,
			     const struct fgt_thread *thread, uint64_t sp,
			     uint64_t pc, struct fgt_snapshot *ret_snapshot);

/*
 * The stack of a thread that is on no CPU, by a snapshot in tick->buffer; more
 * of it is read as the unwinder wants it. leaf: marker to begin with, or 0.
 * Returns the number of frames.
 */
size_t fgt_look_stack_blocked(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      struct fgt_snapshot *snapshot,
			      enum fgt_marker leaf);

/*
 * Is it these frames, which were read with the maps that are known, still? The
 * thread may run: what else is found is not counted as a stack, and no reason
 * to read the maps. If true, the frames are in tick->frames.
 */
bool fgt_look_stack_again(struct fgt_look *look, const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_snapshot *snapshot,
			  const struct fgt_frame *frames, size_t count);

/* The stack of a thread that a sample fell on. 0 frames: the sample had no
 * registers. */
size_t fgt_look_stack_sampled(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      const struct fgt_running_sample *sample);

/* The stack of a waker, in tick->frames; what its copy lacks is read while it
 * goes on. Returns the number of frames. */
size_t fgt_look_stack_waker(struct fgt_look *look, const struct fgt_tick *tick,
			    struct fgt_thread *thread,
			    const struct fgt_switch_stack *stack);

/* The stack of a thread on a CPU, which is stopped for it. Errors: those of
 * fgt_running.request. */
int fgt_look_stack_running(struct fgt_look *look, const struct fgt_tick *tick,
			   struct fgt_thread *thread, size_t *ret_count);

/*
 * A kept stack in that state, below a leaf marker unless that is 0. If there is
 * none of these images: the stack that the ring has, below a marker that
 * names the reason.
 */
struct fgt_verdict fgt_look_kept(const struct fgt_look *look,
				 const struct fgt_kept_stack *kept,
				 uint32_t state, enum fgt_marker leaf);

/* ---- Time in the kernel that no sample may show (look_kernel.c) ---------- */

/* The last stack that was unwound, of so many frames, is that of a sample at
 * this stack pointer. */
void fgt_look_words_follow(const struct fgt_look *look,
			   struct fgt_thread *thread, uint64_t sp,
			   size_t count);
/* A tick asks for a sample: reads the part of the stack that the last one
 * used. */
void fgt_look_words_read(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread);
/*
 * How many frames from the root of the last stack that was unwound, which came
 * after ticks in the kernel, the thread was in at these ticks: their calls had
 * been made, and lead to one function only. shared: so many frames may be
 * called through pointers.
 */
size_t fgt_look_words_known(const struct fgt_look *look,
			    const struct fgt_thread *thread, size_t count,
			    size_t shared);

/* ---- A thread that sleeps, as procfs shows it (blocked.c) --------------- */

/* What /proc/PID/task/TID/syscall shows; reading does not touch the thread. */
struct fgt_blocked {
	bool is_running; /* or waiting for a CPU; nothing else is set then */
	int32_t call; /* number, -1: not in a system call (a page fault) */
	uint64_t sp, pc; /* 0: no user stack any more (it has ended) */
	uint64_t args[6]; /* of the call */
};

/* text is NUL-terminated. -EBADMSG. MT-Safe | AS-Safe */
int fgt_blocked_parse(const char *text, struct fgt_blocked *ret_blocked);

#define FGT_BLOCKED_TEXT_MAX 256

/* The same text at two moments: the thread has not moved between them, unless
 * it came back to that very call. Bytes; -ESRCH gone, -EPERM/-EACCES. */
int fgt_blocked_read(struct fgt_thread_table *threads,
		     struct fgt_thread *thread,
		     char ret_text[FGT_BLOCKED_TEXT_MAX]);

/* -ESRCH gone, -EPERM/-EACCES, -EBADMSG. */
int fgt_blocked_look(struct fgt_thread_table *threads,
		     struct fgt_thread *thread,
		     struct fgt_blocked *ret_blocked);

/* Where the kernel reports switches: the call, with its first FGT_SWITCH_ARGS
 * arguments, of a thread that sleeps in one since since_ns and has not been
 * woken. False: it does not, or that is not known. */
bool fgt_look_call(const struct fgt_look *look, const struct fgt_thread *thread,
		   struct fgt_blocked *ret_blocked, uint64_t *ret_since_ns);

/*
 * The ring's state for it; a call that is only resumed (restart_syscall) keeps
 * the state of the call it resumes.
 */
uint32_t fgt_blocked_state(const struct fgt_blocked *blocked,
			   struct fgt_thread *thread);

/* The letter of /proc/PID/task/TID/stat: 'T', 't' stopped …; 0 if gone. */
char fgt_blocked_letter(const struct fgt_thread_table *threads, int32_t tid);

/*
 * Copies [sp, sp + size) of a thread's memory, or as much of it as there is.
 * Bytes copied, at least 8; -EFAULT nothing there, -EPERM, -ESRCH.
 */
int64_t fgt_blocked_copy(int32_t tid, uint64_t sp, uint8_t *buffer,
			 size_t size);

/* ---- What is waited for (look_holder.c) ----------------------------------- */

/* The thread that the target calls number, of another process with is_shared
 * only. 0: none; thread, which waits, is incomplete where that was not read. */
int32_t fgt_look_find_holder(struct fgt_look *look, struct fgt_thread *thread,
			     int32_t number, bool is_shared);
/* Puts the name of a holder that is no thread of the process into its text. */
void fgt_look_name_holder(const struct fgt_look *look, struct fgt_wait *wait);
/* Children of PID namespaces: a program may have 128 for each wait. */
#define FGT_LOOK_CHILD_READS 256u
/* The PID of the child that the target calls number, 0: not known, and its name;
 * size 0: without that. */
int32_t fgt_look_find_child(struct fgt_look *look, struct fgt_thread *thread,
			    int32_t number, char *text, size_t size);
/* The process that holds a lock on a file for which the thread has waited since
 * since_ns (0: not known), in words, and its thread, 0 if it has several, or if
 * another process may have it by now. False: not known. */
bool fgt_look_find_file_lock(struct fgt_look *look, struct fgt_thread *thread,
			     bool is_flock, uint64_t since_ns, char *text,
			     size_t size, int32_t *ret_tid);
/* The machine's table of locks on files, not older than that, nor than 0.2 s and
 * two ticks; as fgt_lock_table_get(). */
const char *fgt_look_file_locks(const struct fgt_look *look, uint64_t since_ns,
				bool *ret_is_whole);
/* Does the target call that thread, which may have ended, number? */
bool fgt_look_is_number(const struct fgt_look *look, int32_t tid,
			int32_t number);
/* A path, "pipe:[34]"; of a socket, which may be closed when its name is wanted,
 * where it leads, if that is known, else "socket:[12]"; false: not known
 * (look_descriptor.c). */
bool fgt_look_describe(struct fgt_look *look, const struct fgt_thread *thread,
		       int32_t descriptor, char *text, size_t size);
/* Its list of descriptors, with a NUL, as far as it fits: the length. -EBUSY:
 * that took too long once; errors of read(2). */
int fgt_look_list_epoll(struct fgt_look *look, int32_t descriptor, char *text,
			size_t size);
/* May the user of that process learn the name of another one? */
bool fgt_look_may_name(const struct fgt_process *process, int32_t pid);

#endif
