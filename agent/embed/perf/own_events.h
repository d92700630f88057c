/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events on the CPU time of threads of this process. Their samples come
 * from timers of high resolution, at distances that keep no step with the
 * kernel's ticks or with what a thread does. Each event's buffer is read once a
 * tick. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_PERF_OWN_EVENTS_H
#define FGT_AGENT_EMBED_PERF_OWN_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/running/running.h"
#include "ringbuf/base/owner.h"

struct fgt_own_events;

/* locked_max_bytes: of all buffers. -EPERM so little is not enough, or calls
 * are filtered; errno of perf_event_open(2), fgt_perf_keeper_start(). */
int fgt_own_events_open(size_t locked_max_bytes,
			struct fgt_own_events **ret_events);
/* NULL is no harm. */
void fgt_own_events_close(struct fgt_own_events *events);
FGT_DEFINE_AUTO(struct fgt_own_events *, fgt_own_events_close);
/* False: it is not worth asking any more; see fgt_perf_keeper_works(). */
bool fgt_own_events_work(struct fgt_own_events *events);
int32_t fgt_own_events_tid(const struct fgt_own_events *events);

/* May a thread have an event, as far as its stack is concerned? */
bool fgt_own_events_suit(const struct fgt_thread *thread);
/* Is there one left for it? */
bool fgt_own_events_have_room(const struct fgt_own_events *events,
			      const struct fgt_thread *thread);
/* That with an event which has used the least CPU time; NULL: there is none. */
struct fgt_thread *fgt_own_events_least(const struct fgt_own_events *events,
					uint64_t now_ns);
/* Its source is an event then. errno of perf_event_open(2), -ENOMEM, -EBUSY. */
int fgt_own_events_add(struct fgt_own_events *events,
		       struct fgt_thread *thread);
void fgt_own_events_drop(struct fgt_own_events *events,
			 struct fgt_thread *thread);

/*
 * At each tick, of a thread with an event. -EAGAIN: it needs another one, with
 * more room; -ENOSPC: its stack does not suit any more; -ENODATA: it has fewer
 * samples than its CPU time would have, since it is in the kernel where the
 * event may not look; -EBUSY: it switches so often that an event costs too
 * much.
 */
int fgt_own_events_follow(struct fgt_own_events *events,
			  struct fgt_thread *thread,
			  const struct fgt_running_use *use);
/* Of those that came since the last call each thread has one, any one with the
 * same chance. */
void fgt_own_events_drain(struct fgt_own_events *events,
			  const struct fgt_running_handler *handler);

#endif
