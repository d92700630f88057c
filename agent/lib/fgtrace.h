/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfgtrace: a flight recorder of the stacks of the calling program.
 *
 * An agent beside the program keeps the stacks of all threads of the last
 * seconds. Where there is no agent, one thread inside the program does. The
 * program asks for a slice of them, or marks where transactions, tasks and
 * spans begin and end: the library then decides at the end of a transaction
 * whether its stacks are kept.
 *
 * No function prints, aborts, or waits for the network. Without an agent,
 * threads get SIGURG while they run, never while they wait: see fgtrace(3).
 * A function that can fail for more than one reason returns a negative errno,
 * and writes its outputs only on success. Times are CLOCK_MONOTONIC in
 * nanoseconds, as fgt_now() returns them. Texts are UTF-8, are copied, and are
 * cut at the stated length. For C99 and C++.
 *
 * In the child of a fork(2) recording is off: functions that need it return
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
	FGT_AUTO, /* the agent if it runs at fgt_start(), else embedded */
	FGT_AGENT, /* the agent; nothing is recorded while none runs */
	FGT_EMBEDDED /* one thread of this process */
};

enum fgt_format {
	FGT_FORMAT_FGT, /* loss-free; fgtrace-agent convert reads it */
	FGT_FORMAT_CHROME, /* Perfetto, speedscope, chrome://tracing */
	FGT_FORMAT_SENTRY, /* envelope: transaction and profile */
	FGT_FORMAT_SENTRY_CHUNK, /* envelope: profile_chunk, version 2 */
	FGT_FORMAT_PPROF, /* gzipped profile.proto */
	FGT_FORMAT_FOLDED, /* flame graphs */
	FGT_FORMAT_SPEEDSCOPE,
	FGT_FORMAT_OTLP, /* OpenTelemetry: ExportProfilesServiceRequest */
	FGT_FORMAT_PERFETTO /* Perfetto v58 or later */
};

/* The threads whose stacks a kept transaction has. */
enum fgt_threads {
	FGT_THREADS_ALL,
	FGT_THREADS_ADOPTED /* that began or adopted the transaction */
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
			     * the sockets of fgtrace-agent */
	unsigned int timeout_ms; /* limit of a wait for the agent; 1000 */

	/* Embedded only; an agent has its own configuration. */
	unsigned int hz; /* 1 to 1000; 101 */
	unsigned int ring_seconds; /* 1 to 3600; 30 */
	size_t ring_bytes; /* 1 MiB … 16 GiB; 64 MiB, touched as needed */

	/*
	 * Destination of kept transactions and, where an agent runs (also
	 * beside an embedded recorder), of the last seconds before a crash: a
	 * Sentry DSN; another URL (see fgtrace.conf(5)); the absolute path of a
	 * directory; or the name of one of an agent's destinations, if this
	 * user may use it. Default: $FGTRACE_DESTINATION, else those of the
	 * agent's upload.transactions, if any; without them transactions are
	 * counted as dropped. A crash is an end by a signal other than SIGTERM,
	 * SIGINT and SIGHUP, which ask a program to end.
	 */
	const char *destination;
	/* Release and environment in all that is written in a format of Sentry
	 * or sent to it: up to 200 and 64 bytes. Default: $FGTRACE_RELEASE and
	 * $FGTRACE_ENVIRONMENT. */
	const char *release; /* "app@1.0" */
	const char *environment; /* "production" */

	/* A transaction is kept if sample_rate and min_duration_ns agree, or if
	 * its status is an error and keep_errors is set. */
	double sample_rate; /* 0 to 1; 0 is the default, 1; negative: none */
	uint64_t min_duration_ns; /* shorter transactions are dropped */
	int keep_errors; /* not 0: keep failed ones of any duration */
	/* Called instead of these three rules, if given: not 0 keeps, within
	 * the limits below. Called by fgt_transaction_finish() on its
	 * thread. */
	int (*decide)(void *context, const struct fgt_transaction_info *info);
	/* Limits for many slow requests at once, of the whole process. */
	uint64_t min_gap_ns; /* between two kept ones; 1 s; UINT64_MAX: no
			      * limit */
	unsigned int max_per_hour; /* 120; UINT_MAX: no limit */
	enum fgt_threads threads;

	/*
	 * Receives one line for each thing that does not work, with its cause
	 * and what to do: each cause once. Only the number of dropped
	 * transactions is logged again, at growing intervals.
	 * Called on a thread of the library; if fgt_start() fails, on its
	 * thread before it returns. Must return normally (no longjmp, no C++
	 * exception). Not called after fgt_stop() has returned, unless a call
	 * takes longer than a second.
	 */
	void (*log)(void *context, const char *line);
	void *context; /* of decide and log */

	/*
	 * Connections to a DSN. An agent uses its own upload.ca_file, and must
	 * have upload.allow_http set as well.
	 */
	const char *ca_file; /* PEM, path of up to 1023 bytes: authorities to
			      * trust instead of the system's. Default:
			      * $FGTRACE_UPLOAD_CA_FILE */
	int allow_http; /* not 0: plain http to another machine is allowed, as
			 * with FGTRACE_UPLOAD_ALLOW_HTTP=1 */
	int reserved; /* 0 */

	/*
	 * Embedded only: absolute path (up to 1023 bytes) of a directory in
	 * which kept transactions wait until the destination has answered, also
	 * for the next run of the program with the same destination and
	 * directory; else they wait in memory, for about two minutes. It is
	 * made if only its last part is missing, and must belong to the
	 * program's user, with no rights for others to write. At most 64 MiB,
	 * 1000 deliveries, 7 days: the oldest go first. Default:
	 * $FGTRACE_SPOOL_DIR
	 */
	const char *spool_dir;

	/* Published to agents and profilers: see fgt_start(3). */
	const char *service_name, *service_namespace;
	const char *service_version, *service_instance;
};

/*
 * Starts recording. Embedded, it returns after the first tick; with an agent
 * after its answer or timeout_ms, and the library then looks for the agent once
 * a second. options: NULL for defaults.
 *
 * Call it after dropping privileges. The C library changes user and groups in
 * every thread, and ends the program if one thread is refused what another is
 * permitted. The library's threads do not keep capabilities (PR_SET_KEEPCAPS):
 * a program that does, and changes its groups after its user, would be ended.
 *
 * -EALREADY it records already (nothing changes)
 * -EINVAL a value out of range, an invalid destination (the log has which), or
 *     a size of no version of this struct
 * -ENOENT embedded: libfgtrace-embed.so is not installed, is of another
 *     version, or cannot be loaded (the log has which)
 * -EPERM embedded: this process may not inspect itself
 * -ESRCH embedded: this process is not in /proc
 * -EAGAIN no thread could be started, or a delivery from before fgt_stop()
 *     has not returned yet
 * -EMFILE embedded: fewer than 64 files may be open (RLIMIT_NOFILE)
 * -EMFILE, -ENFILE no descriptor is left
 * -ENOMEM
 * After an error nothing is left behind.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_start(const struct fgt_options *options);

/*
 * Stops recording. Waits at most timeout_ms for slices that are being cut, and
 * one second for kept transactions that are not delivered yet. The rest counts
 * as undelivered, and is logged. Does nothing if the program does not record,
 * or if $FGTRACE_OUT started the recording, which then ends at exit. Slices
 * stay usable.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_stop(void);

/* CLOCK_MONOTONIC, ns. MT-Safe | AS-Safe */
uint64_t fgt_now(void);

/* State of the recorder; counters since the process began. */
struct fgt_status {
	size_t size; /* set it before the call */
	enum fgt_mode mode; /* FGT_AUTO: it does not record */
	int is_recording; /* embedded, or an agent answered and samples */
	double hz; /* rate of ticks; 0: unknown */
	uint64_t slices; /* returned by fgt_get_slice() */
	/*
	 * delivered: embedded, accepted by the destination; with an agent,
	 * accepted by the agent, which delivers later and logs the outcome.
	 */
	uint64_t transactions, kept, dropped, delivered, undelivered;
	uint64_t spans, spans_lost; /* lost: no room was left */
	uint64_t misuses; /* of tasks, spans and transactions */
	unsigned int active_tasks;
	char limitation[256]; /* what is not permitted here, its cause and what
			       * to do; "": nothing */
	uint64_t activity_lost; /* spans, marks, counters and labels that are
				 * missing in $FGTRACE_ACTIVITY so far */
};

/* -EINVAL for a size of no version. MT-Safe | AS-Unsafe */
int fgt_get_status(struct fgt_status *ret_status);

/* ---- Slices ------------------------------------------------------------ */

/* Stacks and states of every thread in a range of time. Read-only. */
struct fgt_slice;

/*
 * Cuts the range [from_ns, to_ns], both inclusive, clamped to what is kept, and
 * resolves the names of functions. to_ns may lie up to an hour ahead: the call
 * then waits for it.
 *
 * -EINVAL from_ns > to_ns, or to_ns too far ahead
 * -ENOTCONN fgt_start() was not called, or no agent runs now
 * -ENODATA fewer than two ticks lie in the range
 * -ETIMEDOUT the agent did not answer within timeout_ms (after to_ns)
 * -EBADMSG the agent's answer is invalid (fgt_slice_write() checks the tables
 *     inside a slice)
 * -EBUSY the agent has too many slices to cut
 * -ESHUTDOWN fgt_stop() was called meanwhile
 * -ECHILD in the child of a fork
 * -ENOMEM
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_get_slice(uint64_t from_ns, uint64_t to_ns,
		  struct fgt_slice **ret_slice);

/*
 * Serves the stacks of this program over HTTP, from now until
 * fgt_http_listen(NULL): /debug/fgtrace (a Chrome trace of the past seconds),
 * /debug/fgprof and /debug/pprof/profile (for pprof), /api/v1/slice and
 * /api/v1/threads, as fgtrace-agent(1) has them. It answers where fgt_start()
 * records, with an agent or embedded. address: "127.0.0.1:6060", "[::1]:6060",
 * ":6060". There is no token: every user of the machine can read the names of
 * functions and threads.
 *
 * -EINVAL no address, or no loopback address
 * -EADDRINUSE, -EACCES the port is taken, or is for root
 * -EALREADY it serves already
 * -ENOENT libfgtrace-http.so is not installed, is of another version, or
 *     cannot be loaded
 * -EAGAIN no thread could be started
 * -ENOMEM
 * The log has the reason of each. The child of a fork does not serve.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_http_listen(const char *address);

struct fgt_slice_info {
	size_t size; /* set it before the call */
	uint64_t from_ns, to_ns; /* covered: first and last tick */
	uint64_t ticks;
	unsigned int threads;
	int caller_tid; /* thread that called fgt_get_slice() */
	size_t bytes; /* in the form FGT_FORMAT_FGT */
};

/* MT-Safe | AS-Unsafe */
int fgt_slice_get_info(const struct fgt_slice *slice,
		       struct fgt_slice_info *ret_info);

/*
 * Writes the whole slice to a blocking descriptor. Errno of write(2).
 *
 * -EINVAL unknown format
 * -ENODATA the slice has too few ticks for the format
 * -EPIPE the pipe has no reader (no signal is raised)
 * In formats other than FGT_FORMAT_FGT:
 * -ENOENT libfgtrace-embed.so is not installed or cannot be loaded
 * -EBADMSG the slice of the agent contradicts itself
 * -EPROTONOSUPPORT the slice has another version: use a libfgtrace that is as
 *     new as the agent
 * -ENOMEM
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_write(const struct fgt_slice *slice, enum fgt_format format,
		    int fd);

/*
 * Queues a copy of the slice for a destination (see fgt_options; NULL: the one
 * given there) and returns. The library's thread, or the agent, sends it.
 *
 * -EINVAL no destination, or a malformed one; -ENOBUFS the queue is full;
 * -ENOTCONN, -ECHILD, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_upload(const struct fgt_slice *slice, const char *destination);

/* NULL is accepted. MT-Safe | AS-Unsafe */
void fgt_slice_free(struct fgt_slice *slice);

/*
 * Waits until the queue is delivered: to its destinations, or to the agent.
 * -ETIMEDOUT, -ESHUTDOWN, -ENOTCONN, -ECHILD.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_flush(unsigned int timeout_ms);

/* ---- Transactions ------------------------------------------------------ */

/*
 * A unit of work that gets a separate profile: a request, a job. One
 * thread may begin it and another finish it. Calls on one transaction must not
 * overlap, with one exception: _adopt and _leave may overlap each other and the
 * setters. No call may overlap _finish and _drop or follow them. Every function
 * accepts NULL and returns 0 then, so that a program need not check whether it
 * records.
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
 * "default". Returns NULL before fgt_start() and after fgt_stop(), in the child
 * of a fork, for a NULL name, or without memory.
 *
 * While an agent is away (is_recording is 0) transactions begin all the same,
 * and their traces go on. If the agent returns within two minutes it gets what
 * was kept, without stacks of the time before.
 *
 * A transaction that lasts longer than the ring (ring_seconds) has stacks and
 * spans of its last part only.
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
 * -EINVAL malformed: the transaction keeps its own trace.
 *
 * MT-Unsafe | AS-Unsafe
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

/* Up to 32 tags, keys of up to 32 bytes, values of up to 200. The same key
 * replaces the value. -ENOSPC, -EINVAL, -ENOMEM. MT-Unsafe | AS-Unsafe */
int fgt_transaction_set_tag(struct fgt_transaction *transaction,
			    const char *key, const char *value);

/* "ok", or a status of Sentry ("internal_error", "deadline_exceeded", …), which
 * makes the transaction an error. -EINVAL. MT-Unsafe | AS-Unsafe */
int fgt_transaction_set_status(struct fgt_transaction *transaction,
			       const char *status);

/*
 * The calling thread works for the transaction until _leave or the end: its
 * stacks and spans of that time belong to the transaction. The thread that
 * began it works for it without a call, until it leaves. All threads together
 * can adopt 256 times. After that a thread that adopted before counts as
 * present from then on; for another thread -ENOSPC. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_transaction_adopt(struct fgt_transaction *transaction);
int fgt_transaction_leave(struct fgt_transaction *transaction);

/*
 * Ends the transaction, decides whether it is kept, queues it for delivery, and
 * frees it. Returns 1 if it is kept, 0 if not; -ENOBUFS if the queue is full:
 * it is counted as dropped; -ECHILD. Never waits for a lock that is held during
 * I/O.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_transaction_finish(struct fgt_transaction *transaction);

/* Frees it; it is not counted. MT-Safe | AS-Unsafe */
void fgt_transaction_drop(struct fgt_transaction *transaction);

/* ---- Tasks and spans --------------------------------------------------- */

/*
 * A task is an activity that runs beside others; a span is a section of a task,
 * nested in the span around it. Both are numbers, 0 is none. A thread has a
 * current task, and a task has a current span.
 *
 * Misuse is counted, is logged once for each kind between start and stop, and
 * has no other effect:
 * -ENOTCONN span: the thread has no task, or no span to end
 * -EALREADY the parent has an active child span
 * -EBUSY the span to end has an active child
 * -ENOTEMPTY the task to end has live child tasks or an active span
 * -EINVAL a number that was never returned, a parent of a span that has ended,
 *     or a name that is empty or contains '#'
 * Ending something twice is no misuse and returns 0. All functions may return
 * -ENOSPC (more than 4096 tasks, more than 64 spans deep), -ENOMEM and -ECHILD.
 * They work without fgt_start(), but nothing is recorded then. Spans take no
 * lock.
 */

/*
 * Begins a task and makes it the thread's current one. It is a child of parent
 * or, if that has ended, of its nearest ancestor that has not; 0: of the
 * thread's current task; without one, or if all have ended: a root. Ancestors
 * of an ended task are known until 12000 tasks later. The unique name is
 * "name#N" with the lowest N, from 0 on, that no live task of that name has.
 * name: up to 64 bytes.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_task_begin(const char *name, uint64_t parent, uint64_t *ret_task);
/* Ends a task. The task that was current when it began is current again. */
int fgt_task_end(uint64_t task);
/* Makes a task of another thread the current one of this thread; 0: none. */
int fgt_task_enter(uint64_t task);

/*
 * Begins a span. parent: a span, a task, or 0 for the innermost active span of
 * the current task. name: up to 64 bytes. ret_span may be NULL.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_span_begin(const char *name, uint64_t parent, uint64_t *ret_span);
/* Ends a span; 0: the innermost active span of the current task. */
int fgt_span_end(uint64_t span);

/* Writes "taskA$taskB$spanA.spanB" for log lines, "NOSPAN" without a task.
 * Traces show the same ids. As snprintf(3). MT-Safe | AS-Unsafe */
int fgt_span_ids(char *ret_text, size_t len);

struct fgt_span_end {
	const char *name, *task; /* task: its unique name */
	uint64_t begin_ns, end_ns;
};

/* Registers a function that is called at the end of each span that begins from
 * now on, on the thread that ends it. Up to 8; they cannot be removed. -ENOSPC.
 * MT-Safe | AS-Unsafe */
int fgt_on_span_end(void (*call)(void *context, const struct fgt_span_end *end),
		    void *context);

/* ---- Marks, counters, labels ------------------------------------------- */

/* Names have up to 64 bytes, keys 32, values 200. -EINVAL an empty name or key
 * (a value may be empty), -ENOMEM, -ECHILD. Marks and counters are in slices
 * (FGT_FORMAT_FGT, _CHROME) and in $FGTRACE_ACTIVITY, never in Sentry
 * envelopes. */

/* Names this instant, on the calling thread. MT-Safe | AS-Unsafe */
int fgt_mark(const char *name);
/* A value that holds until the next call. -EINVAL not finite.
 * MT-Safe | AS-Unsafe */
int fgt_counter(const char *name, double value);
/* Adds a label to the innermost active span. With the labels "trace_id" (32 hex
 * digits) and "span_id" (16) it is that span of a distributed trace: pprof and
 * OTLP samples of its thread refer to it. -ENOTCONN there is none.
 * MT-Safe | AS-Unsafe */
int fgt_label(const char *key, const char *value);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
