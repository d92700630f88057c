/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Context switches of the threads that are sampled. Runs in the kernel, at
 * every switch of every CPU: a switch between two strangers must cost no more
 * than a look at one word. Loaded as GPL: some helpers ask for it.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "agent/capture/who_ran/kernel_types.bpf.h"
#include "agent/capture/who_ran/socket.bpf.h"
#include "agent/capture/who_ran/switch_maps.bpf.h"
#include "agent/capture/who_ran/switch_slot.h"

/* Of a thread in the kernel: no kernel has larger ones. */
#define STACK_BYTES_MAX 65536u
/* Longer than it takes a tick to find a new thread. */
#define BRIEF_MAX_NS 1000000000ull
/* include/linux/sched.h */
#define PF_KTHREAD  0x00200000u
#define TASK_WAKING 0x00000200u
/* Units that a switch takes at most, once it has begun. */
#define WAKER_MAX 1000u

/* enum fgt_wake_context */
#define FGT_SWITCH_TASK	     0u
#define FGT_SWITCH_INTERRUPT 1u

char licence[] SEC("license") = "GPL";

/* The slot, if it is this very thread's: a number may be another's by now. */
static __always_inline struct fgt_switch_slot *
get(unsigned int index, unsigned int tid, unsigned int tgid)
{
	struct fgt_switch_slot *slot = bpf_map_lookup_elem(&slots, &index);

	return slot && slot->tid == tid && slot->tgid == tgid ? slot : 0;
}

/* False: it is certainly of no process that is sampled. */
static __always_inline bool is_wanted(unsigned int tgid)
{
	return wanted_tgids >> (tgid & 63) & 1;
}

static __always_inline struct fgt_switch_slot *find(struct task_struct *task,
						    unsigned int *ret_index)
{
	unsigned int tid, tgid = (unsigned int)task->tgid;
	struct fgt_switch_slot *slot;
	unsigned int *index;

	if (!is_wanted(tgid))
		return 0;
	tid = (unsigned int)task->pid;
	*ret_index = guess_of_tid[tid % FGT_SWITCH_GUESSES];
	slot = get(*ret_index, tid, tgid);
	if (slot)
		return slot;
	index = bpf_map_lookup_elem(&slot_of_tid, &tid);
	if (!index)
		return 0;
	*ret_index = *index;
	return get(*ret_index, tid, tgid);
}

/*
 * The atomic operation is a full barrier as well: the side that takes the bit
 * sees what was written before it was set. Setting it only if it is not set yet
 * could miss a reader that is just taking it.
 */
static __always_inline void mark(unsigned int index)
{
	unsigned int word = index / 64;

	if (word < FGT_SWITCH_WORDS)
		__sync_fetch_and_or(&changed[word], 1ull << (index & 63));
}

/*
 * For what may be found a tick later: is cheap where the bit is set already,
 * and may miss a reader that is just taking it.
 */
static __always_inline void mark_lazily(unsigned int index)
{
	unsigned int word = index / 64;

	if (word < FGT_SWITCH_WORDS && !(changed[word] >> (index & 63) & 1))
		__sync_fetch_and_or(&changed[word], 1ull << (index & 63));
}

/*
 * Counts what its one writer has written, after the writing and before the next
 * one. x86 keeps the order of stores; on other processors an atomic operation
 * whose result is used is a full barrier.
 */
static __always_inline void advance(unsigned long long *count)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*count += 1;
	barrier();
#else
	if (!__sync_fetch_and_add(count, 1))
		barrier();
#endif
}

static __always_inline void read_regs(struct fgt_switch_off *off,
				      struct pt_regs *regs)
{
	int call;

	off->pc = REGS_PC(regs);
	off->sp = regs->sp;
	off->fp = REGS_FP(regs);
	call = REGS_CALL(regs);
	off->call = call == (short)call ? (short)call : -1;
	off->args[0] = REGS_ARG0(regs);
	off->args[1] = REGS_ARG1(regs);
	off->args[2] = REGS_ARG2(regs);
	off->args[3] = REGS_ARG3(regs);
}

static __always_inline void begin_block(struct fgt_switch_slot *slot,
					unsigned long long now_ns)
{
	unsigned int index = slot->blocks++ & (FGT_SWITCH_BLOCKS - 1);

	slot->block[index].off = (unsigned int)(now_ns >> FGT_SWITCH_UNIT);
	slot->block[index].on = 0;
}

/* Being put off its CPU is not a block. */
static __always_inline void end_block(struct fgt_switch_slot *slot,
				      unsigned long long now_ns)
{
	unsigned int index = (slot->blocks - 1u) & (FGT_SWITCH_BLOCKS - 1);
	unsigned int now = (unsigned int)(now_ns >> FGT_SWITCH_UNIT);

	slot->block[index].on = now ? now : 1;
}

static __always_inline void write_off(struct fgt_switch_slot *slot,
				      struct task_struct *task,
				      unsigned int task_state,
				      unsigned long long now_ns)
{
	/* Where it was at the instant stays, however often it switches until
	 * the sampler looks. */
	if (slot->off.ns <= instant_ns) {
		slot->before = slot->off;
		slot->was_on = slot->on_ns <= instant_ns;
	}
	slot->off.ns = now_ns;
	slot->off.task_state = (unsigned short)task_state;
	slot->off.woken_us = 0;
	if (task_state)
		begin_block(slot, now_ns);
	read_regs(&slot->off, (struct pt_regs *)bpf_task_pt_regs(task));
	slot->is_on = 0;
}

/* Units since it was put off its CPU, or woken; 0 where that is not known. */
static __always_inline unsigned int waited(const struct fgt_switch_slot *slot,
					   unsigned long long now_ns)
{
	unsigned long long since_ns = slot->off.ns;

	if (!slot->off.ns || (slot->off.task_state && !slot->off.woken_us))
		return 0;
	if (slot->off.task_state)
		since_ns += (slot->off.woken_us - 1) * 1000ull;
	return now_ns > since_ns ? (now_ns - since_ns) >> FGT_SWITCH_UNIT : 0;
}

/* The wake-up that ended its last block, if that was long, gave it a CPU. */
static __always_inline void end_wake(struct fgt_switch_slot *slot,
				     unsigned long long now_ns)
{
	struct fgt_switch_wake *wake;

	if (!slot->off.task_state ||
	    now_ns - slot->off.ns < FGT_SWITCH_WAKE_MIN)
		return;
	wake = &slot->wake[(unsigned int)(slot->wakes - 1) &
			   (FGT_SWITCH_WAKES - 1)];
	if (wake->ns > slot->off.ns && wake->delay_us == ~0u)
		wake->delay_us = (unsigned int)((now_ns - wake->ns) / 1000);
}

static __always_inline void write_on(struct fgt_switch_slot *slot,
				     unsigned long long now_ns)
{
	/* One that was never seen to leave a CPU slept when it was added. */
	if (slot->off.task_state || !slot->off.ns)
		end_block(slot, now_ns);
	slot->waited += waited(slot, now_ns);
	end_wake(slot, now_ns);
	slot->on_ns = now_ns;
	slot->is_on = 1;
}

/*
 * A thread that waited wants a CPU again. The slot's version stays: its stack
 * does not change by this.
 */
static __always_inline void write_woken(struct fgt_switch_slot *slot,
					unsigned int index,
					unsigned long long now_ns)
{
	unsigned long long us = (now_ns - slot->off.ns) / 1000 + 1;

	slot->off.woken_us = us > ~0u ? ~0u : (unsigned int)us;
	mark_lazily(index);
}

static __always_inline unsigned int stamp_of(unsigned long long now_ns)
{
	return (unsigned int)(now_ns >> FGT_SWITCH_UNIT) | 1;
}

/*
 * A waker came while it was on its CPU: one that waits for it to leave has its
 * lock until then, or has given it that state. All others found it about to
 * sleep, and it did not; one that came long ago is such a one.
 */
static __always_inline void take_waker(struct fgt_switch_slot *slot,
				       struct task_struct *task,
				       unsigned int index,
				       unsigned long long now_ns)
{
	unsigned int age = stamp_of(now_ns) - slot->waker;
	bool is_locked = false;

	slot->waker = 0;
	/* It may have come a little later than now_ns. */
	if (!slot->off.task_state || age + WAKER_MAX > 2 * WAKER_MAX)
		return;
	/* Its first word is 0 where it is free. With one CPU it has none. */
	if (bpf_core_field_size(task->pi_lock) >= sizeof(unsigned int))
		is_locked = *(const unsigned int *)&task->pi_lock;
	if (is_locked || task->__state == TASK_WAKING)
		write_woken(slot, index, now_ns);
}

/* A thread without a slot leaves its last CPU. One that is older had a slot: a
 * tick found that it had ended before the kernel was done with it. */
static __always_inline void note_brief(struct task_struct *task)
{
	int tgid = task->tgid;
	struct fgt_switch_brief *brief;

	if (!is_wanted((unsigned int)tgid) ||
	    bpf_ktime_get_ns() - task->start_time > BRIEF_MAX_NS)
		return;
	brief = bpf_map_lookup_elem(&brief_of_tgid, &tgid);
	if (!brief)
		return;
	__sync_fetch_and_add(&brief->threads, 1);
	__sync_fetch_and_add(&brief->cpu_ns, task->se.sum_exec_runtime);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool is_preempted, struct task_struct *prev,
	     struct task_struct *next, unsigned int prev_state)
{
	struct fgt_switch_slot *slot;
	unsigned long long now_ns = 0;
	unsigned int index = 0;

	slot = find(prev, &index);
	if (slot) {
		now_ns = bpf_ktime_get_ns();
		advance(&slot->version);
		/* One that is preempted keeps a state it was about to take. */
		write_off(slot, prev, is_preempted ? 0 : prev_state, now_ns);
		advance(&slot->version);
		mark(index);
		/* advance() and mark() are a barrier, as is_off() has one: a
		 * waker that is not seen here sees it off. */
		if (slot->waker)
			take_waker(slot, prev, index, now_ns);
	} else if (prev_state & FGT_SWITCH_TASK_DEAD) {
		note_brief(prev);
	}
	slot = find(next, &index);
	if (slot) {
		if (!now_ns)
			now_ns = bpf_ktime_get_ns();
		advance(&slot->version);
		write_on(slot, now_ns);
		advance(&slot->version);
		/* Not marked: a sample finds it, or it leaves its CPU again. */
	}
	return 0;
}

/*
 * What runs is not what wakes in an interrupt, or in what the kernel puts off to
 * its end: these have stacks apart from those of threads, or they came while a
 * thread was in its program, and so in no system call. sp: on the stack.
 */
static __always_inline unsigned int context_of_waker(struct task_struct *waker,
						     unsigned long sp)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(waker);
	unsigned long start = (unsigned long)waker->stack;

	if (!waker->pid || sp - start >= STACK_BYTES_MAX ||
	    (!(waker->flags & PF_KTHREAD) && REGS_CALL(regs) < 0))
		return FGT_SWITCH_INTERRUPT;
	return FGT_SWITCH_TASK;
}

/* Both of one user, or the kernel's: what hides processes of others from a
 * user must not be undone here. */
static __always_inline bool may_name(const struct task_struct *waker,
				     const struct task_struct *task)
{
	return waker->tgid == task->tgid || waker->flags & PF_KTHREAD ||
	       waker->cred->uid.val == task->cred->uid.val;
}

/* The stack may end before the copy does: then up to the end of its page. */
static __always_inline void copy_stack(struct fgt_switch_stack *stack)
{
	const void *sp = (const void *)stack->sp;
	unsigned int rest =
		FGT_SWITCH_STACK_BYTES -
		(unsigned int)(stack->sp & (FGT_SWITCH_STACK_BYTES - 1));

	stack->len = FGT_SWITCH_STACK_BYTES;
	if (bpf_probe_read_user(stack->bytes, FGT_SWITCH_STACK_BYTES, sp) == 0)
		return;
	stack->len = rest;
	if (rest > FGT_SWITCH_STACK_BYTES ||
	    bpf_probe_read_user(stack->bytes, rest, sp) != 0)
		stack->len = 0;
}

/* Its number. Others may take one at the same time. */
static __always_inline unsigned int keep_stack(struct task_struct *waker)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(waker);
	struct fgt_switch_stack *stack;
	unsigned int number, index;

	if ((int)(stack_limit - stack_number) <= 0)
		return FGT_SWITCH_STACK_LOST;
	number = __sync_fetch_and_add(&stack_number, 1) + 1;
	if ((int)(stack_limit - number) < 0)
		return FGT_SWITCH_STACK_LOST;
	index = number % FGT_SWITCH_STACKS;
	stack = bpf_map_lookup_elem(&stacks, &index);
	if (!stack || number + 1 <= 1) /* 0 and its like are no numbers */
		return FGT_SWITCH_STACK_NONE;
	__sync_lock_test_and_set(&stack->number, 0);
	stack->pc = REGS_PC(regs);
	stack->sp = regs->sp;
	stack->fp = REGS_FP(regs);
	copy_stack(stack);
	__sync_lock_test_and_set(&stack->number, number);
	return number;
}

static __always_inline void write_waker(struct fgt_switch_wake *wake,
					const struct task_struct *task,
					unsigned long sp)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	wake->pid = wake->tid = 0;
	wake->stack = FGT_SWITCH_STACK_NONE;
	wake->context = context_of_waker(waker, sp);
	wake->delay_us = ~0u;
	__builtin_memset(wake->name, 0, sizeof(wake->name));
	if (wake->context != FGT_SWITCH_TASK)
		return;
	if (!may_name(waker, task)) {
		__builtin_memcpy(wake->name, "(other user)", 13);
		return;
	}
	wake->pid = (unsigned int)waker->tgid;
	wake->tid = (unsigned int)waker->pid;
	bpf_get_current_comm(wake->name, sizeof(wake->name));
	if (waker->tgid == task->tgid)
		wake->stack = keep_stack(waker);
}

/* False: it stays on its CPU, or on_switch, which runs now, finds this waker. The
 * exchange is a barrier: one of the two sees what the other has written. */
static __always_inline bool is_off(struct fgt_switch_slot *slot)
{
	if (!slot->is_on)
		return true;
	(void)__sync_lock_test_and_set(&slot->waker,
				       stamp_of(bpf_ktime_get_ns()));
	return !slot->is_on;
}

/*
 * Runs where the waker does, and the kernel lets nothing else wake the thread
 * meanwhile.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	unsigned int index = 0;
	struct fgt_switch_slot *slot = find(task, &index);
	struct fgt_switch_wake *wake;
	unsigned long long now_ns;

	if (!slot || !is_off(slot) || !slot->off.task_state)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (slot->off.ns)
		write_woken(slot, index, now_ns);
	if (now_ns - slot->off.ns < FGT_SWITCH_WAKE_MIN)
		return 0;
	wake = &slot->wake[slot->wakes & (FGT_SWITCH_WAKES - 1)];
	write_waker(wake, task, (unsigned long)ctx);
	wake->ns = now_ns;
	advance(&slot->wakes);
	return 0;
}

/* For kernels that refuse on_waking. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	unsigned int index = 0;
	struct fgt_switch_slot *slot = find(task, &index);

	/* Also reported of one that is about to sleep, and does not. */
	if (slot && !slot->is_on && slot->off.ns && !slot->off.woken_us)
		write_woken(slot, index, bpf_ktime_get_ns());
	return 0;
}

/* Threads that sleep and were not seen to switch: one pass over a process. */
SEC("iter/task")
int hand_over(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct fgt_switch_sleeper sleeper = {};
	struct pt_regs *regs;

	if (!task)
		return 0;
	sleeper.off.task_state = (unsigned short)task->__state;
	/* About to sleep, or not after all: its stack may still change. */
	if (!sleeper.off.task_state ||
	    (bpf_core_field_exists(task->on_cpu) && task->on_cpu))
		return 0;
	sleeper.tid = task->pid;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	read_regs(&sleeper.off, regs);
	bpf_seq_write(context->meta->seq, &sleeper, sizeof(sleeper));
	return 0;
}
