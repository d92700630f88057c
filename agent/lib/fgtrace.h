/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfgtrace: what a program may say about itself to the flight recorder of
 * its stacks, and what it may ask of it.
 *
 * The stacks of all threads of the last seconds are kept by an agent beside
 * the program, or, where there is none, by one thread inside it. The program
 * asks for a slice of them, or says where transactions, tasks and spans begin
 * and end and lets the library decide afterwards what is worth keeping.
 *
 * Nothing here prints, aborts, or waits for the network. Where there is no
 * agent, threads get SIGURG while they run, never while they wait: fgtrace(3).
 * What can fail for more than one reason returns a negative errno; outputs are
 * written only on success. Times are CLOCK_MONOTONIC in nanoseconds, as
 * fgt_now() gives them. Texts are UTF-8, copied, and cut at the length that is
 * told. C99 and C++.
 *
 * In the child of a fork(2) recording is off: all that needs it returns
 * -ECHILD until the child itself calls fgt_start(). What was begun before the
 * fork belongs to the parent.
 */
#ifndef FGTRACE_H
#define FGTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__ /* the library itself is built with hidden visibility */
#pragma GCC visibility push(default)
#endif

#define FGT_VERSION_MAJOR 0
#define FGT_VERSION_MINOR 1

/* ---- Recording --------------------------------------------------------- */

enum fgt_mode {
	FGT_AUTO, /* the agent if there is one at fgt_start(), else embedded */
	FGT_AGENT, /* the agent; while there is none nothing is recorded */
	FGT_EMBEDDED /* one thread of this very process */
};

enum fgt_format {
	FGT_FORMAT_FGT, /* loss-free; fgtrace-agent convert reads it */
	FGT_FORMAT_CHROME, /* Perfetto, speedscope, chrome://tracing */
	FGT_FORMAT_SENTRY, /* envelope: transaction and profile */
	FGT_FORMAT_SENTRY_CHUNK, /* envelope: profile_chunk, version 2 */
	FGT_FORMAT_PPROF, /* gzipped profile.proto */
	FGT_FORMAT_FOLDED, /* flame graphs */
	FGT_FORMAT_SPEEDSCOPE
};

/* Of which threads a kept transaction carries stacks. */
enum fgt_threads {
	FGT_THREADS_ALL,
	FGT_THREADS_ADOPTED /* the one that began it and those that adopted it */
};

struct fgt_transaction_info; /* below */

/*
 * Set size to sizeof(struct fgt_options); zero everywhere else means default.
 * Texts are copied.
 */
struct fgt_options {
	size_t size; /* bytes of this struct that the caller knows */
	enum fgt_mode mode;
	const char *socket; /* of the agent; default: $FGTRACE_SOCKET, then
			     * where fgtrace-agent has it */
	unsigned int timeout_ms; /* that a call may wait for the agent; 1000 */

	/* Embedded only; an agent has its own. */
	unsigned int hz; /* 1 to 1000; 101 */
	unsigned int ring_seconds; /* 1 to 3600; 30 */
	size_t ring_bytes; /* 1 MiB … 16 GiB; 64 MiB, touched as needed */

	/*
	 * Where kept transactions go, and, where an agent runs (also beside an
	 * embedded recorder), the last seconds before a crash: a Sentry DSN, or
	 * the absolute path of a directory. Default: $FGTRACE_DESTINATION, else
	 * nowhere (they are counted as not kept). A crash is an end by a
	 * signal other than SIGTERM, SIGINT and SIGHUP, with which a program is
	 * asked to end.
	 */
	const char *destination;
	/* Of all that is told Sentry, written as a file of its format or sent:
	 * up to 200 and 64 bytes. Default: $FGTRACE_RELEASE and
	 * $FGTRACE_ENVIRONMENT. */
	const char *release; /* "app@1.0" */
	const char *environment; /* "production" */

	/* Which transactions are kept: all of these must agree, or the status
	 * is an error and keep_errors is set. */
	double sample_rate; /* 0 to 1; 0 is the default, 1; negative: none */
	uint64_t min_duration_ns; /* only longer ones */
	int keep_errors; /* not 0: failed ones whatever they lasted */
	/* Asked instead of those three if given: not 0 keeps, as far as the
	 * limits below allow. Called by fgt_transaction_finish() on its
	 * thread. */
	int (*decide)(void *context, const struct fgt_transaction_info *info);
	/* Limits for a storm of slow requests: process-wide. */
	uint64_t min_gap_ns; /* between two kept ones; 1 s; UINT64_MAX: no
			      * limit */
	unsigned int max_per_hour; /* 120; UINT_MAX: no limit */
	enum fgt_threads threads;

	/*
	 * Tells, a line each time, what does not work and what would help; at
	 * most once for each cause, but that something is still being dropped:
	 * that again, at growing distances. Called on a thread of the library,
	 * never on one of the program, but for why a start failed, which
	 * fgt_start() tells before it returns. Must return, by neither jump nor
	 * exception, and is not called after fgt_stop() has returned, unless a
	 * call takes longer than a second.
	 */
	void (*log)(void *context, const char *line);
	void *context; /* of decide and log */

	/*
	 * How a DSN is reached. An agent goes by its own upload.ca_file, and
	 * must have upload.allow_http as well.
	 */
	const char *ca_file; /* PEM, path of up to 1023 bytes: authorities to
			      * trust instead of the system's. Default:
			      * $FGTRACE_UPLOAD_CA_FILE */
	int allow_http; /* not 0: plain http to another machine, too, as with
			 * FGTRACE_UPLOAD_ALLOW_HTTP=1 */
	int reserved; /* 0 */
};

/*
 * Begins to record. Returns after the first tick where recording is embedded;
 * with an agent after its answer or timeout_ms (it is then looked for again
 * once a second). options: NULL for defaults.
 *
 * Call it after dropping privileges. The C library changes user and groups in
 * every thread, and ends the program if one thread is refused what another is
 * permitted. The library's threads do not keep capabilities (PR_SET_KEEPCAPS):
 * a program that does, and changes its groups after its user, would be ended.
 *
 * -EALREADY it records already (nothing changes); -EINVAL a value out of
 * range, a destination that is none, or size that is not a version of this
 * struct (log was told which, but for the size); -ENOENT embedded, and
 * libfgtrace-embed.so is not installed, of another version, or cannot be loaded
 * (log was told which); -EPERM embedded, and this process may not look at
 * itself; -ESRCH embedded, and it is not in /proc; -ENOMEM; -EAGAIN no thread
 * could be started, or a delivery of the time before fgt_stop() still hangs;
 * -EMFILE, -ENFILE no descriptor is left. After an error nothing is left behind.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_start(const struct fgt_options *options);

/*
 * Ends it: waits for slices in work (at most timeout_ms), gives kept
 * transactions that are still to be delivered one second, and gives up the
 * rest: they count as undelivered, and log is told. Without a start, or called
 * again: nothing, nor where $FGTRACE_OUT has begun it, which ends it at exit.
 * What fgt_get_slice() returned stays usable.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_stop(void);

/* CLOCK_MONOTONIC, ns. MT-Safe | AS-Safe */
uint64_t fgt_now(void);

/* What the recorder does; counters since the process began. */
struct fgt_status {
	size_t size; /* set it before the call */
	enum fgt_mode mode; /* FGT_AUTO: it does not record */
	int is_recording; /* embedded, or an agent has answered and samples */
	double hz; /* of ticks, as far as known */
	uint64_t slices; /* that fgt_get_slice() returned */
	/*
	 * delivered: embedded, what the destination has; with an agent what the
	 * agent has taken, which then delivers it: its log tells what becomes
	 * of it.
	 */
	uint64_t transactions, kept, dropped, delivered, undelivered;
	uint64_t spans, spans_lost; /* lost: no room; never waits */
	uint64_t misuses; /* of tasks, spans and transactions */
	unsigned int active_tasks;
	char limitation[256]; /* what is not permitted here, cause and remedy;
			       * "" if nothing */
	uint64_t activity_lost; /* of spans, marks and so on: never written to
				 * $FGTRACE_ACTIVITY; more may at the end */
};

/* -EINVAL for a size that is none. MT-Safe | AS-Unsafe */
int fgt_get_status(struct fgt_status *ret_status);

/* ---- Slices ------------------------------------------------------------ */

/* What every thread did in a range of time; only read once it is there. */
struct fgt_slice;

/*
 * Cuts [from_ns, to_ns] inclusive, clamped to what is kept; to_ns may lie up
 * to an hour ahead: the call then waits for it. Function names are resolved.
 *
 * -EINVAL from_ns > to_ns or too far ahead; -ENOTCONN fgt_start() was not
 * called, or there is no agent now; -ENODATA fewer than two ticks lie in the
 * range; -ETIMEDOUT the agent did not answer in timeout_ms (after to_ns);
 * -EBADMSG what it answered makes no sense (whether its tables agree with each
 * other fgt_slice_write() sees, when it reads them); -EBUSY it has too many
 * slices to cut; -ESHUTDOWN fgt_stop() meanwhile; -ECHILD forked; -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_get_slice(uint64_t from_ns, uint64_t to_ns,
		  struct fgt_slice **ret_slice);

struct fgt_slice_info {
	size_t size; /* set it before the call */
	uint64_t from_ns, to_ns; /* covered: first and last tick */
	uint64_t ticks;
	unsigned int threads;
	int caller_tid; /* of the thread that asked */
	size_t bytes; /* in the form FGT_FORMAT_FGT */
};

/* MT-Safe | AS-Unsafe */
int fgt_slice_get_info(const struct fgt_slice *slice,
		       struct fgt_slice_info *ret_info);

/*
 * Writes all of it to a descriptor that blocks. -EPIPE nobody reads it any
 * more (without a signal); -EINVAL no such format; -ENODATA the format cannot
 * hold so little; errno of write(2). Of formats other than FGT_FORMAT_FGT:
 * -ENOENT libfgtrace-embed.so is not installed or cannot be loaded; -EBADMSG
 * the agent's slice contradicts itself; -EPROTONOSUPPORT it is of another
 * version: use a libfgtrace that is as new as the agent; -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_write(const struct fgt_slice *slice, enum fgt_format format,
		    int fd);

/*
 * Sends it to a destination (see fgt_options; NULL: the one given there), by
 * the library's own thread or by the agent: returns as soon as it is queued.
 * -EINVAL no or a malformed destination; -ENOBUFS too many are queued;
 * -ENOTCONN, -ECHILD, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_upload(const struct fgt_slice *slice, const char *destination);

/* NULL is accepted. MT-Safe | AS-Unsafe */
void fgt_slice_free(struct fgt_slice *slice);

/*
 * Waits until what was kept has been delivered. -ETIMEDOUT.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_flush(unsigned int timeout_ms);

/* ---- Transactions ------------------------------------------------------ */

/*
 * A unit of work that is worth a profile of its own: a request, a job. May be
 * begun on one thread and finished on another; the calls on one transaction
 * must not overlap, but _adopt and _leave may overlap each other and the
 * setters: nothing may overlap its end or come after it. Every function accepts
 * NULL and returns 0 then: a program need not look whether recording is on.
 */
struct fgt_transaction;

struct fgt_transaction_info {
	const char *name, *op;
	uint64_t begin_ns, end_ns;
	int is_error;
	const char *trace_id; /* 32 hex digits */
};

/*
 * name: up to 200 bytes, "GET /cart"; op: up to 64 bytes, "http.server", NULL:
 * "default". NULL before fgt_start() and after fgt_stop(), in the child of a
 * fork, for a NULL name, or without memory; not while an agent is away
 * (is_recording is 0): its trace goes on, and when the agent is there within
 * two minutes, it has what is kept, without stacks of the time before.
 * Of one that lasts longer than what is kept (ring_seconds) only the last part
 * has stacks and spans.
 *
 * MT-Safe | AS-Unsafe
 */
struct fgt_transaction *fgt_transaction_begin(const char *name, const char *op);

/* -EINVAL for a NULL text, -ENOMEM. MT-Unsafe | AS-Unsafe */
int fgt_transaction_set_name(struct fgt_transaction *transaction,
			     const char *name);

/*
 * Continues a trace: the value of a sentry-trace header
 * ("32hex-16hex[-0|1]") or of a W3C traceparent ("00-32hex-16hex-2hex").
 * -EINVAL malformed: it stays a trace of its own. MT-Unsafe | AS-Unsafe
 */
int fgt_transaction_set_parent(struct fgt_transaction *transaction,
			       const char *header);

/*
 * Writes the sentry-trace value for a request to another service
 * ("32hex-16hex") and returns its length, 49; -ENOBUFS if len is less than 50.
 * MT-Unsafe | AS-Unsafe
 */
int fgt_transaction_get_trace(const struct fgt_transaction *transaction,
			      char *ret_text, size_t len);

/* Up to 32 tags, keys to 32 bytes, values to 200; the same key again replaces.
 * -ENOSPC, -EINVAL. MT-Unsafe | AS-Unsafe */
int fgt_transaction_set_tag(struct fgt_transaction *transaction,
			    const char *key, const char *value);

/* "ok", or what went wrong ("internal_error", "deadline_exceeded", …: Sentry's
 * words), which makes it an error. -EINVAL. MT-Unsafe | AS-Unsafe */
int fgt_transaction_set_status(struct fgt_transaction *transaction,
			       const char *status);

/* The calling thread works for it from now on, until _leave or the end; its
 * stacks and spans of that time are the transaction's, as are those of the one
 * that began it, until it leaves. As often as it likes, up to 256 times by all
 * threads together; beyond that one that was there before never left, for
 * another one -ENOSPC; -ENOMEM. MT-Safe | AS-Unsafe */
int fgt_transaction_adopt(struct fgt_transaction *transaction);
int fgt_transaction_leave(struct fgt_transaction *transaction);

/*
 * Ends it, decides whether it is kept and hands it over; frees it. 1 kept,
 * 0 not; -ENOBUFS kept, but too many are waiting to be delivered (dropped and
 * counted). Never waits for a lock that is held during I/O.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_transaction_finish(struct fgt_transaction *transaction);

/* Frees it without a word to anybody. MT-Safe | AS-Unsafe */
void fgt_transaction_drop(struct fgt_transaction *transaction);

/* ---- Tasks and spans --------------------------------------------------- */

/*
 * A task is an activity that goes on beside others; a span is a section of
 * one, nested in the span around it. Both are numbers, 0 is none. A thread
 * has a current task, and that has a current span.
 *
 * Misuse is counted, told (each kind once from a start to its stop, at the
 * start where it came before) and has no other effect:
 * -ENOTCONN a span, and the thread has no task (or none to end); -EALREADY the
 * parent has an active child span; -EBUSY to end a span whose child is active;
 * -ENOTEMPTY to end a task that has live child tasks or an active span; -EINVAL
 * a number that never was one, a parent of a span that has ended, or a name
 * with '#' or without a byte. To end something again is no misuse and returns
 * 0. All may return -ENOSPC: more than 4096 tasks, more than 64 spans deep;
 * -ENOMEM and -ECHILD. Nobody need have called fgt_start(): they work, and
 * nothing is recorded. Spans take no lock.
 */

/*
 * Begins a task below the nearest ancestor that still lives of parent (0: of
 * the thread's current task; if that has none, or with all ended: a root), and
 * makes it the thread's current one. Its unique name is "name#N" with the
 * lowest N that no live task of that name has, from 0 on. name: up to 64
 * bytes. (An ended parent's ancestors are known until 12000 tasks later.)
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_task_begin(const char *name, uint64_t parent, uint64_t *ret_task);
/* The task that was current when it began is the current one again. */
int fgt_task_end(uint64_t task);
/* Another thread works on it from now on: its current task. 0: on none. */
int fgt_task_enter(uint64_t task);

/*
 * Begins a span: parent is a span, a task, or 0 for the innermost one that is
 * active in the current task. name: up to 64 bytes. ret_span may be NULL.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_span_begin(const char *name, uint64_t parent, uint64_t *ret_span);
/* span: 0 for the innermost active one of the current task. */
int fgt_span_end(uint64_t span);

/* For log lines: "taskA$taskB$spanA.spanB", "NOSPAN" without a task; the ids
 * are those that traces show. As snprintf(3). MT-Safe | AS-Unsafe */
int fgt_span_ids(char *ret_text, size_t len);

struct fgt_span_end {
	const char *name, *task; /* task: its unique name */
	uint64_t begin_ns, end_ns;
};

/* Called on the ending thread for each span that begins from now on; up to 8,
 * for good. -ENOSPC. MT-Safe | AS-Unsafe */
int fgt_on_span_end(void (*call)(void *context, const struct fgt_span_end *end),
		    void *context);

/* ---- Marks, counters, labels ------------------------------------------- */

/* Names up to 64 bytes, keys to 32, values to 200. -EINVAL without a byte (a
 * value may be empty), -ENOMEM, -ECHILD. Marks and counters are in slices
 * (FGT_FORMAT_FGT, _CHROME) and $FGTRACE_ACTIVITY, never in Sentry
 * envelopes. */

/* An instant worth a name, on the calling thread. MT-Safe | AS-Unsafe */
int fgt_mark(const char *name);
/* A figure that stays what it is until it is told anew. -EINVAL not finite.
 * MT-Safe | AS-Unsafe */
int fgt_counter(const char *name, double value);
/* Says something of the innermost active span. -ENOTCONN there is none.
 * MT-Safe | AS-Unsafe */
int fgt_label(const char *key, const char *value);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
