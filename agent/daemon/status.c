/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the daemon, in the log's first lines and in the reply of status.
 * Runs in the daemon's loop.
 */
#include "agent/daemon/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "agent/capture/threads/procfs.h"
#include "agent/children/child_ends.h"
#include "agent/daemon/loop/log.h"
#include "ringbuf/base/clock.h"

static uint64_t rss_bytes(void)
{
	unsigned long resident;
	char text[128];

	if (fgt_procfs_read(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) <
		    0 ||
	    sscanf(text, "%*u %lu", &resident) != 1)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_capabilities(struct fgt_builder *builder,
			     const struct fgt_sampler *sampler)
{
	struct fgt_capabilities capabilities;

	fgt_sampler_get_capabilities(sampler, &capabilities);
	fgt_builder_bool(builder, "has_bpf", capabilities.has_bpf);
	fgt_builder_string(builder, "bpf_why", capabilities.bpf_why.text);
	fgt_builder_bool(builder, "has_perf_cpu", capabilities.has_perf_cpu);
	fgt_builder_string(builder, "perf_cpu_why",
			   capabilities.perf_cpu_why.text);
	fgt_builder_bool(builder, "has_perf_thread",
			 capabilities.has_perf_thread);
	fgt_builder_string(builder, "perf_thread_why",
			   capabilities.perf_thread_why.text);
	fgt_builder_bool(builder, "has_ptrace", capabilities.has_ptrace);
	fgt_builder_string(builder, "ptrace_why", capabilities.ptrace_why.text);
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

static void add_images(struct fgt_builder *builder,
		       struct fgt_image_cache *cache)
{
	struct fgt_image_cache_counters counters;

	fgt_image_cache_get_counters(cache, &counters);
	fgt_builder_uint(builder, "image_files", counters.files);
	fgt_builder_uint(builder, "image_bytes", counters.cfi_bytes);
	fgt_builder_uint(builder, "image_rules_given_back",
			 counters.given_back);
	fgt_builder_uint(builder, "image_rules_refused", counters.refused_cfi);
	fgt_builder_uint(builder, "image_files_refused",
			 counters.refused_files);
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
	fgt_deliveries_put_destinations(deliveries, builder);
}

static void add_daemon(struct fgt_builder *builder,
		       const struct fgt_daemon_status *status)
{
	const struct fgt_config *config = *status->config;
	struct fgt_targets_room room;

	fgt_builder_string(builder, "version", FGT_VERSION);
	fgt_builder_int(builder, "pid", getpid());
	fgt_builder_uint(builder, "uid", geteuid());
	fgt_builder_string(builder, "socket", status->socket_path);
	fgt_builder_string(builder, "config", config->path ? config->path : "");
	fgt_builder_uint(builder, "uptime_ns",
			 fgt_loop_now() - status->started_ns);
	fgt_builder_int(builder, "hz", config->sampling.hz);
	fgt_builder_double(builder, "max_cpu_percent",
			   config->sampling.max_cpu_percent);
	fgt_builder_int(builder, "ring_seconds", config->ring.seconds);
	fgt_builder_uint(builder, "ring_bytes",
			 (uint64_t)config->ring.memory_mb << 20);
	fgt_targets_get_room(status->targets, config, &room);
	fgt_builder_uint(builder, "ring_total_bytes", room.total_bytes);
	fgt_builder_uint(builder, "ring_used_bytes", room.used_bytes);
}

static void add_hang(struct fgt_builder *builder, struct fgt_watchdog *watchdog,
		     struct fgt_sampler *sampler)
{
	uint32_t lost;
	uint64_t total;
	char text[160];
	uint64_t hung_ns = fgt_watchdog_describe(watchdog, text, sizeof(text));

	fgt_builder_uint(builder, "hung_ns", hung_ns);
	fgt_builder_string(builder, "hung", text);
	fgt_sampler_get_losses(sampler, &lost, &total);
	fgt_builder_uint(builder, "threads_lost", lost);
	fgt_builder_uint(builder, "threads_given_up", total);
	fgt_builder_uint(builder, "children_ended", fgt_child_ends_count());
}

static void add_life(struct fgt_builder *builder,
		     const struct fgt_daemon_status *status)
{
	fgt_builder_uint(builder, "clients",
			 fgt_control_count(status->control));
	fgt_builder_uint(builder, "registered",
			 fgt_registrations_count(status->registrations));
	fgt_builder_uint(builder, "crashes",
			 fgt_registrations_crashes(status->registrations));
	fgt_builder_uint(builder, "reloads", status->reloads);
	fgt_builder_uint(builder, "reload_failed", status->reload_failed);
	fgt_builder_uint(builder, "rss_bytes", rss_bytes());
	fgt_builder_uint(builder, "cpu_ns",
			 fgt_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	fgt_builder_string(builder, "reload_why", status->reload_why.text);
}

/* The HTTP server is no owner: it must not show its token. */
static bool is_owner(const struct fgt_control_client *client)
{
	const struct fgt_peer *peer = fgt_control_peer(client);

	return !fgt_control_is_adopted(client) &&
	       (peer->is_root || (peer->uid == geteuid() && peer->uid != 0 &&
				  !peer->is_stranger));
}

void fgt_daemon_status_handle(void *context, struct fgt_control_client *client,
			      const struct fgt_request *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const struct fgt_daemon_status *status = context;
	size_t count;

	(void)request;
	if (fgt_builder_new_reply(&builder) == 0) {
		add_daemon(builder, status);
		add_capabilities(builder, status->sampler);
		add_life(builder, status);
		add_hang(builder, status->watchdog, status->sampler);
		add_images(builder, status->cache);
		add_slices(builder, status->slices);
		add_deliveries(builder, status->deliveries);
		fgt_spooler_put(status->spooler, builder);
		fgt_web_service_put(status->http, is_owner(client), builder);
		count = fgt_target_list_put(status->targets,
					    fgt_control_peer(client), builder);
		fgt_builder_uint(builder, "target_count", count);
	}
	fgt_control_reply(client, builder);
}

/* ---- The log ----------------------------------------------------------- */

/* BPF is one of several providers, unless the configuration names it. */
static void log_capability(const struct fgt_config *config, const char *event,
			   bool is_permitted, const char *why)
{
	bool is_needed = strcmp(event, "bpf") != 0 ||
			 config->sampling.provider == FGT_PROVIDER_BPF;

	if (is_permitted)
		fgt_log(FGT_LOG_INFO, event, "permitted");
	else
		fgt_log(is_needed ? FGT_LOG_WARNING : FGT_LOG_INFO, event,
			"not permitted: %s", why);
}

void fgt_daemon_status_log(const struct fgt_daemon_status *status)
{
	const struct fgt_config *config = *status->config;
	struct fgt_capabilities has;

	fgt_log(FGT_LOG_INFO, "started",
		"fgtrace-agent %s, pid %ld, uid %u, socket %s, config %s, "
		"%d Hz, %d s",
		FGT_VERSION, (long)getpid(), geteuid(), status->socket_path,
		config->path ? config->path : "(none)", config->sampling.hz,
		config->ring.seconds);
	fgt_sampler_get_capabilities(status->sampler, &has);
	const struct {
		const char *event;
		bool is_permitted;
		const char *why;
	} rows[] = {
		{ "bpf", has.has_bpf, has.bpf_why.text },
		{ "perf_cpu", has.has_perf_cpu, has.perf_cpu_why.text },
		{ "perf_thread", has.has_perf_thread,
		  has.perf_thread_why.text },
		{ "ptrace", has.has_ptrace, has.ptrace_why.text },
	};
	for (size_t i = 0; i < 4; i++)
		log_capability(config, rows[i].event, rows[i].is_permitted,
			       rows[i].why);
}

void fgt_daemon_status_watch(struct fgt_daemon_status *status)
{
	struct fgt_image_cache_counters counters;

	if (status->is_refusal_logged)
		return;
	fgt_image_cache_get_counters(status->cache, &counters);
	if (!counters.refused_cfi && !counters.refused_files)
		return;
	status->is_refusal_logged = true;
	fgt_log(FGT_LOG_WARNING, "images_refused",
		"%s: stacks of some programs are cut short: fgtrace-agent "
		"status counts it",
		counters.refused_cfi
			? "unwind rules without a search table "
			  "(.eh_frame_hdr) are read whole, at most 256 MiB a "
			  "minute"
			: "all files that may be open are mapped by targets "
			  "(LimitNOFILE=)");
}
