/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user space half of switches.bpf.c, through libbpf. Runs in the sampler's
 * thread, which alone changes what the kernel's half looks up.
 */
#include "agent/capture/who_ran/switches.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/who_ran/switches_asked.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/memory_limit.h"
#include "ringbuf/base/owner.h"
#include "switches.skel.h"

#define INIT_PID_NAMESPACE 0xEFFFFFFCu /* include/linux/proc_ns.h */
#define CHECK_TRIES	   20
#define TGID_BITS	   64
#define WINDOW_SLOTS	   512u /* mapped at a time: 512 KiB */
#define FREE_MIN	   256u /* fewer: another window */
/* Of the memory that this process may use, for all slots: the kernel's. */
#define SLOTS_PART   8u
#define STACKS_BYTES (FGT_SWITCH_STACKS * sizeof(struct fgt_switch_stack))

_Static_assert(FGT_SWITCH_SLOTS_MAX % WINDOW_SLOTS == 0, "whole windows");
_Static_assert(FGT_SWITCH_SLOTS_MAX <= 65536, "an index fits a guess");

struct bpf_switches {
	struct fgt_switches common; /* slots: see mapped_count */
	struct fgt_switches_bpf *program;
	struct bpf_link *link; /* NULL: not started */
	struct bpf_link *wakeup_link, *waking_link;
	/*
	 * Shared with the kernel; room for slot_count, of which the first
	 * mapped_count are there: each page counts as used from the moment it
	 * is mapped.
	 */
	struct fgt_switch_slot *slots;
	uint32_t mapped_count, slot_count;
	struct fgt_switch_owner *owners; /* [FGT_SWITCH_SLOTS_MAX] */
	/*
	 * Free slots, first in first out: a switch that is being written down
	 * while its slot is given back is over long before that is used again.
	 */
	uint32_t first_free, last_free, free_count;
	uint32_t watchers[TGID_BITS];
};

static struct bpf_switches *bpf_of(struct fgt_switches *switches)
{
	return (struct bpf_switches *)switches;
}

/* ---- Slots ------------------------------------------------------------- */

static void give_back(struct bpf_switches *switches, uint32_t index)
{
	switches->owners[index] = (struct fgt_switch_owner){
		.next_free = FGT_SWITCHES_NO_INDEX,
	};
	if (switches->free_count++ == 0)
		switches->first_free = index;
	else
		switches->owners[switches->last_free].next_free = index;
	switches->last_free = index;
}

/* Maps some more slots. -ENOSPC there are no more, errno of mmap. */
static int grow(struct bpf_switches *switches)
{
	const size_t window_bytes =
		WINDOW_SLOTS * sizeof(struct fgt_switch_slot);
	size_t offset = switches->mapped_count * sizeof(struct fgt_switch_slot);
	void *place = (char *)switches->slots + offset;

	if (switches->mapped_count == switches->slot_count)
		return -ENOSPC;
	if (mmap(place, window_bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED,
		 bpf_map__fd(switches->program->maps.slots),
		 (off_t)offset) == MAP_FAILED)
		return -errno;
	for (uint32_t i = 0; i < WINDOW_SLOTS; i++)
		give_back(switches, switches->mapped_count++);
	return 0;
}

/* Where the kernel's half looks first. */
static void set_guess(struct bpf_switches *switches, int32_t tid,
		      uint32_t index)
{
	uint32_t at = (uint32_t)tid % FGT_SWITCH_GUESSES;

	/* Release: the side that finds the slot by it sees its tid. */
	__atomic_store_n(&switches->program->bss->guess_of_tid[at],
			 (unsigned short)index, __ATOMIC_RELEASE);
}

static int bpf_add(struct fgt_switches *common, int32_t pid, int32_t tid,
		   void *home, void *owner, uint32_t *ret_index)
{
	struct bpf_switches *switches = bpf_of(common);
	uint32_t index = switches->first_free;
	int rc;

	if (switches->free_count < FREE_MIN)
		(void)grow(switches);
	/* One stays: the last that was given back may still be written. */
	if (switches->free_count < 2)
		return -ENOSPC;
	switches->slots[index] = (struct fgt_switch_slot){
		.tid = (uint32_t)tid,
		.tgid = (uint32_t)pid,
	};
	rc = bpf_map__update_elem(switches->program->maps.slot_of_tid, &tid,
				  sizeof(tid), &index, sizeof(index), BPF_ANY);
	if (rc < 0)
		return rc == -E2BIG ? -ENOSPC : rc;
	set_guess(switches, tid, index);
	switches->first_free = switches->owners[index].next_free;
	switches->free_count--;
	switches->owners[index] = (struct fgt_switch_owner){
		.home = home,
		.owner = owner,
		.pid = pid,
		.tid = tid,
	};
	*ret_index = index;
	return 0;
}

static void bpf_remove(struct fgt_switches *common, uint32_t index)
{
	struct bpf_switches *switches = bpf_of(common);
	struct bpf_map *map = switches->program->maps.slot_of_tid;
	struct fgt_switch_slot *slot = &switches->slots[index];
	int32_t tid = switches->owners[index].tid;
	uint32_t found;

	/* A guess leads here as long as the slot has a tid. */
	__atomic_store_n(&slot->tid, 0, __ATOMIC_RELAXED);

	/* The number may have been given to another thread, and added again. */
	if (bpf_map__lookup_elem(map, &tid, sizeof(tid), &found, sizeof(found),
				 0) == 0 &&
	    found == index)
		bpf_map__delete_elem(map, &tid, sizeof(tid), 0);
	give_back(switches, index);
}

/* ---- Processes --------------------------------------------------------- */

static void set_wanted(struct bpf_switches *switches)
{
	unsigned long long wanted = 0;

	for (int i = 0; i < TGID_BITS; i++)
		if (switches->watchers[i])
			wanted |= 1ull << i;
	__atomic_store_n(&switches->program->bss->wanted_tgids, wanted,
			 __ATOMIC_RELEASE);
}

static void bpf_watch(struct fgt_switches *common, int32_t pid)
{
	struct bpf_switches *switches = bpf_of(common);
	const struct fgt_switch_brief none = { 0 };

	/* Where there is no room, they are not counted. */
	(void)bpf_map__update_elem(switches->program->maps.brief_of_tgid, &pid,
				   sizeof(pid), &none, sizeof(none),
				   BPF_NOEXIST);
	switches->watchers[pid % TGID_BITS]++;
	set_wanted(switches);
}

static void bpf_unwatch(struct fgt_switches *common, int32_t pid)
{
	struct bpf_switches *switches = bpf_of(common);

	switches->watchers[pid % TGID_BITS]--;
	set_wanted(switches);
	(void)bpf_map__delete_elem(switches->program->maps.brief_of_tgid, &pid,
				   sizeof(pid), 0);
}

static bool bpf_read_brief(const struct fgt_switches *common, int32_t pid,
			   struct fgt_switch_brief *ret_brief)
{
	const struct bpf_switches *switches =
		(const struct bpf_switches *)common;

	return bpf_map__lookup_elem(switches->program->maps.brief_of_tgid, &pid,
				    sizeof(pid), ret_brief, sizeof(*ret_brief),
				    0) == 0;
}

/* ---- Starting ---------------------------------------------------------- */

static int bpf_start(struct fgt_switches *common)
{
	struct bpf_switches *switches = bpf_of(common);

	if (!switches->link)
		switches->link =
			bpf_program__attach(switches->program->progs.on_switch);
	if (!switches->link)
		return -errno;
	/* Without it wakers are not known. */
	if (!switches->waking_link &&
	    bpf_program__fd(switches->program->progs.on_waking) >= 0)
		switches->waking_link =
			bpf_program__attach(switches->program->progs.on_waking);
	/* Without either a thread that waits for its CPU shows its call. */
	if (!switches->waking_link && !switches->wakeup_link)
		switches->wakeup_link =
			bpf_program__attach(switches->program->progs.on_wakeup);
	return 0;
}

static void bpf_stop(struct fgt_switches *common)
{
	bpf_link__destroy(FGT_TAKE(bpf_of(common)->link));
	bpf_link__destroy(FGT_TAKE(bpf_of(common)->wakeup_link));
	bpf_link__destroy(FGT_TAKE(bpf_of(common)->waking_link));
}

/* Does what the program reports of this thread agree with what it did? */
static bool is_telling(struct fgt_switches *switches, uint32_t index)
{
	const struct timespec nap = { .tv_nsec = 1000 };
	struct fgt_switch_slot slot = { .version = 0 };
	uint64_t begin_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < CHECK_TRIES && !slot.off.ns; i++) {
		nanosleep(&nap, NULL);
		if (!fgt_switches_read(switches, index, &slot))
			slot.off.ns = 0;
	}
	return slot.off.ns >= begin_ns &&
	       slot.on_ns <= fgt_clock_ns(CLOCK_MONOTONIC) &&
	       slot.off.sp != 0 && slot.off.pc != 0;
}

static int check(struct fgt_switches *switches)
{
	uint32_t index;
	int rc;

	rc = bpf_add(switches, getpid(), gettid(), NULL, NULL, &index);
	if (rc < 0)
		return rc;
	bpf_watch(switches, getpid());
	rc = bpf_start(switches);
	if (rc == 0 && !is_telling(switches, index))
		rc = -EOPNOTSUPP;
	bpf_stop(switches);
	bpf_unwatch(switches, getpid());
	bpf_remove(switches, index);
	return rc;
}

static int explain(int error, struct fgt_why *why)
{
	if (error == -EPERM)
		return fgt_why_set(why, error,
				   "BPF is not permitted: give the agent "
				   "CAP_BPF and CAP_PERFMON");
	if (error == -EACCES)
		return fgt_why_set(why, error,
				   "this kernel's verifier refuses the BPF "
				   "program: use a newer kernel, or "
				   "sampling.who_ran = \"schedstat\"");
	if (error == -EOPNOTSUPP)
		return fgt_why_set(why, error,
				   "BPF did not report context switches: use "
				   "a newer kernel, or sampling.who_ran = "
				   "\"schedstat\"");
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return fgt_why_set(why, error,
				   "the kernel's types for BPF cannot be read: "
				   "mount /sys, or use a kernel with "
				   "CONFIG_DEBUG_INFO_BTF (see "
				   "/sys/kernel/btf/vmlinux)");
	return fgt_why_set(why, error,
			   "the BPF program cannot be loaded: %s (it needs "
			   "Linux 5.18 or later, with BTF)",
			   strerror(-error));
}

/* Room for all of them, side by side; a first window is mapped. */
static int map_slots(struct bpf_switches *switches)
{
	void *slots = mmap(
		NULL, FGT_SWITCH_SLOTS_MAX * sizeof(struct fgt_switch_slot),
		PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (slots == MAP_FAILED)
		return -errno;
	switches->slots = slots;
	return grow(switches);
}

/* Without it the stacks of wakers are not known. */
static void map_stacks(struct bpf_switches *switches)
{
	struct fgt_switches *common = &switches->common;
	void *stacks = mmap(NULL, STACKS_BYTES, PROT_READ, MAP_SHARED,
			    bpf_map__fd(switches->program->maps.stacks), 0);

	if (stacks == MAP_FAILED)
		return;
	common->stacks = stacks;
	common->stack_number = &switches->program->bss->stack_number;
	common->stack_limit = &switches->program->bss->stack_limit;
}

/* A small memory group has room for fewer threads. */
static uint32_t choose_slot_count(void)
{
	uint64_t bytes = WINDOW_SLOTS * sizeof(struct fgt_switch_slot);
	uint64_t windows = fgt_memory_limit() / SLOTS_PART / bytes;

	if (windows > FGT_SWITCH_SLOTS_MAX / WINDOW_SLOTS)
		return FGT_SWITCH_SLOTS_MAX;
	return windows ? (uint32_t)windows * WINDOW_SLOTS : WINDOW_SLOTS;
}

static int load_program(struct bpf_switches *switches, bool has_wakes,
			bool has_sockets)
{
	int rc;

	switches->program = fgt_switches_bpf__open();
	if (!switches->program)
		return -errno;
	if (!has_wakes)
		bpf_program__set_autoload(switches->program->progs.on_waking,
					  false);
	if (!has_sockets)
		bpf_program__set_autoload(switches->program->progs.find_socket,
					  false);
	switches->slot_count = choose_slot_count();
	rc = bpf_map__set_max_entries(switches->program->maps.slots,
				      switches->slot_count);
	if (rc == 0)
		rc = fgt_switches_bpf__load(switches->program);
	if (rc < 0)
		fgt_switches_bpf__destroy(FGT_TAKE(switches->program));
	return rc;
}

/* A kernel may refuse the parts that see sockets, or wakers: it goes without. */
static int load(struct bpf_switches *switches)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	int rc = load_program(switches, true, true);

	if (rc < 0)
		rc = load_program(switches, true, false);
	if (rc < 0)
		rc = load_program(switches, false, true);
	if (rc < 0)
		rc = load_program(switches, false, false);
	libbpf_set_print(print);
	/* The kernel's types were read for this, and are many. */
	malloc_trim(0);
	return rc;
}

static void bpf_close(struct fgt_switches *common)
{
	struct bpf_switches *switches = bpf_of(common);

	if (!switches)
		return;
	bpf_stop(common);
	if (switches->slots)
		munmap(switches->slots,
		       FGT_SWITCH_SLOTS_MAX * sizeof(struct fgt_switch_slot));
	if (common->stacks)
		munmap((void *)common->stacks, STACKS_BYTES);
	fgt_switches_bpf__destroy(switches->program);
	free(switches->owners);
	free(switches);
}
FGT_DEFINE_AUTO(struct fgt_switches *, bpf_close);

static int open_all(struct bpf_switches *switches)
{
	struct fgt_switches *common = &switches->common;
	int rc = load(switches);

	if (rc == 0)
		rc = map_slots(switches);
	if (rc < 0)
		return rc;
	common->slots = switches->slots;
	common->owners = switches->owners;
	common->instant_ns = &switches->program->bss->instant_ns;
	common->changed = switches->program->bss->changed;
	map_stacks(switches);
	return check(common);
}

static int bpf_open(struct fgt_switches **ret_switches, struct fgt_why *why)
{
	FGT_AUTO(bpf_close) struct fgt_switches *common = NULL;
	struct bpf_switches *switches;
	struct stat namespace;
	int rc;

	if (stat("/proc/self/ns/pid", &namespace) < 0 ||
	    namespace.st_ino != INIT_PID_NAMESPACE)
		return fgt_why_set(why, -EOPNOTSUPP,
				   "BPF needs the host's pid namespace: run "
				   "the agent outside of containers");
	switches = calloc(1, sizeof(*switches));
	if (!switches)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	common = &switches->common;
	common->provider = &fgt_switches_by_bpf;
	switches->owners =
		calloc(FGT_SWITCH_SLOTS_MAX, sizeof(*switches->owners));
	if (!switches->owners)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	rc = open_all(switches);
	if (rc < 0)
		return explain(rc, why);
	*ret_switches = FGT_TAKE(common);
	return 0;
}

static int bpf_hand_over(
	const struct fgt_switches *common, int32_t pid,
	void (*asleep)(void *context, const struct fgt_switch_sleeper *sleeper),
	void *context)
{
	const struct bpf_switches *switches =
		(const struct bpf_switches *)common;

	return fgt_switches_hand_over(switches->program->progs.hand_over, pid,
				      asleep, context);
}

static int bpf_find_socket(const struct fgt_switches *common,
			   struct fgt_switch_socket *socket)
{
	const struct bpf_switches *switches =
		(const struct bpf_switches *)common;

	return fgt_switches_find_socket(switches->program->progs.find_socket,
					socket);
}

const struct fgt_switch_provider fgt_switches_by_bpf = {
	.open = bpf_open,
	.close = bpf_close,
	.start = bpf_start,
	.stop = bpf_stop,
	.watch = bpf_watch,
	.unwatch = bpf_unwatch,
	.read_brief = bpf_read_brief,
	.add = bpf_add,
	.remove = bpf_remove,
	.hand_over = bpf_hand_over,
	.find_socket = bpf_find_socket,
};
