/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a thread that was found blocked waits. Runs in the sampler's thread, once
 * for each wait: must not touch the thread, nor wait for a file system.
 *
 * A lock may pass through several hands while a thread sleeps for it. Such
 * waits are kept in a list, and the lock is read again at ticks by which its
 * owner has run: only then can it have been given away. The same list has waits
 * for events: what their descriptors are is read when they have lasted a tick;
 * and for locks on files, whose holders are read every hundredth tick.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/look/look_parts.h"
#include "agent/capture/threads/owner.h"
#include "agent/capture/threads/procfs.h"
#include "agent/capture/waits/waits.h"
#include "agent/unwind/arch/memory.h"
#include "ringbuf/base/hash.h"

/* Waits of one tick that are read; others have their call alone until one of
 * the next ticks. */
#define READS_MAX	256u
#define FILE_LOCKS_MAX	4u /* of a tick */
#define FILE_LOCK_TICKS 100u /* until its holder is looked up again */

/* Waits that are followed, and those of one tick that get another reason: each
 * is written to the ring. */
#define FOLLOWED_MAX	1024u
#define FOLLOWED_MIN	16u
#define NEW_REASONS_MAX 64u
/* Descriptors of polls that are looked up in a tick. A wait takes so many at
 * most: eight, and as many for an epoll's list, which the kernel writes. */
#define LINKS_MAX 256u
#define WAIT_COST 16u

struct reading {
	struct fgt_look *look;
	struct fgt_thread *thread;
	int32_t known_tid; /* of the holder so far; 0: none */
	uint64_t since_ns; /* of the call; 0: not known */
};

/* The process's first thread may have ended: it has no memory then. */
static bool owns(const struct reading *reading, uint64_t address, size_t len)
{
	int proc_fd = reading->look->process.proc_fd, fd;
	char name[32];
	bool is_own;

	if (fgt_procfs_owns(proc_fd, address, len))
		return true;
	snprintf(name, sizeof(name), "task/%d", reading->thread->tid);
	fd = fgt_procfs_open(proc_fd, name, O_PATH | O_DIRECTORY);
	is_own = fd >= 0 && fgt_procfs_owns(fd, address, len);
	fgt_fd_close(fd);
	return is_own;
}

static bool read_memory(void *context, uint64_t address, void *buffer,
			size_t len)
{
	const struct reading *reading = context;
	struct fgt_look *look = reading->look;
	bool was_refused = look->stacks.readable.is_refused;
	int32_t tid = reading->thread->tid;
	int64_t may = fgt_stacks_readable(&look->stacks, address, len);

	/* That is about stacks. */
	look->stacks.readable.is_refused = was_refused;
	/* Else of a file, perhaps: but variables with a value at the program's
	 * start lie in pages that it has written to. */
	if (may != (int64_t)len && !owns(reading, address, len))
		return false;
	return fgt_memory_read(tid, address, buffer, len) == (int64_t)len;
}

static int32_t find_thread(void *context, int32_t number, bool is_shared)
{
	const struct reading *reading = context;
	int32_t tid = fgt_look_find_holder(reading->look, reading->thread,
					   number, is_shared);

	/* It has ended, and the lock is its still. */
	if (!tid &&
	    fgt_look_is_number(reading->look, reading->known_tid, number))
		return reading->known_tid;
	return tid;
}

static bool describe(void *context, int32_t descriptor, char *text, size_t size)
{
	const struct reading *reading = context;

	if (reading->look->followed.links_left)
		reading->look->followed.links_left--;
	return fgt_look_describe(reading->look, reading->thread, descriptor,
				 text, size);
}

static int list_epoll(void *context, int32_t descriptor, char *text,
		      size_t size)
{
	const struct reading *reading = context;

	return fgt_look_list_epoll(reading->look, descriptor, text, size);
}

/* A call that was interrupted by a stop, and goes on, hides which it is. */
static bool is_of_state(const struct fgt_blocked *blocked, uint32_t state)
{
	return !blocked->is_running && blocked->call >= 0 &&
	       state == FGT_STATE_SYSCALL_FIRST + (uint32_t)blocked->call;
}

static bool find_file_lock(void *context, bool is_flock, char *text,
			   size_t size, int32_t *ret_tid)
{
	const struct reading *reading = context;

	return fgt_look_find_file_lock(reading->look, reading->thread, is_flock,
				       reading->since_ns, text, size, ret_tid);
}

static int32_t find_child(void *context, int32_t number, char *text,
			  size_t size)
{
	const struct reading *reading = context;

	return fgt_look_find_child(reading->look, reading->thread, number, text,
				   size);
}

static struct fgt_wait_source source_of(struct reading *reading)
{
	return (struct fgt_wait_source){
		.context = reading,
		.tid = reading->thread->tid,
		.read = read_memory,
		.find_thread = find_thread,
		/* A program that confines itself may be killed for it. */
		.describe = reading->look->is_embedded ? NULL : describe,
		.find_child = reading->look->is_embedded ? NULL : find_child,
		.find_file_lock = reading->look->is_embedded ? NULL
							     : find_file_lock,
	};
}

/* The thread has not moved while its wait was read. has_lasted: nor since the
 * tick before, where that is known; the ring has the stack that it had then. */
static bool read_wait(struct fgt_look *look, struct fgt_thread *thread,
		      uint32_t state, bool has_lasted,
		      struct fgt_wait *ret_wait)
{
	struct reading reading = { .look = look, .thread = thread };
	struct fgt_wait_source source = source_of(&reading);
	char before[FGT_BLOCKED_TEXT_MAX], after[FGT_BLOCKED_TEXT_MAX];
	struct fgt_blocked blocked;
	uint64_t since_ns, again_ns;

	source.names_polled = has_lasted;
	source.list_epoll = has_lasted ? list_epoll : NULL;
	if (fgt_look_call(look, thread, &blocked, &since_ns)) {
		if (!is_of_state(&blocked, state) ||
		    (has_lasted && since_ns > look->tick_ns - look->elapsed_ns))
			return false;
		reading.since_ns = since_ns;
		fgt_wait_decode(blocked.call, blocked.args, &source, ret_wait);
		fgt_look_name_holder(look, ret_wait);
		return fgt_look_call(look, thread, &blocked, &again_ns) &&
		       again_ns == since_ns;
	}
	if (fgt_blocked_read(&look->threads, thread, before) < 0 ||
	    fgt_blocked_parse(before, &blocked) < 0 ||
	    !is_of_state(&blocked, state))
		return false;
	fgt_wait_decode(blocked.call, blocked.args, &source, ret_wait);
	fgt_look_name_holder(look, ret_wait);
	return fgt_blocked_read(&look->threads, thread, after) >= 0 &&
	       strcmp(before, after) == 0;
}

/* It has moved since the tick's instant. */
static const struct fgt_wait *past_wait(struct fgt_look *look,
					struct fgt_thread *thread,
					const struct fgt_switch_off *then,
					uint32_t state)
{
	uint64_t args[6] = { 0 };

	memcpy(args, then->args, sizeof(then->args));
	fgt_wait_decode_past(state < FGT_STATE_SYSCALL_FIRST ? -1 : then->call,
			     args, &look->wait);
	if (state == FGT_STATE_STOPPED)
		look->wait.kind = FGT_WAIT_STOPPED;
	if (look->wait.kind == FGT_WAIT_CHILD && look->wait.number > 0)
		look->wait.number = fgt_look_find_child(
			look, thread, look->wait.number, NULL, 0);
	return &look->wait;
}

static void begin_reads(struct fgt_look *look)
{
	if (look->wait_tick == look->tick)
		return;
	look->wait_tick = look->tick;
	look->wait_reads = 0;
	look->child_reads_left = FGT_LOOK_CHILD_READS;
	look->file_locks_left = FILE_LOCKS_MAX;
}

const struct fgt_wait *fgt_look_wait(struct fgt_look *look,
				     struct fgt_thread *thread,
				     const struct fgt_verdict *verdict)
{
	uint32_t state = verdict->state;
	int32_t call = -1;

	if (!fgt_state_is_blocked(state))
		return NULL;
	begin_reads(look);
	if (verdict->kind != FGT_VERDICT_AS_BEFORE && look->then.ns)
		return past_wait(look, thread, &look->then, state);
	if (verdict->kind != FGT_VERDICT_STACK)
		return NULL;
	if (state >= FGT_STATE_SYSCALL_FIRST)
		call = (int32_t)(state - FGT_STATE_SYSCALL_FIRST);
	if (call >= 0 && look->is_readable && thread->active) {
		if (look->wait_reads++ >= READS_MAX)
			thread->is_incomplete = look->stacks.is_late = true;
		else if (read_wait(look, thread, state, false, &look->wait))
			return &look->wait;
	}
	fgt_wait_of_call(call, &look->wait);
	if (state == FGT_STATE_STOPPED)
		look->wait.kind = FGT_WAIT_STOPPED;
	return &look->wait;
}

/* ---- Reasons that change ------------------------------------------------- */

struct fgt_followed {
	int32_t tid; /* that waits … */
	uint32_t followed_waits; /* … as long as its count is that */
	uint32_t state; /* of its call */
	uint32_t kind; /* as in struct fgt_wait, likewise the following */
	int32_t owner_tid;
	uint64_t address, timeout_ns;
	uint64_t text_hash; /* of a file that is locked, with the holder */
	uint64_t read_tick; /* when the lock was last read */
	bool is_own; /* it was its own then */
};

static bool make_room(struct fgt_followed_waits *followed)
{
	uint32_t capacity = followed->capacity ? 2 * followed->capacity
					       : FOLLOWED_MIN;
	struct fgt_followed *waits;

	if (followed->count < followed->capacity)
		return true;
	if (capacity > FOLLOWED_MAX)
		return false;
	waits = reallocarray(followed->waits, capacity, sizeof(*waits));
	if (!waits)
		return false;
	followed->waits = waits;
	followed->capacity = capacity;
	return true;
}

static bool is_lock(uint32_t kind)
{
	return kind == FGT_WAIT_MUTEX || kind == FGT_WAIT_RWLOCK ||
	       kind == FGT_WAIT_PI_LOCK;
}

static bool is_file_lock(const struct fgt_wait *wait)
{
	return wait->kind == FGT_WAIT_DESCRIPTOR &&
	       strstr(wait->text, FGT_WAIT_HELD_BY);
}

static uint64_t hash_text(const struct fgt_wait *wait)
{
	return fgt_hash_bytes(wait->text, strlen(wait->text));
}

void fgt_look_follow(struct fgt_look *look, struct fgt_thread *thread,
		     uint32_t state, const struct fgt_wait *wait)
{
	struct fgt_followed_waits *followed = &look->followed;

	thread->is_followed = false;
	if ((!is_lock(wait->kind) && !is_file_lock(wait) &&
	     (wait->kind != FGT_WAIT_EVENTS || look->is_embedded)) ||
	    !make_room(followed))
		return;
	thread->is_followed = true;
	thread->followed_waits++; /* an older entry of it is none any more */
	followed->waits[followed->count++] = (struct fgt_followed){
		.tid = thread->tid,
		.followed_waits = thread->followed_waits,
		.state = state,
		.kind = wait->kind,
		.owner_tid = wait->owner_tid,
		.address = wait->address,
		.timeout_ns = wait->timeout_ns,
		.text_hash = hash_text(wait),
		.read_tick = look->tick,
	};
}

/* Without an owner, it was read while it was passed on, or has none at all. */
static bool may_have_passed(const struct fgt_look *look,
			    const struct fgt_followed *entry)
{
	const struct fgt_thread *owner;

	if (entry->read_tick == look->tick)
		return false;
	if (!entry->owner_tid)
		return true;
	owner = fgt_thread_table_find(&look->threads, entry->owner_tid);
	return !owner || owner->is_ended || owner->has_run || owner->is_sampled;
}

/* Many wait for one lock: it is read once in a tick. */
static int32_t read_owner(struct fgt_look *look,
			  const struct fgt_followed *entry,
			  struct fgt_thread *thread)
{
	struct fgt_owner_read *last = &look->followed.last;
	const struct fgt_wait wait = { .kind = entry->kind,
				       .address = entry->address };
	struct reading reading = { look, thread, entry->owner_tid, 0 };
	const struct fgt_wait_source source = source_of(&reading);

	if (last->tick == look->tick && last->kind == entry->kind &&
	    last->address == entry->address)
		return last->owner_tid;
	*last = (struct fgt_owner_read){
		.tick = look->tick,
		.kind = entry->kind,
		.address = entry->address,
		.owner_tid = fgt_wait_read_owner(&wait, &source),
	};
	return last->owner_tid;
}

static bool has_new_owner(struct fgt_look *look, struct fgt_followed *entry,
			  struct fgt_thread *thread, struct fgt_wait *ret_wait)
{
	int32_t owner_tid;
	bool is_own;

	if (!may_have_passed(look, entry))
		return false;
	owner_tid = read_owner(look, entry, thread);
	entry->read_tick = look->tick;
	is_own = owner_tid == entry->tid;
	/* It has got it, and has not run yet; but one that holds a mutex at two
	 * ticks, and sleeps for it, waits for itself. */
	if (is_own && (!entry->is_own || entry->kind != FGT_WAIT_MUTEX))
		owner_tid = 0;
	entry->is_own = is_own;
	if (owner_tid == entry->owner_tid)
		return false;
	entry->owner_tid = owner_tid;
	*ret_wait = (struct fgt_wait){
		.kind = entry->kind,
		.owner_tid = entry->owner_tid,
		.address = entry->address,
		.number = -1,
		.timeout_ns = entry->timeout_ns,
	};
	fgt_look_name_holder(look, ret_wait);
	return true;
}

static bool read_again(struct fgt_look *look, const struct fgt_followed *entry,
		       struct fgt_thread *thread, struct fgt_wait *ret_wait)
{
	if (!thread->active) /* idle again at the next chores */
		fgt_thread_table_activate(&look->threads, thread, 0);
	return look->is_readable && thread->active &&
	       read_wait(look, thread, entry->state, true, ret_wait) &&
	       ret_wait->text[0];
}

static bool has_new_file_holder(struct fgt_look *look,
				struct fgt_followed *entry,
				struct fgt_thread *thread,
				struct fgt_wait *ret_wait)
{
	bool is_whole;
	uint64_t hash;

	begin_reads(look);
	if (look->tick - entry->read_tick < FILE_LOCK_TICKS ||
	    !look->file_locks_left || !fgt_look_file_locks(look, 0, &is_whole))
		return false;
	entry->read_tick = look->tick;
	if (!read_again(look, entry, thread, ret_wait))
		return false;
	hash = hash_text(ret_wait);
	if (hash == entry->text_hash && ret_wait->owner_tid == entry->owner_tid)
		return false;
	entry->text_hash = hash;
	entry->owner_tid = ret_wait->owner_tid;
	return true;
}

/* Once: it is not followed any more. */
static bool has_new_names(struct fgt_look *look,
			  const struct fgt_followed *entry,
			  struct fgt_thread *thread, struct fgt_wait *ret_wait)
{
	struct fgt_followed_waits *followed = &look->followed;

	if (entry->read_tick == look->tick || followed->links_left < WAIT_COST)
		return false;
	followed->links_left -= WAIT_COST / 2;
	thread->is_followed = false;
	return read_again(look, entry, thread, ret_wait);
}

static bool has_new_reason(struct fgt_look *look, struct fgt_followed *entry,
			   struct fgt_thread *thread, struct fgt_wait *ret_wait)
{
	if (is_lock(entry->kind))
		return has_new_owner(look, entry, thread, ret_wait);
	return entry->kind == FGT_WAIT_DESCRIPTOR
		       ? has_new_file_holder(look, entry, thread, ret_wait)
		       : has_new_names(look, entry, thread, ret_wait);
}

/* The thread that goes on with that wait; NULL: it has moved, or ended. */
static struct fgt_thread *thread_of(const struct fgt_look *look,
				    const struct fgt_followed *entry)
{
	struct fgt_thread *thread =
		fgt_thread_table_find(&look->threads, entry->tid);

	if (!thread || thread->is_ended || !thread->is_followed ||
	    thread->followed_waits != entry->followed_waits)
		return NULL;
	return thread;
}

static void begin_followed(struct fgt_look *look)
{
	struct fgt_followed_waits *followed = &look->followed;
	uint32_t count = 0;

	for (uint32_t i = 0; i < followed->count; i++)
		if (thread_of(look, &followed->waits[i]))
			followed->waits[count++] = followed->waits[i];
	followed->tick = look->tick;
	followed->count = followed->left = count;
	followed->changed = 0;
	followed->links_left = LINKS_MAX;
}

struct fgt_thread *fgt_look_next_reason(struct fgt_look *look,
					struct fgt_wait *ret_wait)
{
	struct fgt_followed_waits *followed = &look->followed;

	if (followed->count && followed->tick != look->tick)
		begin_followed(look);
	while (followed->left && followed->changed < NEW_REASONS_MAX) {
		struct fgt_followed *entry =
			&followed->waits[followed->next++ % followed->count];
		struct fgt_thread *thread = thread_of(look, entry);

		followed->left--;
		if (has_new_reason(look, entry, thread, ret_wait)) {
			followed->changed++;
			return thread;
		}
	}
	return NULL;
}

void fgt_look_follow_end(struct fgt_look *look)
{
	free(look->followed.waits);
	free(look->holders.numbers);
	free(FGT_TAKE(look->sockets));
	look->followed = (struct fgt_followed_waits){ 0 };
	look->holders = (struct fgt_look_holders){ 0 };
}
