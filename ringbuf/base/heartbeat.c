/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of heartbeats. Any thread; must not allocate.
 */
#include "ringbuf/base/heartbeat.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define ENDED (-1)

atomic_bool fgt_heartbeat_is_used;

/* Taken and freed under the lock, which is innermost. */
static struct fgt_heartbeat places[FGT_HEARTBEATS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct fgt_heartbeat *own;

const char *fgt_step_name(enum fgt_beat_step step)
{
	static const char *const names[FGT_STEP_COUNT] = {
		[FGT_STEP_IDLE] = "idle",
		[FGT_STEP_TIMER] = "waiting for its timer",
		[FGT_STEP_WORK] = "at work",
		[FGT_STEP_MEMORY] = "reading its memory",
		[FGT_STEP_PROCFS] = "reading its files in /proc",
		[FGT_STEP_FILE] = "opening a file that it has mapped",
	};

	return step < FGT_STEP_COUNT ? names[step] : "unknown";
}

struct fgt_heartbeat *fgt_heartbeat_own(void)
{
	return own;
}

static struct fgt_heartbeat *find_free(void)
{
	for (uint32_t i = 0; i < FGT_HEARTBEATS_MAX; i++)
		if (atomic_load_explicit(&places[i].tid,
					 memory_order_acquire) == 0)
			return &places[i];
	return NULL;
}

struct fgt_heartbeat *fgt_heartbeat_begin(const char *name, jmp_buf *given_up)
{
	struct fgt_heartbeat *heartbeat;

	pthread_mutex_lock(&lock);
	heartbeat = find_free();
	if (heartbeat) {
		heartbeat->name = name;
		heartbeat->given_up = given_up;
		heartbeat->kept_fd = -1;
		atomic_store_explicit(&heartbeat->lost_pid, 0,
				      memory_order_relaxed);
		fgt_heartbeat_set(heartbeat, FGT_STEP_IDLE, 0);
		/* Release: pairs with the acquire in fgt_heartbeat_at(). */
		atomic_store_explicit(&heartbeat->tid, gettid(),
				      memory_order_release);
		atomic_store_explicit(&fgt_heartbeat_is_used, true,
				      memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
	own = heartbeat;
	return heartbeat;
}

void fgt_heartbeat_free(struct fgt_heartbeat *heartbeat)
{
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&heartbeat->tid, 0, memory_order_release);
	pthread_mutex_unlock(&lock);
}

void fgt_heartbeat_end(void)
{
	if (own)
		fgt_heartbeat_free(FGT_TAKE(own));
}

void fgt_heartbeat_end_lost(struct fgt_heartbeat *heartbeat, int descriptor)
{
	jmp_buf *end = heartbeat->given_up;

	/* May take as long as the call that was given up. */
	fgt_fd_close(descriptor);
	fgt_fd_close(heartbeat->kept_fd);
	own = NULL;
	/* Release: pairs with the acquire in fgt_heartbeat_has_ended(). */
	atomic_store_explicit(&heartbeat->tid, ENDED, memory_order_release);
	longjmp(*end, 1);
}

/* ---- For the thread that watches ------------------------------------------ */

struct fgt_heartbeat *fgt_heartbeat_at(uint32_t number)
{
	struct fgt_heartbeat *heartbeat = &places[number];

	return atomic_load_explicit(&heartbeat->tid, memory_order_acquire) > 0
		       ? heartbeat
		       : NULL;
}

bool fgt_heartbeat_give_up(struct fgt_heartbeat *heartbeat, uint64_t beat)
{
	/* 0 is no beat: steps are counted from 1. Acquire, release: see
	 * fgt_call_enter() and _leave(). */
	int32_t pid = fgt_beat_pid(beat);

	if (!heartbeat->given_up || !fgt_beat_is_call(beat) ||
	    !atomic_compare_exchange_strong_explicit(&heartbeat->beat, &beat, 0,
						     memory_order_acq_rel,
						     memory_order_acquire))
		return false;
	atomic_store_explicit(&heartbeat->lost_pid, pid, memory_order_relaxed);
	return true;
}

bool fgt_heartbeat_is_lost_in(int32_t pid)
{
	for (uint32_t i = 0; i < FGT_HEARTBEATS_MAX; i++) {
		const struct fgt_heartbeat *heartbeat = fgt_heartbeat_at(i);

		if (heartbeat &&
		    !atomic_load_explicit(&heartbeat->beat,
					  memory_order_relaxed) &&
		    atomic_load_explicit(&heartbeat->lost_pid,
					 memory_order_relaxed) == pid)
			return true;
	}
	return false;
}

bool fgt_heartbeat_has_ended(const struct fgt_heartbeat *heartbeat)
{
	return atomic_load_explicit(&heartbeat->tid, memory_order_acquire) ==
	       ENDED;
}
