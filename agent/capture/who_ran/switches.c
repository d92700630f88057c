/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user space half of switches.bpf.c, through libbpf. Runs in the sampler's
 * thread, which alone changes what the kernel's half looks up.
 */
#include "agent/capture/who_ran/switches.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "switches.skel.h"

#define INIT_PID_NAMESPACE 0xEFFFFFFCu /* include/linux/proc_ns.h */
#define READ_TRIES	   4
#define CHECK_TRIES	   20
#define TGID_BITS	   64
#define WINDOW_SLOTS	   1024u /* mapped at a time: 128 KiB */
#define FREE_MIN	   256u /* fewer: another window */

_Static_assert(FGT_SWITCH_SLOTS_MAX % WINDOW_SLOTS == 0, "whole windows");
_Static_assert(FGT_SWITCH_SLOTS_MAX <= 65536, "an index fits a guess");

struct owner {
	void *home, *owner;
	int32_t pid, tid;
	uint32_t next_free;
};

struct fgt_switches {
	struct fgt_switches_bpf *program;
	struct bpf_link *link; /* NULL: not started */
	/*
	 * Shared with the kernel; room for all, of which the first mapped_count
	 * are there: each page counts as ours from the moment it is mapped.
	 */
	const struct fgt_switch_slot *slots;
	uint32_t mapped_count;
	struct owner *owners; /* [FGT_SWITCH_SLOTS_MAX] */
	/*
	 * Free slots, first in first out: a switch that is being written down
	 * while its slot is given back is over long before that is used again.
	 */
	uint32_t first_free, last_free, free_count;
	uint32_t watchers[TGID_BITS];
};

static int print_nothing(enum libbpf_print_level level, const char *format,
			 va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

/* ---- Slots ------------------------------------------------------------- */

static void give_back(struct fgt_switches *switches, uint32_t index)
{
	switches->owners[index] = (struct owner){
		.next_free = FGT_SWITCHES_NO_INDEX,
	};
	if (switches->free_count++ == 0)
		switches->first_free = index;
	else
		switches->owners[switches->last_free].next_free = index;
	switches->last_free = index;
}

/* Maps some more slots. -ENOSPC there are no more, errno of mmap. */
static int grow(struct fgt_switches *switches)
{
	const size_t window_bytes =
		WINDOW_SLOTS * sizeof(struct fgt_switch_slot);
	size_t offset = switches->mapped_count * sizeof(struct fgt_switch_slot);
	void *place = (char *)switches->slots + offset;

	if (switches->mapped_count == FGT_SWITCH_SLOTS_MAX)
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
static void set_guess(struct fgt_switches *switches, int32_t tid,
		      uint32_t index)
{
	uint32_t at = (uint32_t)tid % FGT_SWITCH_GUESSES;

	/* Release: who finds the slot by it sees whose it is. */
	__atomic_store_n(&switches->program->bss->guess_of_tid[at],
			 (unsigned short)index, __ATOMIC_RELEASE);
}

int fgt_switches_add(struct fgt_switches *switches, int32_t pid, int32_t tid,
		     void *home, void *owner, uint32_t *ret_index)
{
	struct fgt_switch_slot *slots =
		(struct fgt_switch_slot *)switches->slots;
	uint32_t index = switches->first_free;
	int rc;

	if (switches->free_count < FREE_MIN)
		(void)grow(switches);
	/* One stays: the last that was given back may still be written. */
	if (switches->free_count < 2)
		return -ENOSPC;
	slots[index] = (struct fgt_switch_slot){
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
	switches->owners[index] = (struct owner){
		.home = home,
		.owner = owner,
		.pid = pid,
		.tid = tid,
	};
	*ret_index = index;
	return 0;
}

void fgt_switches_remove(struct fgt_switches *switches, uint32_t index)
{
	struct bpf_map *map = switches->program->maps.slot_of_tid;
	struct fgt_switch_slot *slot =
		(struct fgt_switch_slot *)&switches->slots[index];
	int32_t tid = switches->owners[index].tid;
	uint32_t found;

	/* A guess leads here as long as it is somebody's. */
	__atomic_store_n(&slot->tid, 0, __ATOMIC_RELAXED);

	/* The number may have been given to another thread, and added again. */
	if (bpf_map__lookup_elem(map, &tid, sizeof(tid), &found, sizeof(found),
				 0) == 0 &&
	    found == index)
		bpf_map__delete_elem(map, &tid, sizeof(tid), 0);
	give_back(switches, index);
}

uint64_t fgt_switches_version(const struct fgt_switches *switches,
			      uint32_t index)
{
	return __atomic_load_n(&switches->slots[index].version,
			       __ATOMIC_ACQUIRE);
}

bool fgt_switches_read(const struct fgt_switches *switches, uint32_t index,
		       struct fgt_switch_slot *ret_slot)
{
	struct fgt_switch_slot copy;
	uint64_t before;

	for (int i = 0; i < READ_TRIES; i++) {
		before = fgt_switches_version(switches, index);
		memcpy(&copy, &switches->slots[index], sizeof(copy));
		/* Acquire: the copy is taken before the version is read again;
		 * pairs with turn() in the kernel's half. */
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 ||
		    before != __atomic_load_n(&switches->slots[index].version,
					      __ATOMIC_RELAXED))
			continue;
		copy.version = before;
		*ret_slot = copy;
		return true;
	}
	return false;
}

void fgt_switches_set_instant(struct fgt_switches *switches,
			      uint64_t instant_ns)
{
	__atomic_store_n(&switches->program->bss->instant_ns, instant_ns,
			 __ATOMIC_RELAXED);
}

bool fgt_switches_look(struct fgt_switches *switches, uint32_t index,
		       uint64_t version, uint64_t instant_ns)
{
	struct fgt_switch_slot *slot =
		(struct fgt_switch_slot *)&switches->slots[index];

	/* Before the version is loaded: a switch that did not see it shows. */
	__atomic_store_n(&slot->looked_ns, instant_ns, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&slot->version, __ATOMIC_SEQ_CST) == version;
}

void fgt_switches_take(struct fgt_switches *switches,
		       void (*changed)(void *home, void *owner))
{
	unsigned long long *words = switches->program->bss->changed;

	for (uint32_t word = 0; word < FGT_SWITCH_WORDS; word++) {
		unsigned long long bits;

		if (!__atomic_load_n(&words[word], __ATOMIC_RELAXED))
			continue;
		/* Pairs with mark(): what was written before is seen. */
		bits = __atomic_exchange_n(&words[word], 0, __ATOMIC_SEQ_CST);
		for (; bits; bits &= bits - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);
			const struct owner *owner =
				&switches->owners[word * 64 + bit];

			if (owner->owner)
				changed(owner->home, owner->owner);
		}
	}
}

/* ---- Processes --------------------------------------------------------- */

static void set_wanted(struct fgt_switches *switches)
{
	unsigned long long wanted = 0;

	for (int i = 0; i < TGID_BITS; i++)
		if (switches->watchers[i])
			wanted |= 1ull << i;
	__atomic_store_n(&switches->program->bss->wanted_tgids, wanted,
			 __ATOMIC_RELEASE);
}

void fgt_switches_watch(struct fgt_switches *switches, int32_t pid)
{
	switches->watchers[pid % TGID_BITS]++;
	set_wanted(switches);
}

void fgt_switches_unwatch(struct fgt_switches *switches, int32_t pid)
{
	switches->watchers[pid % TGID_BITS]--;
	set_wanted(switches);
}

/* ---- Starting ---------------------------------------------------------- */

int fgt_switches_start(struct fgt_switches *switches)
{
	struct bpf_link *link;

	if (switches->link)
		return 0;
	link = bpf_program__attach(switches->program->progs.on_switch);
	if (!link)
		return -errno;
	switches->link = link;
	return 0;
}

void fgt_switches_stop(struct fgt_switches *switches)
{
	bpf_link__destroy(switches->link);
	switches->link = NULL;
}

/* Does what the program tells of this thread agree with what it did? */
static bool is_telling(struct fgt_switches *switches, uint32_t index)
{
	const struct timespec nap = { .tv_nsec = 1000 };
	struct fgt_switch_slot slot = { .version = 0 };
	uint64_t begin_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < CHECK_TRIES && !slot.off.ns; i++) {
		nanosleep(&nap, NULL);
		fgt_switches_read(switches, index, &slot);
	}
	return slot.off.ns >= begin_ns &&
	       slot.on_ns <= fgt_clock_ns(CLOCK_MONOTONIC) &&
	       slot.off.sp != 0 && slot.off.pc != 0;
}

static int check(struct fgt_switches *switches)
{
	uint32_t index;
	int rc;

	rc = fgt_switches_add(switches, getpid(), gettid(), NULL, NULL, &index);
	if (rc < 0)
		return rc;
	fgt_switches_watch(switches, getpid());
	rc = fgt_switches_start(switches);
	if (rc == 0 && !is_telling(switches, index))
		rc = -EOPNOTSUPP;
	fgt_switches_stop(switches);
	fgt_switches_unwatch(switches, getpid());
	fgt_switches_remove(switches, index);
	return rc;
}

static int explain(int error, struct fgt_why *why)
{
	if (error == -EPERM)
		return fgt_why_set(why, error,
				   "BPF needs CAP_BPF and CAP_PERFMON");
	if (error == -EACCES)
		return fgt_why_set(why, error,
				   "this kernel's verifier refuses the BPF "
				   "program");
	if (error == -EOPNOTSUPP)
		return fgt_why_set(why, error,
				   "BPF did not tell of context switches");
	return fgt_why_set(why, error,
			   "the BPF program cannot be loaded: %s (it needs "
			   "Linux 5.18 or later, with BTF)",
			   strerror(-error));
}

/* Room for all of them, side by side; a first window is mapped. */
static int map_slots(struct fgt_switches *switches)
{
	void *slots = mmap(
		NULL, FGT_SWITCH_SLOTS_MAX * sizeof(struct fgt_switch_slot),
		PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (slots == MAP_FAILED)
		return -errno;
	switches->slots = slots;
	return grow(switches);
}

static int load(struct fgt_switches *switches)
{
	libbpf_print_fn_t print = libbpf_set_print(print_nothing);
	int rc;

	switches->program = fgt_switches_bpf__open();
	rc = switches->program ? 0 : -errno;
	if (rc == 0)
		rc = fgt_switches_bpf__load(switches->program);
	libbpf_set_print(print);
	/* The kernel's types were read for this, and are many. */
	malloc_trim(0);
	return rc;
}

int fgt_switches_open(struct fgt_switches **ret_switches, struct fgt_why *why)
{
	FGT_AUTO(fgt_switches_close) struct fgt_switches *switches = NULL;
	struct stat namespace;
	int rc;

	if (stat("/proc/self/ns/pid", &namespace) < 0 ||
	    namespace.st_ino != INIT_PID_NAMESPACE)
		return fgt_why_set(why, -EOPNOTSUPP,
				   "BPF needs the host's pid namespace");
	switches = calloc(1, sizeof(*switches));
	if (!switches)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	switches->owners =
		calloc(FGT_SWITCH_SLOTS_MAX, sizeof(*switches->owners));
	if (!switches->owners)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	rc = load(switches);
	if (rc == 0)
		rc = map_slots(switches);
	if (rc == 0)
		rc = check(switches);
	if (rc < 0)
		return explain(rc, why);
	*ret_switches = FGT_TAKE(switches);
	return 0;
}

void fgt_switches_close(struct fgt_switches *switches)
{
	if (!switches)
		return;
	fgt_switches_stop(switches);
	if (switches->slots)
		munmap((void *)switches->slots,
		       FGT_SWITCH_SLOTS_MAX * sizeof(struct fgt_switch_slot));
	fgt_switches_bpf__destroy(switches->program);
	free(switches->owners);
	free(switches);
}

/* ---- What sleeps already ----------------------------------------------- */

static int open_pass(const struct fgt_switches *switches, int32_t pid,
		     struct bpf_link **ret_link)
{
	union bpf_iter_link_info info = { .task = { .pid = (uint32_t)pid } };
	LIBBPF_OPTS(bpf_iter_attach_opts, options);
	struct bpf_link *link;
	int fd;

	/* Not in the declaration: libbpf wants the padding to be zero too. */
	options.link_info = &info;
	options.link_info_len = sizeof(info);
	link = bpf_program__attach_iter(switches->program->progs.hand_over,
					&options);
	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		bpf_link__destroy(link);
	else
		*ret_link = link;
	return fd;
}

int fgt_switches_hand_over(
	const struct fgt_switches *switches, int32_t pid,
	void (*asleep)(void *context, const struct fgt_switch_sleeper *sleeper),
	void *context)
{
	struct fgt_switch_sleeper sleepers[128];
	struct bpf_link *link;
	ssize_t len;
	int fd, rc;

	fd = open_pass(switches, pid, &link);
	if (fd < 0)
		return fd == -EINVAL || fd == -E2BIG ? -EOPNOTSUPP : fd;
	/* The kernel hands out whole records. */
	while ((len = read(fd, sleepers, sizeof(sleepers))) > 0)
		for (size_t i = 0; i < (size_t)len / sizeof(sleepers[0]); i++)
			asleep(context, &sleepers[i]);
	rc = len < 0 ? -errno : 0;
	close(fd);
	bpf_link__destroy(link);
	return rc;
}
