/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the daemon's and the targets' figures into replies. Runs in the
 * daemon's loop (names of targets: in jobs too); tells a client nothing of
 * targets that it may not see.
 */
#include "agent/daemon/status_reply.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "agent/daemon/targets/selector.h"
#include "ringbuf/base/clock.h"

static uint64_t rss_bytes(void)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	unsigned long size, resident;
	char text[128];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = 0;
	if (sscanf(text, "%lu %lu", &size, &resident) != 2)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct figure {
	const char *key;
	uint64_t value;
};

static void add_figures(struct fgt_builder *builder,
			const struct figure *figures, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fgt_builder_uint(builder, figures[i].key, figures[i].value);
}

static void add_capabilities(struct fgt_builder *builder,
			     const struct fgt_sampler *sampler)
{
	struct fgt_capabilities capabilities;

	fgt_sampler_get_capabilities(sampler, &capabilities);
	fgt_builder_bool(builder, "has_bpf", capabilities.has_bpf);
	fgt_builder_string(builder, "bpf_why", capabilities.bpf_why);
	fgt_builder_bool(builder, "has_perf_cpu", capabilities.has_perf_cpu);
	fgt_builder_string(builder, "perf_cpu_why", capabilities.perf_cpu_why);
	fgt_builder_bool(builder, "has_perf_thread",
			 capabilities.has_perf_thread);
	fgt_builder_string(builder, "perf_thread_why",
			   capabilities.perf_thread_why);
	fgt_builder_bool(builder, "has_ptrace", capabilities.has_ptrace);
	fgt_builder_string(builder, "ptrace_why", capabilities.ptrace_why);
}

static void add_slices(struct fgt_builder *builder, struct fgt_slices *slices)
{
	struct fgt_slices_counters counters;

	fgt_slices_get_counters(slices, &counters);
	fgt_builder_uint(builder, "slices_served", counters.served);
	fgt_builder_uint(builder, "slices_failed", counters.failed);
	fgt_builder_uint(builder, "slices_busy", counters.busy);
	fgt_builder_uint(builder, "slices_active", counters.active);
	fgt_builder_uint(builder, "slices_waiting", counters.waiting);
}

static void add_deliveries(struct fgt_builder *builder,
			   const struct fgt_deliveries *deliveries)
{
	struct fgt_deliveries_counters counters;

	fgt_deliveries_get_counters(deliveries, &counters);
	fgt_builder_uint(builder, "deliveries_delivered", counters.delivered);
	fgt_builder_uint(builder, "deliveries_failed", counters.failed);
	fgt_builder_uint(builder, "deliveries_refused", counters.refused);
	fgt_builder_uint(builder, "deliveries_retried", counters.retried);
	fgt_builder_uint(builder, "deliveries_active", counters.active);
	fgt_builder_uint(builder, "deliveries_waiting", counters.waiting);
}

void fgt_status_reply_add(struct fgt_builder *builder,
			  struct fgt_service *service,
			  const struct fgt_peer *peer)
{
	const struct fgt_config *config = service->config;
	const struct fgt_selector everybody = { 0 };

	fgt_builder_string(builder, "version", FGT_VERSION);
	fgt_builder_int(builder, "pid", getpid());
	fgt_builder_uint(builder, "uid", geteuid());
	fgt_builder_string(builder, "socket", service->socket_path);
	fgt_builder_string(builder, "config", config->path ? config->path : "");
	fgt_builder_uint(builder, "uptime_ns",
			 fgt_loop_now() - service->started_ns);
	fgt_builder_int(builder, "hz", config->sampling.hz);
	fgt_builder_double(builder, "max_cpu_percent",
			   config->sampling.max_cpu_percent);
	fgt_builder_int(builder, "ring_seconds", config->ring.seconds);
	fgt_builder_uint(builder, "ring_bytes",
			 (uint64_t)config->ring.memory_mb << 20);
	add_capabilities(builder, service->sampler);
	fgt_builder_uint(builder, "target_count",
			 fgt_target_verb_for_each(service->targets, peer,
						  &everybody, NULL, NULL));
	fgt_builder_uint(builder, "clients",
			 fgt_control_count(service->control));
	fgt_builder_uint(builder, "registered",
			 fgt_registrations_count(service->registrations));
	add_slices(builder, service->slices);
	add_deliveries(builder, service->deliveries);
	fgt_builder_uint(builder, "crashes", service->crashes);
	fgt_builder_uint(builder, "reloads", service->reloads);
	fgt_builder_uint(builder, "reload_failed", service->reload_failed);
	fgt_builder_string(builder, "reload_why", service->reload_why.text);
	fgt_builder_uint(builder, "rss_bytes", rss_bytes());
	fgt_builder_uint(builder, "cpu_ns",
			 fgt_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

static void add_identity(struct fgt_builder *builder,
			 const struct fgt_target_view *view,
			 const struct fgt_target_status *status)
{
	fgt_builder_int(builder, "pid", status->pid);
	fgt_builder_uint(builder, "uid", status->uid);
	fgt_builder_uint(builder, "start_time", status->start_time);
	fgt_builder_string(builder, "name", status->name);
	fgt_builder_string(builder, "exe", status->exe);
	fgt_builder_string(builder, "origin", fgt_origin_name(view->origin));
	fgt_builder_bool(builder, "with_children", view->is_with_children);
	fgt_builder_bool(builder, "alive", status->is_alive);
	fgt_builder_uint(builder, "attached_ns", status->attached_ns);
	fgt_builder_uint(builder, "ended_ns", status->ended_ns);
}

static void add_sampling(struct fgt_builder *builder,
			 const struct fgt_target_status *status)
{
	const struct figure figures[] = {
		{ "threads", status->threads },
		{ "ticks", status->ticks },
		{ "missed_ticks", status->missed_ticks },
		{ "samples_running", status->samples_running },
		{ "samples_blocked", status->samples_blocked },
		{ "torn", status->torn },
		{ "credited_ticks", status->credited_ticks },
		{ "rate_periods", status->rate_periods },
	};

	add_figures(builder, figures, sizeof(figures) / sizeof(figures[0]));
	fgt_builder_double(builder, "effective_hz", status->effective_hz);
	fgt_builder_double(builder, "rate_hz", status->rate_hz);
	fgt_builder_string(builder, "rate_note", status->rate_note);
	fgt_builder_double(builder, "cpu_percent", status->cpu_percent);
	fgt_builder_string(builder, "who_ran",
			   status->who_ran ? status->who_ran : "");
	fgt_builder_string(builder, "running",
			   status->running ? status->running : "");
	fgt_builder_string(builder, "limitation", status->limitation);
}

static void add_unwinding(struct fgt_builder *builder,
			  const struct fgt_unwind_stats *unwind)
{
	uint64_t truncated = 0;

	for (int i = 0; i < FGT_MARKER_COUNT; i++)
		truncated += unwind->truncated[i];
	fgt_builder_uint(builder, "stacks", unwind->stacks);
	fgt_builder_uint(builder, "stacks_complete", unwind->complete);
	fgt_builder_uint(builder, "stacks_truncated", truncated);
	fgt_builder_uint(builder, "fp_needed", unwind->fp_needed);
	fgt_builder_uint(builder, "fp_recovered", unwind->fp_recovered);
}

static void add_ring(struct fgt_builder *builder,
		     const struct fgt_ring_stats *ring)
{
	const struct figure figures[] = {
		{ "oldest_ns", ring->oldest_ns },
		{ "newest_ns", ring->newest_ns },
		{ "ring_ticks", ring->ticks },
		{ "ring_changes", ring->changes },
		{ "ring_overflows", ring->overflows },
		{ "ring_evicted_ticks", ring->evicted_ticks },
		{ "ring_log_used_bytes", ring->log_used_bytes },
		{ "ring_log_size_bytes", ring->log_size_bytes },
		{ "ring_nodes", ring->nodes },
		{ "ring_frames", ring->frames },
		{ "ring_images", ring->images },
		{ "ring_threads", ring->threads },
		{ "ring_size_bytes", ring->size_bytes },
	};

	add_figures(builder, figures, sizeof(figures) / sizeof(figures[0]));
}

static void add_target(void *context, const struct fgt_target_view *view)
{
	struct fgt_builder *builder = context;
	struct fgt_target_status status;

	fgt_target_get_status(view->target, &status);
	fgt_builder_map_begin(builder, NULL);
	add_identity(builder, view, &status);
	add_sampling(builder, &status);
	add_unwinding(builder, &status.unwind);
	add_ring(builder, &status.ring);
	fgt_builder_map_end(builder);
}

void fgt_status_reply_add_name(void *context,
			       const struct fgt_target_view *view)
{
	struct fgt_builder *builder = context;
	struct fgt_target_status status;

	fgt_target_get_status(view->target, &status);
	fgt_builder_map_begin(builder, NULL);
	fgt_builder_int(builder, "pid", status.pid);
	fgt_builder_string(builder, "name", status.name);
	fgt_builder_map_end(builder);
}

void fgt_status_reply_add_targets(struct fgt_builder *builder,
				  struct fgt_service *service,
				  const struct fgt_peer *peer)
{
	const struct fgt_selector everybody = { 0 };

	fgt_builder_array_begin(builder, "targets");
	(void)fgt_target_verb_for_each(service->targets, peer, &everybody,
				       add_target, builder);
	fgt_builder_array_end(builder);
}
