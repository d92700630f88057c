/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder inside a program: sampler, ring and names of this process. The
 * calls run in threads of the program or of libfgtrace. They must not end the
 * program, print, or make a child process.
 */
#include "agent/embed/embed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/capture/sampler.h"
#include "agent/embed/embed_lost.h"
#include "agent/embed/embed_spool.h"
#include "agent/embed/loaded_pages.h"
#include "agent/embed/perf/running_own.h"
#include "agent/embed/signal/signal_permission.h"
#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/thread.h"
#include "ringbuf/slice/slice_codec.h"
#include "upload/deliver/dispatch.h"
#include "upload/format/format.h"

#define NAMES_MAX_MS	3000 /* for one slice; the rest has no names */
#define MAX_CPU_PERCENT 10.0 /* of one core; above it the rate is lowered */
#define SLICE_MAX_BYTES ((size_t)1 << 30)

struct recorder {
	struct fgt_embed_options options;
	struct fgt_image_cache *cache;
	struct fgt_symbolizer *symbolizer;
	struct fgt_sampler *sampler;
	struct fgt_target *target;
};

/* On the sampler thread. */
static void explain(void *context, int32_t pid, const char *text)
{
	const struct recorder *recorder = context;

	(void)pid;
	if (recorder->options.log)
		recorder->options.log(recorder->options.context, text);
}

static int make_symbolizer(struct recorder *recorder)
{
	const struct fgt_symbolizer_options options = {
		.demangle = FGT_DEMANGLE_FULL,
		.open_image = fgt_image_open_cached,
		.context = recorder->cache,
		.is_local = true,
		.wait_max_ms = NAMES_MAX_MS,
	};

	return fgt_symbolizer_new(&options, &recorder->symbolizer);
}

static int make_sampler(struct recorder *recorder)
{
	const struct fgt_sampler_options options = {
		.hz = recorder->options.hz,
		.ring = { .seconds = recorder->options.ring_seconds,
			  .size_bytes = recorder->options.ring_bytes,
			  .is_shared = true },
		.max_cpu_percent = MAX_CPU_PERCENT,
		.is_self_included = true,
		.is_embedded = true,
		.is_confined = !fgt_signal_permission_is_free(),
		.running = &fgt_running_own,
		.excluded_tids = { recorder->options.own_tids[0],
				   recorder->options.own_tids[1],
				   recorder->options.own_tids[2] },
		.explain = explain,
		.context = recorder,
	};

	return fgt_sampler_new(&options, recorder->cache, &recorder->sampler);
}

static void stop(void *context)
{
	struct recorder *recorder = context;

	if (!recorder)
		return;
	fgt_sampler_free(recorder->sampler);
	fgt_target_put(recorder->target);
	fgt_symbolizer_free(recorder->symbolizer);
	fgt_image_cache_free(recorder->cache);
	free(recorder);
}

static inline void stop_auto(struct recorder **recorder)
{
	stop(*recorder);
}

/* why is set already where the sampler knows more. */
static int explain_failure(int error, struct fgt_why *why)
{
	bool is_limit = error == -ENOMEM || error == -EAGAIN ||
			error == -EMFILE || error == -ENFILE;

	if (error == -ESRCH)
		return fgt_why_set(why, error,
				   "recording cannot start: this process is "
				   "not in /proc: mount /proc where the "
				   "program runs (after chroot(2), in a "
				   "container)");
	if (error == -EFBIG)
		return fgt_why_set(
			why, error,
			"recording cannot start: this process may "
			"not make a file as large as its ring: raise "
			"the limit (ulimit -f), or set ring_bytes");
	if (why->text[0])
		return error;
	return fgt_why_set(why, error, "recording cannot start: %s%s",
			   strerror(-error),
			   is_limit ? ": raise the program's limits (ulimit "
				      "-v, -u and -n)"
				    : "");
}

static int start(const struct fgt_embed_options *options, void **ret_recorder,
		 struct fgt_why *why)
{
	FGT_AUTO(stop)
	struct recorder *recorder = calloc(1, sizeof(*recorder));
	int rc;

	why->text[0] = '\0';
	if (!recorder)
		return explain_failure(-ENOMEM, why);
	recorder->options = *options;
	rc = fgt_image_cache_new(&recorder->cache);
	if (rc == 0)
		rc = make_symbolizer(recorder);
	if (rc == 0)
		rc = make_sampler(recorder);
	if (rc == 0)
		rc = fgt_sampler_start(recorder->sampler);
	if (rc == 0)
		rc = fgt_sampler_attach(recorder->sampler, getpid(), 0,
					&recorder->target, why);
	if (rc < 0)
		return explain_failure(rc, why);
	/* If no descriptor is left, slices have stacks only. */
	(void)fgt_target_set_spans(recorder->target, options->spans_fd);
	*ret_recorder = FGT_TAKE(recorder);
	fgt_loaded_pages_give_back();
	return 0;
}

/* In the child of a fork, where only descriptors of the recorder remain. */
static void forked(void *context)
{
	const struct recorder *recorder = context;

	fgt_sampler_forked(recorder->sampler, recorder->target);
	fgt_image_cache_forked(recorder->cache);
	fgt_embed_spool_forked();
}

/* ---- Slices ------------------------------------------------------------ */

static int encode(const struct fgt_ring_slice *slice,
		  struct fgt_slice_file *ret_file)
{
	struct fgt_memory_sink memory;
	int rc;

	fgt_memory_sink_init(&memory, SLICE_MAX_BYTES);
	rc = fgt_slice_encode(slice, &memory.sink);
	if (rc < 0) {
		fgt_memory_sink_done(&memory);
		return rc == -EMSGSIZE ? -ENOMEM : rc;
	}
	*ret_file = (struct fgt_slice_file){
		.bytes = memory.bytes,
		.len_bytes = memory.len_bytes,
		.from_ns = slice->tick_ns[0],
		.to_ns = slice->tick_ns[slice->tick_count - 1],
		.ticks = slice->tick_count,
		.threads = slice->thread_count,
	};
	return 0;
}

/* ---- Names --------------------------------------------------------------- */

/* libdw has frames of 150 KiB, which would jump over the guard of a small
 * stack, into memory of the program. */
#define NAMING_BYTES ((size_t)1 << 20)

struct frame_naming {
	struct recorder *recorder;
	struct fgt_ring_slice *slice;
	int result;
};

static void *name_frames(void *context)
{
	struct frame_naming *naming = context;

	naming->result = fgt_symbolizer_resolve(naming->recorder->symbolizer,
						naming->slice, true);
	return NULL;
}

/* Of the calling thread; the first thread's stack grows. */
static bool has_large_stack(void)
{
	pthread_attr_t attributes;
	size_t size = 0;
	void *low = NULL;

	if (gettid() == getpid())
		return true;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return false;
	(void)pthread_attr_getstack(&attributes, &low, &size);
	pthread_attr_destroy(&attributes);
	return (uintptr_t)__builtin_frame_address(0) - (uintptr_t)low >=
	       NAMING_BYTES / 2;
}

static int resolve(struct recorder *recorder, struct fgt_ring_slice *slice)
{
	struct frame_naming naming = { .recorder = recorder, .slice = slice };
	pthread_t thread;
	int r;

	if (has_large_stack()) {
		name_frames(&naming);
		return naming.result;
	}
	r = fgt_thread_start(NAMING_BYTES, name_frames, &naming, &thread);
	if (r < 0)
		return r;
	pthread_join(thread, NULL);
	return naming.result;
}

static int cut(void *context, uint64_t from_ns, uint64_t to_ns,
	       bool is_transaction, struct fgt_slice_file *ret_file)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct recorder *recorder = context;
	const struct fgt_ring *ring = fgt_target_ring(recorder->target);
	int rc = fgt_ring_cut(ring, from_ns, to_ns, &slice);

	/* Overwritten while it was read: all of it is gone. */
	if (rc == -EAGAIN)
		rc = -ENODATA;
	if (rc == -ENODATA && is_transaction)
		rc = fgt_ring_blank(ring, from_ns, to_ns, &slice);
	if (rc == 0)
		rc = fgt_target_cut_spans(recorder->target, slice);
	if (rc == 0)
		fgt_target_cut_brief(recorder->target, slice);
	if (rc == 0)
		rc = fgt_slice_name_states(slice, fgt_state_name);
	if (rc == 0)
		rc = resolve(recorder, slice);
	if (rc == 0)
		rc = encode(slice, ret_file);
	return rc;
}

static int set_spans(void *context, int spans_fd)
{
	struct recorder *recorder = context;

	return fgt_target_has_spans(recorder->target, spans_fd)
		       ? 0
		       : fgt_target_set_spans(recorder->target, spans_fd);
}

static int ring_fd(void *context)
{
	const struct recorder *recorder = context;

	return fgt_ring_fd(fgt_target_ring(recorder->target));
}

static double hz(void *context)
{
	const struct recorder *recorder = context;
	struct fgt_target_status status;

	fgt_target_get_status(recorder->target, &status);
	return status.effective_hz > 0 ? status.effective_hz : status.rate_hz;
}

static void get_limitation(void *context, char *ret_text, size_t len)
{
	const struct recorder *recorder = context;
	struct fgt_target_status status;

	fgt_target_get_status(recorder->target, &status);
	snprintf(ret_text, len, "%s",
		 status.limitation[0] ? status.limitation : status.rate_note);
}

static int write_slice(const uint8_t *bytes, size_t len_bytes, int format,
		       const struct fgt_transaction_facts *facts, int fd)
{
	const struct fgt_format_options options = {
		.facts = fgt_facts_of_transaction(facts),
		.release = facts ? facts->release : NULL,
		.environment = facts ? facts->environment : NULL,
	};
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_sink sink = fgt_fd_sink(&fd);
	int rc;

	if (format < 0 || format >= FGT_KIND_COUNT)
		return -EINVAL;
	rc = fgt_slice_decode(bytes, len_bytes, &slice, NULL);
	if (rc == 0)
		rc = fgt_format_write(slice, (enum fgt_format_kind)format,
				      &options, &sink);
	return rc;
}

#define SERVERS_MAX 8u

/* Of the destinations that were used last. */
static struct fgt_embed_server *find_server(const char *destination)
{
	static struct {
		uint64_t destination; /* its hash; 0: free */
		struct fgt_embed_server server;
	} rows[SERVERS_MAX];
	static unsigned int next;
	uint64_t hash = fgt_embed_hash_destination(destination);

	for (unsigned int i = 0; i < SERVERS_MAX; i++)
		if (rows[i].destination == hash)
			return &rows[i].server;
	next = (next + 1) % SERVERS_MAX;
	rows[next].destination = hash;
	memset(&rows[next].server, 0, sizeof(rows[next].server));
	return &rows[next].server;
}

/* The chunks of a transaction that the server has not taken were not sent. */
static void count_unsent(struct fgt_embed_server *server,
			 const struct fgt_dispatch_outcome *outcome, int error)
{
	enum fgt_discard_reason reason =
		outcome->status == 429 ? FGT_DISCARD_LIMITED : FGT_DISCARD_SEND;

	/* No spool has what the server does not let in. */
	if (error < 0 && outcome->is_refused)
		server->discards.counts[reason][outcome->category]++;
	if (error < 0 && error != -EAGAIN && outcome->status &&
	    outcome->category == FGT_CATEGORY_TRANSACTION)
		server->discards.counts[reason][FGT_CATEGORY_CHUNK]++;
}

/* On the worker of the library; blocks within the limits of an upload. */
static int deliver(const uint8_t *bytes, size_t len_bytes,
		   const char *destination,
		   const struct fgt_upload_limits *limits,
		   const struct fgt_transaction_facts *facts,
		   struct fgt_why *why, unsigned int *ret_wait_s)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_dispatch_outcome outcome = { .retry_after_s = 0 };
	struct fgt_embed_server *server = find_server(destination);
	struct fgt_upload_limits own = *limits;
	uint32_t asked_s;
	int rc = fgt_slice_decode(bytes, len_bytes, &slice, why);

	own.limited =
		fgt_pauses_mask(&server->pauses, fgt_clock_ns(CLOCK_MONOTONIC));
	fgt_embed_lost_take(fgt_embed_hash_destination(destination),
			    &server->discards);
	own.discards = &server->discards;
	if (rc == 0)
		rc = fgt_dispatch_text(slice, destination, facts, &own,
				       &outcome, why);
	fgt_embed_server_take(server, &outcome, rc);
	server->unsent = rc < 0 ? outcome.category : FGT_CATEGORY_TRANSACTION;
	count_unsent(server, &outcome, rc);
	asked_s = outcome.limits.seconds[FGT_CATEGORY_TRANSACTION];
	if (rc < 0 && outcome.retry_after_s > asked_s)
		asked_s = outcome.retry_after_s;
	if (ret_wait_s)
		*ret_wait_s = asked_s;
	return rc;
}

/* A transaction that has arrived is not lost with the chunks after it. One that
 * found the queue full has nothing to do with what was sent last. */
static void lost(const char *destination, enum fgt_discard_reason reason,
		 uint32_t count)
{
	struct fgt_embed_server *server = find_server(destination);
	uint64_t hash = fgt_embed_hash_destination(destination);
	bool is_whole = reason == FGT_DISCARD_QUEUE ||
			server->unsent == FGT_CATEGORY_TRANSACTION;

	if (is_whole)
		fgt_embed_lost_add(hash, reason, FGT_CATEGORY_TRANSACTION,
				   count);
	fgt_embed_lost_add(hash, reason, FGT_CATEGORY_CHUNK, count);
	if (reason != FGT_DISCARD_QUEUE)
		server->unsent = FGT_CATEGORY_TRANSACTION;
}

static int spool_put(const struct fgt_embed_spool *spool, const uint8_t *bytes,
		     size_t len_bytes,
		     const struct fgt_transaction_facts *facts,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int rc = fgt_slice_decode(bytes, len_bytes, &slice, why);

	return rc < 0 ? rc : fgt_embed_spool_put(spool, slice, facts, why);
}

__attribute__((visibility("default"))) const struct fgt_embed_ops *
fgt_embed(void)
{
	static const struct fgt_embed_ops ops = {
		.version = FGT_EMBED_VERSION,
		.start = start,
		.stop = stop,
		.cut = cut,
		.ring_fd = ring_fd,
		.set_spans = set_spans,
		.hz = hz,
		.get_limitation = get_limitation,
		.forked = forked,
		.write = write_slice,
		.deliver = deliver,
		.lost = lost,
		.spool_put = spool_put,
		.spool_send = fgt_embed_spool_send,
	};

	return &ops;
}
