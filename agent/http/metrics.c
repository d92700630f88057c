/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of metrics and the keys of `status` that they are made of. Runs in
 * any thread; must not trust a text of the reply.
 */
#include "agent/http/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/utf8.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define NS	     1e-9
#define LINE_MAX_LEN 600

/*
 * A sample: rows of one metric follow each other. key: of the reply, or of each
 * target or destination; minus: a key whose value is subtracted.
 */
struct metric_row {
	const char *metric, *type, *help;
	const char *labels; /* "result=\"served\"", "": none */
	const char *key, *minus;
	double scale;
};

#define ROW(metric, type, help, labels, key)                                   \
	{                                                                      \
		"fgtrace_" metric, type, help, labels, key, NULL, 1            \
	}
#define SCALED(metric, type, help, key, scale)                                 \
	{                                                                      \
		"fgtrace_" metric, type, help, "", key, NULL, scale            \
	}

/* clang-format off */
static const struct metric_row of_agent[] = {
	SCALED("uptime_seconds", "gauge", "Time since the agent started.", "uptime_ns", NS),
	SCALED("process_cpu_seconds_total", "counter", "CPU time of the agent, user and system.", "cpu_ns", NS),
	ROW("process_resident_memory_bytes", "gauge", "Resident memory of the agent.", "", "rss_bytes"),
	ROW("targets", "gauge", "Processes that are sampled, or whose ring is kept.", "", "target_count"),
	ROW("clients", "gauge", "Connections to the control socket.", "", "clients"),
	ROW("registered_programs", "gauge", "Programs that have registered themselves.", "", "registered"),
	ROW("crashes_total", "counter", "Registered programs ended by a signal.", "", "crashes"),
	ROW("reloads_total", "counter", "Reloads of the configuration.", "result=\"done\"", "reloads"),
	ROW("reloads_total", "counter", "", "result=\"failed\"", "reload_failed"),
	SCALED("hung_seconds", "gauge", "For how long a thread of the agent has not got on.", "hung_ns", NS),
	ROW("sampler_threads_lost", "gauge", "Sampler threads that wait for a process that does not answer.", "", "threads_lost"),
	ROW("ring_reserved_bytes", "gauge", "Memory that all rings may come to use.", "", "ring_used_bytes"),
	ROW("ring_limit_bytes", "gauge", "Memory that all rings may have together.", "", "ring_total_bytes"),
	ROW("image_files", "gauge", "Open ELF files of targets.", "", "image_files"),
	ROW("image_bytes", "gauge", "Memory of their unwind rules.", "", "image_bytes"),
	ROW("image_refused_total", "counter", "Files and tables of rules for which there was no room.", "what=\"rules\"", "image_rules_refused"),
	ROW("image_refused_total", "counter", "", "what=\"files\"", "image_files_refused"),
	ROW("slices_total", "counter", "Requests for slices, by result.", "result=\"served\"", "slices_served"),
	ROW("slices_total", "counter", "", "result=\"failed\"", "slices_failed"),
	ROW("slices_total", "counter", "", "result=\"busy\"", "slices_busy"),
	ROW("slices", "gauge", "Slices under way.", "state=\"active\"", "slices_active"),
	ROW("slices", "gauge", "", "state=\"waiting\"", "slices_waiting"),
	ROW("uploads_total", "counter", "Deliveries to destinations, by result.", "result=\"delivered\"", "deliveries_delivered"),
	ROW("uploads_total", "counter", "", "result=\"failed\"", "deliveries_failed"),
	ROW("uploads_total", "counter", "", "result=\"refused\"", "deliveries_refused"),
	ROW("upload_retries_total", "counter", "Deliveries that were tried again.", "", "deliveries_retried"),
	ROW("uploads", "gauge", "Deliveries under way.", "state=\"active\"", "deliveries_active"),
	ROW("uploads", "gauge", "", "state=\"waiting\"", "deliveries_waiting"),
	ROW("spool_entries", "gauge", "Deliveries on the disk.", "", "spool_entries"),
	ROW("spool_bytes", "gauge", "Bytes of deliveries on the disk.", "", "spool_bytes"),
	SCALED("spool_oldest_seconds", "gauge", "Age of the oldest delivery on the disk.", "spool_oldest_ns", NS),
	ROW("spool_deliveries_total", "counter", "Deliveries that were written to the disk, and what became of them.", "result=\"spooled\"", "spool_spooled"),
	ROW("spool_deliveries_total", "counter", "", "result=\"delivered\"", "spool_delivered"),
	ROW("spool_deliveries_total", "counter", "", "result=\"failed\"", "spool_failed"),
	ROW("spool_dropped_total", "counter", "Deliveries that the spool has dropped, by reason.", "reason=\"full\"", "spool_dropped_full"),
	ROW("spool_dropped_total", "counter", "", "reason=\"disk_full\"", "spool_dropped_disk_full"),
	ROW("spool_dropped_total", "counter", "", "reason=\"old\"", "spool_dropped_old"),
	ROW("spool_dropped_total", "counter", "", "reason=\"damaged\"", "spool_dropped_damaged"),
	ROW("spool_dropped_total", "counter", "", "reason=\"removed\"", "spool_dropped_removed"),
	ROW("spool_dropped_total", "counter", "", "reason=\"unwritten\"", "spool_dropped_unwritten"),
	ROW("spool_unwritten", "gauge", "Deliveries in memory that the disk has not taken yet.", "", "spool_unwritten"),
	SCALED("spool_last_error_timestamp_seconds", "gauge", "Time of the last error of the disk, or of a drop; 0: none.", "spool_last_error_ns", NS),
	ROW("http_restarts_total", "counter", "Times that the HTTP server was started again.", "", "http_restarts"),
};

static const struct metric_row of_destination[] = {
	ROW("destination_delivered_total", "counter", "Deliveries that the destination has taken.", "", "delivered"),
	ROW("destination_sent_bytes_total", "counter", "Bytes of these.", "", "bytes"),
	ROW("destination_retries_total", "counter", "Deliveries that were tried again.", "", "retried"),
	ROW("destination_dropped_total", "counter", "Deliveries that were dropped, by reason.", "reason=\"refused\"", "dropped_refused"),
	ROW("destination_dropped_total", "counter", "", "reason=\"too_large\"", "dropped_too_large"),
	ROW("destination_dropped_total", "counter", "", "reason=\"rejected\"", "dropped_rejected"),
	ROW("destination_dropped_total", "counter", "", "reason=\"unreachable\"", "dropped_unreachable"),
	ROW("destination_dropped_total", "counter", "", "reason=\"rate_limited\"", "dropped_rate_limited"),
	ROW("destination_dropped_total", "counter", "", "reason=\"queue_full\"", "dropped_queue_full"),
	ROW("destination_dropped_total", "counter", "", "reason=\"no_data\"", "dropped_no_data"),
	ROW("destination_dropped_total", "counter", "", "reason=\"leaving\"", "dropped_leaving"),
	ROW("destination_waiting", "gauge", "Deliveries that wait, by place.", "place=\"memory\"", "queued"),
	ROW("destination_waiting", "gauge", "", "place=\"spool\"", "spooled"),
	ROW("destination_spooled_bytes", "gauge", "Bytes of deliveries on the disk.", "", "spooled_bytes"),
	SCALED("destination_last_success_timestamp_seconds", "gauge", "Time of the last delivery; 0: none.", "last_success_ns", NS),
	SCALED("destination_last_error_timestamp_seconds", "gauge", "Time of the last error; 0: none.", "last_error_ns", NS),
	SCALED("destination_next_try_seconds", "gauge", "Time until what waits is tried again.", "next_try_in_ns", NS),
};

static const struct metric_row of_target[] = {
	ROW("target_threads", "gauge", "Threads of the target.", "", "threads"),
	ROW("target_rate_hertz", "gauge", "Ticks a second that are aimed at.", "", "rate_hz"),
	ROW("target_effective_rate_hertz", "gauge", "Ticks a second that were reached.", "", "effective_hz"),
	ROW("target_ticks_total", "counter", "Ticks of the target.", "", "ticks"),
	ROW("target_missed_ticks_total", "counter", "Ticks for which the sampler came too late.", "", "missed_ticks"),
	ROW("target_samples_total", "counter", "Samples of threads, by result and reason.", "result=\"stored\",reason=\"running\"", "samples_running"),
	ROW("target_samples_total", "counter", "", "result=\"stored\",reason=\"blocked\"", "samples_blocked"),
	ROW("target_samples_total", "counter", "", "result=\"stored\",reason=\"credited\"", "credited_ticks"),
	ROW("target_samples_total", "counter", "", "result=\"dropped\",reason=\"torn\"", "torn"),
	ROW("target_brief_threads_total", "counter", "Threads that ended before a tick knew them.", "", "brief_threads"),
	ROW("target_stacks_total", "counter", "Stacks, by how far they reach.", "result=\"complete\"", "stacks_complete"),
	ROW("target_stacks_total", "counter", "", "result=\"truncated\"", "stacks_truncated"),
	SCALED("target_sampling_cpu_ratio", "gauge", "What sampling the target costs, of one core.", "cpu_percent", 0.01),
	{ "fgtrace_target_ring_covered_seconds", "gauge", "Time that the ring holds.", "", "newest_ns", "oldest_ns", NS },
	ROW("target_ring_used_bytes", "gauge", "Bytes of the ring's log in use.", "", "ring_log_used_bytes"),
	ROW("target_ring_size_bytes", "gauge", "Memory of the ring.", "", "ring_size_bytes"),
	ROW("target_ring_evicted_ticks_total", "counter", "Ticks that made room for later ones.", "", "ring_evicted_ticks"),
	ROW("target_ring_overflows_total", "counter", "Times that the ring had no room left.", "", "ring_overflows"),
	ROW("target_ring_lost_waits_total", "counter", "Reasons of waits that found no room.", "", "ring_lost_waits"),
	ROW("target_ring_lost_wakes_total", "counter", "Wake-ups that found no room.", "", "ring_lost_wakes"),
	ROW("target_ring_entries", "gauge", "Entries of the ring's tables.", "table=\"nodes\"", "ring_nodes"),
	ROW("target_ring_entries", "gauge", "", "table=\"frames\"", "ring_frames"),
	ROW("target_ring_entries", "gauge", "", "table=\"images\"", "ring_images"),
	ROW("target_ring_entries", "gauge", "", "table=\"threads\"", "ring_threads"),
};
/* clang-format on */

/* A label's value: \ and " and line breaks are escaped, what is not UTF-8
 * becomes ?. */
static void escape(const char *text, char *ret_text, size_t size)
{
	size_t left = strlen(text), used = 0;

	while (left > 0 && used + 6 < size) {
		size_t len = fgt_utf8_len(text, left);

		if (*text == '\\' || *text == '"' || *text == '\n') {
			ret_text[used++] = '\\';
			ret_text[used++] = *text == '\n' ? 'n' : *text;
		} else if (len == 0) {
			ret_text[used++] = '?';
		} else {
			memcpy(ret_text + used, text, len);
			used += len;
		}
		text += len ? len : 1;
		left -= len ? len : 1;
	}
	ret_text[used] = '\0';
}

static int get(const struct fgt_message *from, const struct metric_row *row,
	       double *ret_value)
{
	double value, minus = 0;
	int r = fgt_message_get_double(from, row->key, &value);

	if (r == 0 && row->minus)
		r = fgt_message_get_double(from, row->minus, &minus);
	if (r == 0 && isfinite(value) && isfinite(minus))
		*ret_value = (value - minus) * row->scale;
	return r;
}

static void put(struct fgt_sink_buffer *out, const char *line, int len)
{
	fgt_sink_buffer_put(
		out, line, len < LINE_MAX_LEN ? (size_t)len : LINE_MAX_LEN - 1);
}

/* Before the first row of a metric. */
static void put_head(struct fgt_sink_buffer *out, const struct metric_row *row)
{
	char line[LINE_MAX_LEN];

	if (row->help[0])
		put(out, line,
		    snprintf(line, sizeof(line), "# HELP %s %s\n# TYPE %s %s\n",
			     row->metric, row->help, row->metric, row->type));
}

/* of: labels of what it is a sample of, "": the agent. */
static void put_sample(struct fgt_sink_buffer *out,
		       const struct metric_row *row,
		       const struct fgt_message *from, const char *of)
{
	bool has_labels = of[0] || row->labels[0];
	char line[LINE_MAX_LEN];
	double value;

	if (get(from, row, &value) == 0)
		put(out, line,
		    snprintf(line, sizeof(line), "%s%s%s%s%s%s %.15g\n",
			     row->metric, has_labels ? "{" : "", of,
			     of[0] && row->labels[0] ? "," : "", row->labels,
			     has_labels ? "}" : "", value));
}

static void write_labels(const struct fgt_message *target, char *ret_text,
			 size_t size)
{
	const char *name = "";
	char escaped[150];
	int64_t pid = 0;

	(void)fgt_message_get_int(target, "pid", &pid);
	(void)fgt_message_get_string(target, "name", &name);
	escape(name, escaped, sizeof(escaped));
	snprintf(ret_text, size, "pid=\"%" PRId64 "\",name=\"%s\"", pid,
		 escaped);
}

/* A process id may be used again: the labels have to be different. */
static bool is_alive(const struct fgt_message *target)
{
	bool value = false;

	(void)fgt_message_get_bool(target, "alive", &value);
	return value;
}

static void put_targets(struct fgt_sink_buffer *out,
			const struct metric_row *row,
			const struct fgt_message *status)
{
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	char labels[256];

	(void)fgt_message_get_array(status, "targets", &targets);
	while (fgt_message_next(&targets, &target) == 0) {
		if (!is_alive(&target))
			continue;
		write_labels(&target, labels, sizeof(labels));
		put_sample(out, row, &target, labels);
	}
}

/* Names of destinations differ. */
static void put_destinations(struct fgt_sink_buffer *out,
			     const struct metric_row *row,
			     const struct fgt_message *status)
{
	struct fgt_message_array destinations = { .count = 0 };
	struct fgt_message destination;
	char labels[256], name[100], kind[40];

	(void)fgt_message_get_array(status, "destinations", &destinations);
	while (fgt_message_next(&destinations, &destination) == 0) {
		const char *text = "";

		(void)fgt_message_get_string(&destination, "name", &text);
		escape(text, name, sizeof(name));
		text = "";
		(void)fgt_message_get_string(&destination, "kind", &text);
		escape(text, kind, sizeof(kind));
		snprintf(labels, sizeof(labels),
			 "destination=\"%s\",kind=\"%s\"", name, kind);
		put_sample(out, row, &destination, labels);
	}
}

static void put_version(struct fgt_sink_buffer *out,
			const struct fgt_message *status)
{
	char line[LINE_MAX_LEN], escaped[100];
	const char *version = "";

	(void)fgt_message_get_string(status, "version", &version);
	escape(version, escaped, sizeof(escaped));
	put(out, line,
	    snprintf(line, sizeof(line),
		     "# HELP fgtrace_build_info The version of the agent.\n"
		     "# TYPE fgtrace_build_info gauge\n"
		     "fgtrace_build_info{version=\"%s\"} 1\n",
		     escaped));
}

int fgt_metrics_write(const struct fgt_message *status,
		      const struct fgt_sink *sink)
{
	struct fgt_sink_buffer out;

	fgt_sink_buffer_init(&out, sink);
	put_version(&out, status);
	for (size_t i = 0; i < COUNT(of_agent); i++) {
		put_head(&out, &of_agent[i]);
		put_sample(&out, &of_agent[i], status, "");
	}
	for (size_t i = 0; i < COUNT(of_destination); i++) {
		put_head(&out, &of_destination[i]);
		put_destinations(&out, &of_destination[i], status);
	}
	for (size_t i = 0; i < COUNT(of_target); i++) {
		put_head(&out, &of_target[i]);
		put_targets(&out, &of_target[i], status);
	}
	return fgt_sink_buffer_flush(&out);
}
