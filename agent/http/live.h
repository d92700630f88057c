/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of what happens in a target, server-sent or over a websocket. Each
 * client has its own connection, thread and place in time: one that reads
 * slowly delays nothing, and is cut off when the ring may drop what it has not
 * read.
 *
 * MT-Unsafe for one stream | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_LIVE_H
#define FGT_AGENT_HTTP_LIVE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "agent/http/source.h"
#include "agent/tail/tail.h"
#include "ringbuf/base/owner.h"

#define FGT_WEB_LIVE_MAX  8 /* streams at once */
#define FGT_WEB_LIVE_TYPE "text/event-stream"

/* Streams that have ended, by reason. */
struct fgt_web_live_counters {
	atomic_uint active;
	atomic_ullong ended; /* the target has */
	atomic_ullong gone; /* the client closed */
	atomic_ullong slow; /* the client was too far behind */
	atomic_ullong failed; /* no slice could be had */
	atomic_ullong refused; /* too many at once */
};

struct fgt_web_live;

enum fgt_web_framing {
	FGT_WEB_SERVER_SENT, /* events as browsers' EventSource reads them */
	FGT_WEB_FRAMES, /* text frames of a websocket, and pings */
};

/*
 * cut: which target; its texts are copied. Takes the tail, also where it fails.
 * Gets the first slice: errors of the source. -EBUSY: too many streams, with
 * why. -ENOMEM.
 */
int fgt_web_live_open(const struct fgt_web_source *source,
		      const struct fgt_web_cut *cut, struct fgt_tail *tail,
		      enum fgt_web_framing framing,
		      struct fgt_web_live_counters *counters,
		      struct fgt_web_live **ret_live, struct fgt_why *why);

/* Waits for events. How many bytes; 0: the stream has ended; -ECANCELED: the
 * client has gone; -ETIMEDOUT: it takes those of one slice for too long, and is
 * counted as slow. */
ssize_t fgt_web_live_read(struct fgt_web_live *live, void *bytes, size_t size);

/* What was read ends with a whole event. */
bool fgt_web_live_is_between(const struct fgt_web_live *live);

/* The client took nothing for too long: it is counted as slow. */
void fgt_web_live_note_slow(struct fgt_web_live *live);

void fgt_web_live_close(struct fgt_web_live *live);
FGT_DEFINE_AUTO(struct fgt_web_live *, fgt_web_live_close);

#endif
