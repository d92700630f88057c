/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context switches of the threads that are sampled: which threads ran, and
 * where each left its CPU last. A provider has them written down in slots,
 * which are read here without a system call.
 *
 * Runs in the sampler's thread; the thread that makes a sampler opens its
 * provider. MT-Unsafe for one provider | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/who_ran/switch_slot.h"
#include "ringbuf/base/why.h"

#define FGT_SWITCHES_NO_INDEX UINT32_MAX

/* What looks have taken from a slot. */
struct fgt_switch_seen {
	uint64_t looked_ns; /* instant of the last one; 0: not known */
	uint16_t blocks; /* that had begun by then */
	uint32_t waited; /* for a CPU, by the slot */
	bool is_blocked; /* then */
	bool has_wakes; /* is known: */
	uint64_t wakes; /* so many have been taken */
};

/* What context switches show of a thread, where the kernel reports them. */
struct fgt_thread_switches {
	uint32_t index;
	bool is_handed; /* it slept when it began to be watched: */
	struct fgt_switch_off handed;
	uint64_t version; /* of the slot when it was looked at last */
	uint64_t shown_ns; /* off.ns of what the ring shows; 0: of none */
	uint32_t shown_state; /* with it */
	bool is_shown_runnable; /* … and wants a CPU */
	struct fgt_switch_off blocked_at; /* where it stood in last_block */
	struct fgt_switch_off former_at; /* … and in former_block */
	uint64_t
		shared_places; /* a bit each: blocked there in several stacks */
	struct fgt_switch_seen seen;
};

struct fgt_switches;

/* A thread that slept when its switches began to be watched is handed over. */
struct fgt_switch_provider {
	/*
	 * Sees it work on the calling thread. -EPERM, -ENOMEM, -EOPNOTSUPP and
	 * what else the kernel returns, with why.
	 */
	int (*open)(struct fgt_switches **ret_switches, struct fgt_why *why);
	void (*close)(struct fgt_switches *switches);

	/* While it is not started, nothing is reported, and no switch costs
	 * anything. */
	int (*start)(struct fgt_switches *switches);
	void (*stop)(struct fgt_switches *switches);

	/* The threads of a process can be added from now on. Calls nest. */
	void (*watch)(struct fgt_switches *switches, int32_t pid);
	void (*unwatch)(struct fgt_switches *switches, int32_t pid);

	/* Threads of a watched process that ended before they were added, since
	 * it is. False: not known. */
	bool (*read_brief)(const struct fgt_switches *switches, int32_t pid,
			   struct fgt_switch_brief *ret_brief);

	/*
	 * Reports a thread's switches from now on; home and owner are what
	 * fgt_switches_take() hands out. -ENOSPC, errno of bpf(2).
	 */
	int (*add)(struct fgt_switches *switches, int32_t pid, int32_t tid,
		   void *home, void *owner, uint32_t *ret_index);
	void (*remove)(struct fgt_switches *switches, uint32_t index);

	/*
	 * Shows all sleeping threads of a process, once each. -EOPNOTSUPP
	 * before Linux 6.1 (procfs shows them too), errno of bpf(2) or read(2).
	 */
	int (*hand_over)(
		const struct fgt_switches *switches, int32_t pid,
		void (*asleep)(void *context,
			       const struct fgt_switch_sleeper *sleeper),
		void *context);

	/* Finds the socket that is asked for, if it is one; the process is not
	 * touched. errno of bpf(2). */
	int (*find_socket)(const struct fgt_switches *switches,
			   struct fgt_switch_socket *socket);
};

struct fgt_switch_owner {
	void *home, *owner;
	int32_t pid, tid;
	uint32_t next_free;
};

/* Switches of all targets of one sampler, used by its thread only. A provider
 * opens it. */
struct fgt_switches {
	const struct fgt_switch_provider *provider;
	const struct fgt_switch_slot *slots;
	const struct fgt_switch_owner *owners; /* of the slots */
	/* Shared with the kernel's half: */
	unsigned long long *instant_ns;
	unsigned long long *changed; /* [FGT_SWITCH_WORDS] */
	/* [FGT_SWITCH_STACKS] of wakers; NULL: none, and then the others, too */
	const struct fgt_switch_stack *stacks;
	const unsigned int *stack_number;
	unsigned int *stack_limit;
};

/* The stack of a waker by its number: a copy. False: it is not kept any more. */
bool fgt_switches_read_stack(const struct fgt_switches *switches,
			     uint32_t number,
			     struct fgt_switch_stack *ret_stack);

/* Samples fall at this instant (CLOCK_MONOTONIC): where a thread is then can be
 * read from its slot until another instant is set. Stacks of wakers are kept
 * again until then. */
void fgt_switches_set_instant(struct fgt_switches *switches,
			      uint64_t instant_ns);

/* Calls changed() for each thread that left its CPU since the last call. */
void fgt_switches_take(struct fgt_switches *switches,
		       void (*changed)(void *home, void *owner));

/*
 * A copy that is consistent, without wake-ups; false if the thread was being
 * switched, and then ret_slot makes no sense. Its version is 0 as long as the
 * thread was not seen to switch.
 */
bool fgt_switches_read(const struct fgt_switches *switches, uint32_t index,
		       struct fgt_switch_slot *ret_slot);
/* Equal before and after a look: the thread did not move meanwhile. */
uint64_t fgt_switches_version(const struct fgt_switches *switches,
			      uint32_t index);

/*
 * Uses a BPF program in the kernel (switches_bpf.c); for fgt_sampler_options.
 * Needs CAP_BPF and CAP_PERFMON (or root), a kernel with BTF (5.18 or later),
 * and the host's pid namespace. NULL where clang, bpftool or libbpf were
 * missing when this was built.
 */
#ifdef FGT_HAS_BPF
extern const struct fgt_switch_provider fgt_switches_by_bpf;
#define FGT_SWITCHES_BUILT_IN (&fgt_switches_by_bpf)
#else
#define FGT_SWITCHES_BUILT_IN NULL
#endif

#endif
