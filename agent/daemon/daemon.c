/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the daemon together, runs it, reloads it, takes it apart. Runs in the
 * main thread; must leave within five seconds of SIGTERM, whatever its clients
 * and threads are doing (FAULTS R7–R9).
 */
#include "agent/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/loop.h"
#include "agent/daemon/programs/delivery_verb.h"
#include "agent/daemon/service.h"
#include "agent/daemon/socket/listener.h"
#include "agent/daemon/socket/request.h"
#include "agent/symbols/elf/image_open.h"
#include "agent/unwind/maps/image_file.h"

#define MS		UINT64_C(1000000)
#define TICK_MS		1000
#define LEAVE_LOOK_MS	20
#define LEAVE_CANCEL_MS 3500 /* then slices at work are broken off */
#define LEAVE_FORCE_MS	4500 /* then the process ends as it is */
#define LEAVE_ALARM_S	5 /* the same if the loop no longer runs */
/* From here on memory is the kernel's again once it is freed. */
#define MMAP_THRESHOLD_BYTES (128 << 10)
/* Rings of processes that ended are kept so much longer than they look back. */
#define KEPT_EXTRA_S 60

struct daemon {
	struct fgt_service service;
	struct fgt_listener listener;
	struct fgt_image_cache *cache;
	struct fgt_symbolizer *symbolizer;
	struct fgt_timer tick, leave;
	struct fgt_job refresh, rules;
	bool is_refreshing, is_reloading; /* the job is on its way */
	bool is_reload_due; /* SIGHUP came meanwhile */
	struct fgt_config *former; /* until the new rules are taken over */
	uint64_t leave_ns; /* since when, 0: not yet */
};

/* ---- Surroundings ------------------------------------------------------ */

/* Else the next file that is opened becomes standard error (FAULTS R9). */
static int open_standard_descriptors(struct fgt_why *why)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* Not CLOEXEC: it stands for a descriptor that is inherited. */
		if (open("/dev/null", O_RDWR) != fd)
			return fgt_why_set(why, -EBADF,
					   "cannot open /dev/null for the "
					   "closed descriptor %d",
					   fd);
	}
	return 0;
}

/*
 * glibc raises the threshold to the largest block that was freed: the tables
 * of a slice, large and hardly touched, would then come from a heap that keeps
 * them, and calloc() would have to clear all of them each time.
 */
static void fix_mmap_threshold(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
}

static void explain(void *context, int32_t pid, const char *text)
{
	(void)context;
	fgt_log(FGT_LOG_WARNING, "sampling", "pid %d: %s", pid, text);
}

static void log_capability(const char *event, bool has_it, const char *why)
{
	if (has_it)
		fgt_log(FGT_LOG_INFO, event, "permitted");
	else
		fgt_log(FGT_LOG_WARNING, event, "not permitted: %s", why);
}

static void log_start(const struct daemon *daemon)
{
	const struct fgt_config *config = daemon->service.config;
	struct fgt_capabilities capabilities;

	fgt_log(FGT_LOG_INFO, "started",
		"fgtrace-agent %s, pid %ld, uid %u, socket %s, config %s, "
		"%d Hz, %d s",
		FGT_VERSION, (long)getpid(), geteuid(), daemon->listener.path,
		config->path ? config->path : "(none)", config->sampling.hz,
		config->ring.seconds);
	fgt_sampler_get_capabilities(daemon->service.sampler, &capabilities);
	/* Asked for by name and refused: procfs tells instead. */
	if (capabilities.has_bpf)
		fgt_log(FGT_LOG_INFO, "bpf", "permitted");
	else
		fgt_log(config->sampling.provider == FGT_PROVIDER_BPF
				? FGT_LOG_WARNING
				: FGT_LOG_INFO,
			"bpf", "not used: %s", capabilities.bpf_why);
	log_capability("perf_cpu", capabilities.has_perf_cpu,
		       capabilities.perf_cpu_why);
	log_capability("perf_thread", capabilities.has_perf_thread,
		       capabilities.perf_thread_why);
	log_capability("ptrace", capabilities.has_ptrace,
		       capabilities.ptrace_why);
}

/* ---- Reload ------------------------------------------------------------ */

/* What was laid down when the rings and the socket were made stays as it is
 * until a restart; the configuration in force says so. */
static void keep_fixed(const struct fgt_config *old, struct fgt_config *new)
{
	if (old->sampling.hz != new->sampling.hz ||
	    old->ring.seconds != new->ring.seconds ||
	    old->ring.memory_mb != new->ring.memory_mb ||
	    old->sampling.max_depth != new->sampling.max_depth ||
	    old->sampling.is_self_included != new->sampling.is_self_included ||
	    old->sampling.provider != new->sampling.provider ||
	    strcmp(old->socket, new->socket) != 0 ||
	    old->symbols.demangle != new->symbols.demangle)
		fgt_log(FGT_LOG_WARNING, "reload",
			"ring.seconds, ring.memory_mb, socket, symbols, "
			"sampling.hz, sampling.max_depth, sampling.who_ran "
			"and sampling.include_self change with a restart only");
	new->sampling.hz = old->sampling.hz; /* rings are laid out for it */
	new->ring.seconds = old->ring.seconds;
	new->ring.memory_mb = old->ring.memory_mb;
	new->sampling.max_depth = old->sampling.max_depth;
	new->sampling.provider = old->sampling.provider;
	new->sampling.is_self_included = old->sampling.is_self_included;
	new->symbols.demangle = old->symbols.demangle;
}

static void reload(struct daemon *daemon)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct fgt_service *service = &daemon->service;
	struct fgt_why why = { "" };
	int r;

	daemon->is_reload_due = daemon->is_reloading;
	if (daemon->is_reloading)
		return;
	r = fgt_config_load(service->config->path, &config, &why);
	if (r < 0) {
		service->reload_failed++;
		service->reload_why = why;
		fgt_log(FGT_LOG_ERROR, "reload_failed",
			"the old configuration stays: %s", why.text);
		return;
	}
	keep_fixed(service->config, config);
	daemon->former = service->config;
	service->config = FGT_TAKE(config);
	fgt_log_set(service->config->log.level, service->config->log.format);
	fgt_sampler_set_max_cpu(service->sampler,
				service->config->sampling.max_cpu_percent);
	daemon->is_reloading = true;
	fgt_jobs_submit(service->jobs, &daemon->rules);
}

static void take_rules(void *context)
{
	struct daemon *daemon = context;

	fgt_targets_set_rules(daemon->service.targets, daemon->service.config);
}

static void rules_taken(void *context)
{
	struct daemon *daemon = context;
	struct fgt_service *service = &daemon->service;

	fgt_config_free(FGT_TAKE(daemon->former));
	daemon->is_reloading = false;
	service->reloads++;
	service->reload_why.text[0] = '\0'; /* the last one did not fail */
	fgt_log(FGT_LOG_INFO, "reloaded", "%s",
		service->config->path ? service->config->path : "(no file)");
	if (daemon->is_reload_due && daemon->leave_ns == 0)
		reload(daemon);
}

/* ---- Leaving ----------------------------------------------------------- */

static void leave_now(struct daemon *daemon, const char *reason)
{
	fgt_log(FGT_LOG_WARNING, "left", "%s", reason);
	fgt_listener_close(&daemon->listener);
	_exit(1); /* threads are still at work: nothing can be freed */
}

/* Clients have their answers, what was being uploaded has arrived; or they
 * have had their time. */
static bool is_everybody_served(struct fgt_service *service, bool is_late)
{
	struct fgt_slices_counters slices;
	struct fgt_deliveries_counters deliveries;

	fgt_slices_get_counters(service->slices, &slices);
	fgt_deliveries_get_counters(service->deliveries, &deliveries);
	if (is_late)
		return slices.active == 0;
	return fgt_control_count(service->control) == 0 &&
	       deliveries.active == 0 && deliveries.waiting == 0;
}

/* Looks again and again. */
static void leave_expired(void *context)
{
	struct daemon *daemon = context;
	struct fgt_service *service = &daemon->service;
	uint64_t waited_ns = fgt_loop_now() - daemon->leave_ns;
	bool is_late = waited_ns >= LEAVE_CANCEL_MS * MS;

	if (is_late)
		fgt_slices_cancel(service->slices);
	if (is_everybody_served(service, is_late)) {
		fgt_loop_stop(service->loop);
		return;
	}
	if (waited_ns >= LEAVE_FORCE_MS * MS)
		leave_now(daemon, "a slice did not end in time");
	fgt_loop_arm(service->loop, &daemon->leave,
		     fgt_loop_now() + LEAVE_LOOK_MS * MS);
}

static void leave(struct daemon *daemon, int number)
{
	if (daemon->leave_ns != 0)
		leave_now(daemon, "told twice");
	daemon->leave_ns = fgt_loop_now();
	(void)alarm(LEAVE_ALARM_S); /* by default it ends the process */
	fgt_log(FGT_LOG_INFO, "leaving", "signal %d (%s)", number,
		strsignal(number));
	fgt_registrations_leave(daemon->service.registrations);
	fgt_control_leave(daemon->service.control);
	fgt_slices_leave(daemon->service.slices);
	fgt_deliveries_leave(daemon->service.deliveries);
	fgt_targets_leave(daemon->service.targets);
	leave_expired(daemon);
}

static void signalled(void *context, int number)
{
	struct daemon *daemon = context;

	if (number != SIGHUP)
		leave(daemon, number);
	else if (daemon->leave_ns == 0)
		reload(daemon);
}

/* ---- Putting it together ----------------------------------------------- */

static void refresh_targets(void *context)
{
	struct daemon *daemon = context;

	fgt_targets_refresh(daemon->service.targets, fgt_loop_now());
}

static void targets_refreshed(void *context)
{
	struct daemon *daemon = context;

	daemon->is_refreshing = false;
	fgt_slices_refresh(daemon->service.slices);
}

static void tick_expired(void *context)
{
	struct daemon *daemon = context;

	if (!daemon->is_refreshing) {
		daemon->is_refreshing = true;
		fgt_jobs_submit(daemon->service.jobs, &daemon->refresh);
	}
	fgt_loop_arm(daemon->service.loop, &daemon->tick,
		     fgt_loop_now() + TICK_MS * MS);
}

static int new_sampler(struct daemon *daemon)
{
	const struct fgt_config *config = daemon->service.config;
	const struct fgt_sampler_options options = {
		.hz = (unsigned int)config->sampling.hz,
		.max_depth = (unsigned int)config->sampling.max_depth,
		.ring = { .seconds = (unsigned int)config->ring.seconds,
			  .size_bytes = (size_t)config->ring.memory_mb << 20 },
		.provider = config->sampling.provider,
		.max_cpu_percent = config->sampling.max_cpu_percent,
		.is_self_included = config->sampling.is_self_included,
		.explain = explain,
	};
	int r = fgt_image_cache_new(&daemon->cache);

	if (r == 0)
		r = fgt_sampler_new(&options, daemon->cache,
				    &daemon->service.sampler);
	return r;
}

static int new_symbolizer(struct daemon *daemon)
{
	const struct fgt_config *config = daemon->service.config;
	const struct fgt_symbolizer_options options = {
		.demangle = config->symbols.demangle,
		.debug_dirs = (const char *const *)config->symbols.debug_dirs,
		.debug_dir_count = config->symbols.debug_dir_count,
		.open_image = fgt_image_open_cached,
		.context = daemon->cache,
	};

	return fgt_symbolizer_new(&options, &daemon->symbolizer);
}

static int new_registrations(struct fgt_service *service)
{
	const struct fgt_registration_calls calls =
		fgt_delivery_verb_calls(service);
	int r = fgt_registrations_new(service, &service->registrations);

	if (r == 0)
		fgt_registrations_set_calls(service->registrations, &calls);
	return r;
}

static int new_parts(struct daemon *daemon)
{
	struct fgt_service *service = &daemon->service;
	const struct fgt_control_options options = {
		.handle = fgt_request_handle,
		.context = service,
	};
	uint64_t kept_s =
		(uint64_t)service->config->ring.seconds + KEPT_EXTRA_S;
	int r = new_sampler(daemon);

	if (r == 0)
		r = new_symbolizer(daemon);
	if (r == 0)
		r = fgt_targets_new(service->sampler, kept_s * 1000 * MS,
				    &service->targets);
	if (r == 0)
		r = fgt_slices_new(service->loop, daemon->symbolizer,
				   &service->slices);
	if (r == 0)
		r = fgt_jobs_new(service->loop, &service->jobs);
	if (r == 0)
		r = fgt_deliveries_new(service->loop, daemon->symbolizer,
				       &service->deliveries);
	if (r == 0)
		r = new_registrations(service);
	if (r == 0)
		r = fgt_control_new(service->loop, &daemon->listener, &options,
				    &service->control);
	return r;
}

static void daemon_done(struct daemon *daemon)
{
	struct fgt_service *service = &daemon->service;

	/* The name goes first, under the lock: a client that comes now is
	 * told that there is no agent. */
	fgt_listener_close(&daemon->listener);
	/* Both give their clients back. */
	fgt_jobs_free(service->jobs);
	fgt_slices_free(service->slices);
	fgt_control_free(service->control);
	fgt_registrations_free(service->registrations);
	fgt_deliveries_free(service->deliveries);
	if (service->sampler)
		fgt_sampler_stop(service->sampler);
	fgt_targets_free(service->targets);
	fgt_sampler_free(service->sampler);
	fgt_symbolizer_free(daemon->symbolizer);
	fgt_image_cache_free(daemon->cache);
	fgt_loop_free(service->loop);
	fgt_config_free(service->config);
}

static int daemon_init(struct daemon *daemon, const char *socket_path,
		       struct fgt_why *why)
{
	struct fgt_service *service = &daemon->service;
	int r = fgt_loop_new(&service->loop);

	if (r == 0)
		r = fgt_loop_take_signals(service->loop, signalled, daemon);
	if (r < 0)
		return fgt_why_set(why, r, "cannot make the event loop: %s",
				   strerror(-r));
	r = fgt_listener_open(socket_path, &daemon->listener, why);
	if (r < 0)
		return r;
	service->socket_path = daemon->listener.path;
	r = new_parts(daemon);
	if (r == 0)
		r = fgt_sampler_start(service->sampler);
	if (r < 0)
		return fgt_why_set(why, r, "cannot start sampling: %s",
				   strerror(-r));
	return 0;
}

static int run(struct daemon *daemon, struct fgt_why *why)
{
	struct fgt_service *service = &daemon->service;
	struct fgt_slices_counters slices;
	int r;

	service->started_ns = fgt_loop_now();
	log_start(daemon);
	/* Here, not as an job: who gets an answer finds them sampled. */
	fgt_targets_set_rules(service->targets, service->config);
	tick_expired(daemon);
	r = fgt_loop_run(service->loop);
	if (r < 0)
		return fgt_why_set(why, r, "the event loop failed: %s",
				   strerror(-r));
	fgt_slices_get_counters(service->slices, &slices);
	fgt_log(FGT_LOG_INFO, "left", "%llu slices served",
		(unsigned long long)slices.served);
	return 0;
}

int fgt_daemon_run(struct fgt_config *config, const char *socket_flag,
		   struct fgt_why *why)
{
	struct daemon daemon = {
		.service = { .config = config },
		.listener = { .fd = -1, .lock_fd = -1, .spare_fd = -1 },
		.tick = { .expired = tick_expired, .context = &daemon },
		.leave = { .expired = leave_expired, .context = &daemon },
		.refresh = { .run = refresh_targets,
			     .done = targets_refreshed,
			     .context = &daemon },
		.rules = { .run = take_rules,
			   .done = rules_taken,
			   .context = &daemon },
	};
	int r = open_standard_descriptors(why);

	fix_mmap_threshold();
	fgt_log_set(config->log.level, config->log.format);
	if (r == 0)
		r = daemon_init(&daemon,
				socket_flag ? socket_flag : config->socket,
				why);
	if (r == 0)
		r = run(&daemon, why);
	daemon_done(&daemon);
	(void)alarm(0);
	return r;
}
