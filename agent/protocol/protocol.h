/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over the control socket: frames of [u32 big-endian length][one
 * msgpack map]. One request per connection, then one or more reply frames;
 * only registered connections stay open.
 *
 * Request:  {"v":1, "verb":"slice", …arguments}; unknown keys are ignored
 * Reply:    {"v":1, "ok":true, …results} or
 *           {"v":1, "ok":false, "error":-errno, "why":"one line"}
 * A slice reply is followed by frames {"data":bin} and ended by
 * {"end":true, "len":total}; the concatenated data is a .fgt file. A reply
 * with "ok":false instead of the end: it broke off, the data is worthless.
 *
 * attach    pid: int | name: string; children: bool (false)
 *           → targets: [{pid, name}], those attached now or before
 * detach    pid | name → targets: [{pid, name}]
 * slice     pid | name | self: true (the process that asks: it need not be
 *           able to trace itself, and to lies not ahead) | none of them
 *           (the only target); tid: int (0: all);
 *           from_ns: uint (0), to_ns: uint (now): CLOCK_MONOTONIC; to may lie
 *           at most an hour ahead: the daemon waits, then answers
 *           → pid, name, from_ns, to_ns (covered), ticks, threads
 * status    → version: string, pid, uid, socket, config: path or "",
 *           uptime_ns, hz, max_cpu_percent: double, ring_seconds,
 *           ring_bytes (per target),
 *           has_bpf, has_perf_cpu, has_perf_thread, has_ptrace: bool, bpf_why,
 *           perf_cpu_why,
 *           perf_thread_why, ptrace_why: "" or cause and remedy,
 *           target_count (that the caller may see), clients, registered:
 *           connections that stay open, slices_served,
 *           slices_failed, slices_busy (turned away), slices_active,
 *           slices_waiting, deliveries_delivered, deliveries_failed (given
 *           up), deliveries_refused (too many), deliveries_retried,
 *           deliveries_active, deliveries_waiting, crashes: registered
 *           processes ended by a signal; reloads, reload_failed, reload_why: of
 *           the last reload that failed, rss_bytes, cpu_ns (user + system),
 *           targets: [target]
 * targets   → targets: [target]
 * register  mode: "agent" (the process that asks is sampled from now on) or
 *           "embedded" (it samples itself); destination, release,
 *           environment: text or absent; spans, ring: bool (false), and with
 *           the first byte of the frame, by SCM_RIGHTS, the memfd of its span
 *           log if spans, then that of its ring if ring, both sealed against
 *           shrinking. → pid (as the agent sees it), hz: double,
 *           ring_seconds, limitation: "" or cause, remedy.
 *           The connection stays open. What is registered is the process that
 *           connected; it stays so until bye or the end of the connection. An
 *           end without bye, and of the process: it died.
 *           At most 512 of them, 64 of a user. Requests on it, up to 16 MiB,
 *           each answered before the next is read:
 *   deliver   destination; from_ns, to_ns (the range to cut) or data: bin of
 *             a .fgt file; release, environment: text or absent; then, if
 *             it is a transaction: name; op, status, event_id, trace_id,
 *             span_id, parent_span_id: text or absent; begin_ns, end_ns;
 *             active_tid; tags: [{key, value}]; tids: [{tid, from_ns, to_ns}]
 *             that worked for it, and when (absent or 0: from its begin, to
 *             its end), none: all; all_threads: bool, the stacks of the
 *             others too
 *             → ok: it is queued; -EBUSY: try again later
 *   bye       → ok; nothing is made of its end
 *
 * A target is a map of
 *   pid, uid, start_time (ticks since boot), name, exe
 *   origin: "attached", "configured", "child" or "registered" (by itself,
 *   through libfgtrace); with_children: bool
 *   alive: bool, attached_ns, ended_ns (0 if alive): CLOCK_MONOTONIC
 *   threads, effective_hz: double, ticks, missed_ticks, samples_running,
 *   samples_blocked, torn, credited_ticks (of threads that ran: told by the
 *   sample that came after them)
 *   rate_hz: double, aimed at now; rate_periods: one tick in so many, 1: not
 *   lowered; rate_note: "" or why it is; cpu_percent: double, of a core
 *   who_ran, running: provider and source; limitation: "" or cause, remedy
 *   stacks, stacks_complete, stacks_truncated, fp_needed, fp_recovered
 *   oldest_ns, newest_ns: what can be cut, 0 if nothing
 *   ring_ticks, ring_changes, ring_overflows, ring_evicted_ticks,
 *   ring_log_used_bytes, ring_log_size_bytes, ring_nodes, ring_frames,
 *   ring_images, ring_threads, ring_size_bytes
 *
 * Errors: -EBADMSG malformed frame, -EMSGSIZE beyond 1 MiB, -ETIMEDOUT not
 * complete within 5 s, -EPROTONOSUPPORT version or verb, -EINVAL argument,
 * -ESRCH no such target that the caller may see (or no such process),
 * -ENOTUNIQ several targets (the reply has targets: [{pid, name}] to choose
 * from), -ENODATA no data in range (the reply has oldest_ns, newest_ns, 0 if
 * there is nothing at all), -EBUSY too many slices at once, -EUSERS too many
 * clients or registered processes, -EPERM and -EACCES not permitted, -ENOSPC
 * too many targets, -ENOMEM, -ESHUTDOWN the daemon is leaving.
 */
#ifndef FGT_AGENT_PROTOCOL_PROTOCOL_H
#define FGT_AGENT_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

#define FGT_PROTOCOL_VERSION	 1
#define FGT_PROTOCOL_REQUEST_MAX (1024 * 1024)
#define FGT_PROTOCOL_KEPT_MAX	 (16 * 1024 * 1024 + 4096) /* once registered */
#define FGT_PROTOCOL_REPLY_MAX	 (16 * 1024 * 1024)
#define FGT_PROTOCOL_DATA_MAX	 (256 * 1024)
#define FGT_PROTOCOL_DEPTH_MAX	 16
#define FGT_PROTOCOL_KEYS_MAX	 128 /* of one map */

/*
 * A decoded map: typed getters that never trust the sender. Checked with
 * fgt_msgpack_check() before a byte is unpacked; duplicate keys, strings with
 * a NUL, non-string keys and ext types are refused.
 */
struct fgt_message;

/* bytes without the length in front. -EBADMSG, -ENOMEM. MT-Safe | AS-Unsafe */
int fgt_message_decode(const uint8_t *bytes, size_t len,
		       struct fgt_message **ret_message);
void fgt_message_free(struct fgt_message *message);
FGT_DEFINE_AUTO(struct fgt_message *, fgt_message_free);

/* -ENOENT: no such key; -EINVAL: another type, or a number out of range. */
int fgt_message_get_int(const struct fgt_message *message, const char *key,
			int64_t *ret_value);
int fgt_message_get_uint(const struct fgt_message *message, const char *key,
			 uint64_t *ret_value);
int fgt_message_get_double(const struct fgt_message *message, const char *key,
			   double *ret_value);
int fgt_message_get_bool(const struct fgt_message *message, const char *key,
			 bool *ret_value);
/* The string lives as long as the message. */
int fgt_message_get_string(const struct fgt_message *message, const char *key,
			   const char **ret_value);
int fgt_message_get_bin(const struct fgt_message *message, const char *key,
			const uint8_t **ret_bytes, size_t *ret_len);
/* Arrays of maps; the element is owned by the message. */
int fgt_message_get_array(const struct fgt_message *message, const char *key,
			  size_t *ret_count);
int fgt_message_get_array_map(const struct fgt_message *message,
			      const char *key, size_t index,
			      const struct fgt_message **ret_element);
/* The whole message as JSON, for --json; bin becomes base64. Errors: the
 * sink's. */
int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink);

/*
 * Builds one frame: open, put keys in any order ("v" included), finish.
 * Errors stick and come back from fgt_builder_finish(): -ENOMEM, -EMSGSIZE
 * beyond FGT_PROTOCOL_REPLY_MAX, -EINVAL for begin and end that do not match.
 */
struct fgt_builder;
int fgt_builder_new(struct fgt_builder **ret_builder);
void fgt_builder_free(struct fgt_builder *builder);
FGT_DEFINE_AUTO(struct fgt_builder *, fgt_builder_free);
void fgt_builder_int(struct fgt_builder *builder, const char *key,
		     int64_t value);
void fgt_builder_uint(struct fgt_builder *builder, const char *key,
		      uint64_t value);
void fgt_builder_double(struct fgt_builder *builder, const char *key,
			double value);
void fgt_builder_bool(struct fgt_builder *builder, const char *key, bool value);
void fgt_builder_string(struct fgt_builder *builder, const char *key,
			const char *value);
void fgt_builder_bin(struct fgt_builder *builder, const char *key,
		     const void *bytes, size_t len);
/* Between begin and end of an array: one map per element. Maps nest: a key
 * put between map_begin and map_end belongs to that map. */
void fgt_builder_array_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_array_end(struct fgt_builder *builder);
void fgt_builder_map_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_map_end(struct fgt_builder *builder);
/* key is NULL inside an array. */

/* The frame with its length in front; valid until the builder is freed. */
int fgt_builder_finish(struct fgt_builder *builder, const uint8_t **ret_bytes,
		       size_t *ret_len);

#endif
