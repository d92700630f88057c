/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the daemon together, runs it, reloads it, takes it apart. Runs in the
 * main thread; must leave within five seconds of SIGTERM, whatever its clients
 * and threads are doing.
 */
#include "agent/daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/continuous/continuous.h"
#include "agent/daemon/fixed_settings.h"
#include "agent/daemon/http/http_service.h"
#include "agent/daemon/loop/aside.h"
#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/loop.h"
#include "agent/daemon/recorder.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/socket/listener.h"
#include "agent/daemon/spool/spooler.h"
#include "agent/daemon/status.h"
#include "agent/daemon/surroundings.h"
#include "agent/daemon/targets/targets.h"
#include "agent/daemon/triggers/triggers.h"
#include "agent/daemon/watch.h"

#define MS		UINT64_C(1000000)
#define TICK_MS		1000
#define LEAVE_LOOK_MS	20
#define LEAVE_CANCEL_MS 3500 /* then slices at work are broken off */
#define LEAVE_FORCE_MS	4500 /* then the process ends as it is */
#define LEAVE_ALARM_S	5 /* the same if the loop no longer runs */
/* A ring is kept ring.seconds and this after its process has ended. */
#define KEPT_EXTRA_S 60

struct daemon {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs;
	struct fgt_sampler *sampler;
	struct fgt_targets *targets;
	struct fgt_slices *slices;
	struct fgt_deliveries *deliveries;
	struct fgt_spooler *spooler;
	struct fgt_registrations *registrations;
	struct fgt_triggers *triggers;
	struct fgt_continuous *continuous;
	struct fgt_control *control;
	struct fgt_web_service *http;
	struct fgt_config *config; /* in force */
	struct fgt_watchdog *watchdog;
	struct fgt_watched_parts watched;
	struct fgt_notify notify; /* the service manager */
	struct fgt_listener listener;
	struct fgt_slice_verb slice_verb;
	struct fgt_daemon_status status;
	struct fgt_control_verb verbs[FGT_REQUEST_VERBS];
	struct fgt_image_cache *cache;
	struct fgt_symbolizer *symbolizer;
	struct fgt_timer tick, leave;
	struct fgt_job refresh, rules;
	bool is_refreshing, is_reloading; /* the job is on its way */
	bool is_reload_due; /* SIGHUP came meanwhile */
	struct fgt_config *former; /* until the new rules are taken over */
	uint64_t kept_ns; /* a ring after its process has ended */
	uint64_t leave_ns; /* since when, 0: not yet */
};

/* ---- Reload ------------------------------------------------------------ */

static void reload(struct daemon *daemon)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct fgt_why why = { "" };
	int r;

	daemon->is_reload_due = daemon->is_reloading;
	if (daemon->is_reloading)
		return;
	fgt_notify_reloading(&daemon->notify, fgt_loop_now());
	r = fgt_config_load(daemon->config->path, &config, &why);
	if (r < 0) {
		fgt_notify_send(&daemon->notify, "READY=1");
		daemon->status.reload_failed++;
		daemon->status.reload_why = why;
		fgt_log(FGT_LOG_ERROR, "reload_failed",
			"the old configuration stays: %s", why.text);
		return;
	}
	fgt_settings_keep_fixed(daemon->config, config);
	daemon->former = daemon->config;
	daemon->config = FGT_TAKE(config);
	fgt_log_set(daemon->config->log.level, daemon->config->log.format);
	fgt_sampler_set_max_cpu(daemon->sampler,
				daemon->config->sampling.max_cpu_percent);
	daemon->is_reloading = true;
	fgt_triggers_hold(daemon->triggers);
	fgt_jobs_submit(daemon->jobs, &daemon->rules);
}

static void take_rules(void *context)
{
	struct daemon *daemon = context;

	fgt_targets_set_rules(daemon->targets, daemon->config);
}

/* No look is under way: looks begin before a reload or after it. */
static void set_looks(struct daemon *daemon)
{
	int r = fgt_triggers_set_rules(daemon->triggers, daemon->config);

	fgt_continuous_set_rules(daemon->continuous, daemon->config);
	if (r < 0)
		fgt_log(FGT_LOG_ERROR, "triggers",
			"not all triggers can fire: %s: free memory or raise "
			"fs.inotify.max_user_instances, then reload",
			strerror(-r));
}

static void rules_taken(void *context)
{
	struct daemon *daemon = context;

	if (daemon->rules.is_lost) { /* in a process that it leaves out now */
		fgt_jobs_submit(daemon->jobs, &daemon->rules);
		return;
	}
	set_looks(daemon); /* last chunks go to the former destinations */
	fgt_deliveries_configure(daemon->deliveries, daemon->config);
	fgt_spooler_configure(daemon->spooler, daemon->config);
	fgt_config_free(FGT_TAKE(daemon->former));
	daemon->is_reloading = false;
	daemon->status.reloads++;
	fgt_notify_send(&daemon->notify, "READY=1");
	daemon->status.reload_why.text[0] =
		'\0'; /* the last one did not fail */
	fgt_log(FGT_LOG_INFO, "reloaded", "%s",
		daemon->config->path ? daemon->config->path : "(no file)");
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

/* All clients have their replies and all uploads have ended. When it is late,
 * only slices at work count. */
static bool are_clients_served(struct daemon *daemon, bool is_late)
{
	struct fgt_slices_counters slices;
	struct fgt_deliveries_counters deliveries;

	fgt_slices_get_counters(daemon->slices, &slices);
	fgt_deliveries_get_counters(daemon->deliveries, &deliveries);
	if (is_late)
		return slices.active == 0;
	return fgt_control_count(daemon->control) == 0 &&
	       fgt_continuous_is_idle(daemon->continuous) &&
	       deliveries.active == 0 && deliveries.waiting == 0 &&
	       fgt_spooler_is_idle(daemon->spooler);
}

/* Repeats until the daemon may leave. */
static void leave_expired(void *context)
{
	struct daemon *daemon = context;
	uint64_t waited_ns = fgt_loop_now() - daemon->leave_ns;
	bool is_late = waited_ns >= LEAVE_CANCEL_MS * MS;

	if (is_late)
		fgt_slices_cancel(daemon->slices);
	if (are_clients_served(daemon, is_late)) {
		fgt_loop_stop(daemon->loop);
		return;
	}
	if (waited_ns >= LEAVE_FORCE_MS * MS)
		leave_now(daemon, "a slice did not end in time");
	fgt_loop_arm(daemon->loop, &daemon->leave,
		     fgt_loop_now() + LEAVE_LOOK_MS * MS);
}

static void leave(struct daemon *daemon, int number)
{
	if (daemon->leave_ns != 0)
		leave_now(daemon, "a second signal came");
	daemon->leave_ns = fgt_loop_now();
	fgt_notify_send(&daemon->notify, "STOPPING=1\nSTATUS=leaving");
	(void)alarm(LEAVE_ALARM_S); /* by default it ends the process */
	fgt_log(FGT_LOG_INFO, "leaving", "signal %d (%s)", number,
		strsignal(number));
	fgt_children_leave();
	fgt_registrations_leave(daemon->registrations);
	fgt_triggers_leave(daemon->triggers);
	fgt_continuous_leave(daemon->continuous);
	fgt_web_service_leave(daemon->http);
	fgt_control_leave(daemon->control);
	fgt_slices_leave(daemon->slices);
	fgt_deliveries_leave(daemon->deliveries);
	fgt_spooler_leave(daemon->spooler);
	fgt_targets_leave(daemon->targets);
	leave_expired(daemon);
}

static void signalled(void *context, int number)
{
	struct daemon *daemon = context;

	if (number == SIGUSR1 || number == SIGUSR2) {
		if (fgt_triggers_signal(daemon->triggers, number))
			return;
		fgt_log(FGT_LOG_WARNING, "signal",
			"SIG%s is ignored: SIGHUP reloads the configuration, "
			"SIGTERM ends the agent",
			sigabbrev_np(number));
	} else if (number != SIGHUP)
		leave(daemon, number);
	else if (daemon->leave_ns == 0)
		reload(daemon);
}

/* ---- Putting it together ----------------------------------------------- */

static void refresh_targets(void *context)
{
	struct daemon *daemon = context;

	fgt_targets_refresh(daemon->targets, fgt_loop_now());
	fgt_image_cache_tend(daemon->cache, fgt_loop_now(), daemon->kept_ns);
}

static void targets_refreshed(void *context)
{
	struct daemon *daemon = context;

	daemon->is_refreshing = false;
	fgt_slices_refresh(daemon->slices);
	fgt_daemon_status_watch(&daemon->status);
}

static void tick_expired(void *context)
{
	struct daemon *daemon = context;

	fgt_control_tend(daemon->control);
	if (!daemon->is_refreshing) {
		daemon->is_refreshing = true;
		fgt_jobs_submit(daemon->jobs, &daemon->refresh);
	}
	fgt_triggers_look(daemon->triggers);
	if (!daemon->is_reloading)
		fgt_continuous_look(daemon->continuous);
	fgt_loop_arm(daemon->loop, &daemon->tick,
		     fgt_loop_now() + TICK_MS * MS);
}

/* The one table of verbs. */
static int new_control(struct daemon *daemon)
{
	const struct fgt_control_verb verbs[FGT_REQUEST_VERBS] = {
		[FGT_REQUEST_ATTACH] = { fgt_target_verb_attach,
					 daemon->targets },
		[FGT_REQUEST_DETACH] = { fgt_target_verb_detach,
					 daemon->targets },
		[FGT_REQUEST_TARGETS] = { fgt_target_list_handle,
					  daemon->targets },
		[FGT_REQUEST_SLICE] = { fgt_slice_verb_handle,
					&daemon->slice_verb },
		[FGT_REQUEST_STATUS] = { fgt_daemon_status_handle,
					 &daemon->status },
		[FGT_REQUEST_REGISTER] = { fgt_registrations_handle,
					   daemon->registrations },
		[FGT_REQUEST_TRIGGERS] = { fgt_triggers_handle,
					   daemon->triggers },
	};
	const struct fgt_control_options options = {
		.handle = fgt_control_dispatch,
		.context = daemon->verbs,
	};
	int r = fgt_control_new(daemon->loop, &daemon->listener, &options,
				&daemon->control);

	memcpy(daemon->verbs, verbs, sizeof(verbs));
	daemon->slice_verb = (struct fgt_slice_verb){
		.slices = daemon->slices,
		.targets = daemon->targets,
	};
	daemon->status = (struct fgt_daemon_status){
		.config = &daemon->config,
		.sampler = daemon->sampler,
		.cache = daemon->cache,
		.control = daemon->control,
		.targets = daemon->targets,
		.slices = daemon->slices,
		.registrations = daemon->registrations,
		.deliveries = daemon->deliveries,
		.spooler = daemon->spooler,
		.socket_path = daemon->listener.path,
	};
	return r;
}

static int new_parts(struct daemon *daemon)
{
	int r = fgt_recorder_new_sampler(daemon->config, &daemon->cache,
					 &daemon->sampler);

	daemon->kept_ns = (daemon->config->ring.seconds + KEPT_EXTRA_S) *
			  UINT64_C(1000) * MS;
	if (r == 0)
		r = fgt_recorder_new_symbolizer(daemon->config, daemon->cache,
						&daemon->symbolizer);
	if (r == 0)
		r = fgt_jobs_new_watched(daemon->loop, "thread of jobs",
					 &daemon->jobs);
	if (r == 0)
		r = fgt_targets_new(daemon->sampler, daemon->jobs,
				    daemon->kept_ns, &daemon->targets);
	if (r == 0)
		r = fgt_slices_new(daemon->loop, daemon->symbolizer,
				   &daemon->slices);
	if (r == 0)
		r = fgt_deliveries_new(daemon->loop, daemon->symbolizer,
				       &daemon->deliveries);
	if (r == 0) {
		fgt_deliveries_configure(daemon->deliveries, daemon->config);
		r = fgt_spooler_new(daemon->loop, daemon->deliveries,
				    daemon->config, &daemon->spooler);
	}
	if (r == 0)
		r = fgt_registrations_new(daemon->loop, daemon->jobs,
					  daemon->targets, daemon->deliveries,
					  &daemon->config,
					  &daemon->registrations);
	if (r == 0)
		r = fgt_triggers_new(daemon->loop, daemon->jobs,
				     daemon->targets, daemon->deliveries,
				     &daemon->triggers);
	if (r == 0)
		r = fgt_continuous_new(daemon->jobs, daemon->targets,
				       daemon->deliveries, &daemon->continuous);
	if (r == 0)
		fgt_registrations_watch(daemon->registrations,
					fgt_triggers_transaction,
					daemon->triggers);
	return r < 0 ? r : new_control(daemon);
}

static void daemon_done(struct daemon *daemon)
{
	/* The name goes first, under the lock: a client that comes now
	 * finds no agent. */
	fgt_listener_close(&daemon->listener);
	/* Both return the clients that they hold. */
	fgt_jobs_stop(daemon->jobs);
	fgt_triggers_free(daemon->triggers);
	fgt_continuous_free(daemon->continuous);
	fgt_slices_free(daemon->slices);
	fgt_web_service_free(daemon->http);
	fgt_control_free(daemon->control);
	fgt_registrations_free(daemon->registrations);
	fgt_deliveries_free(daemon->deliveries);
	fgt_spooler_free(daemon->spooler);
	if (daemon->sampler)
		fgt_sampler_stop(daemon->sampler);
	fgt_aside_stop();
	fgt_watchdog_free(daemon->watchdog);
	fgt_aside_end();
	fgt_jobs_free(daemon->jobs);
	fgt_notify_close(&daemon->notify);
	fgt_targets_free(daemon->targets);
	fgt_sampler_free(daemon->sampler);
	fgt_symbolizer_free(daemon->symbolizer);
	fgt_image_cache_free(daemon->cache);
	fgt_children_done();
	fgt_loop_free(daemon->loop);
	fgt_config_free(daemon->config);
}

static int serve_http(struct daemon *daemon, struct fgt_why *why)
{
	const struct fgt_web_service_options options = {
		.loop = daemon->loop,
		.control = daemon->control,
		.config = daemon->config,
		.socket_path = daemon->listener.path,
		.verbs = daemon->verbs,
	};
	int r = fgt_web_service_new(&options, &daemon->http, why);

	daemon->status.http = daemon->http;
	return r;
}

static int daemon_init(struct daemon *daemon, const char *socket_path,
		       struct fgt_why *why)
{
	int r = fgt_loop_new(&daemon->loop);

	if (r == 0)
		r = fgt_loop_take_signals(daemon->loop, signalled, daemon);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot make the event loop: %s: raise "
				   "LimitNOFILE= or ulimit -n",
				   strerror(-r));
	r = fgt_listener_open(socket_path, fgt_is_default_socket(socket_path),
			      &daemon->listener, why);
	if (r < 0)
		return r;
	r = fgt_aside_begin(daemon->loop);
	r = r < 0 ? r : new_parts(daemon);
	daemon->watched =
		(struct fgt_watched_parts){ .sampler = daemon->sampler,
					    .jobs = daemon->jobs };
	if (r == 0)
		r = fgt_sampler_start(daemon->sampler);
	if (r == 0)
		r = fgt_daemon_watch(&daemon->watched, &daemon->notify,
				     &daemon->watchdog);
	daemon->status.watchdog = daemon->watchdog;
	if (r == 0 && daemon->config->http.listen)
		return serve_http(daemon, why);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot start sampling: %s: free memory "
				   "or raise TasksMax=",
				   strerror(-r));
	return 0;
}

static int run(struct daemon *daemon, struct fgt_why *why)
{
	struct fgt_slices_counters slices;
	int r;

	daemon->status.started_ns = fgt_loop_now();
	fgt_daemon_status_log(&daemon->status);
	/* Before the first request: configured targets are sampled then. */
	(void)fgt_jobs_ask(daemon->jobs, &daemon->rules, 0);
	set_looks(daemon);
	tick_expired(daemon);
	fgt_notify_send(&daemon->notify, "READY=1\nSTATUS=sampling");
	r = fgt_loop_run(daemon->loop);
	if (r < 0)
		return fgt_why_set(why, r,
				   "the event loop failed: %s: start the "
				   "agent again",
				   strerror(-r));
	fgt_slices_get_counters(daemon->slices, &slices);
	fgt_log(FGT_LOG_INFO, "left", "%llu slices served",
		(unsigned long long)slices.served);
	return 0;
}

int fgt_daemon_run(struct fgt_config *config, const char *socket_flag,
		   struct fgt_why *why)
{
	struct daemon daemon = {
		.config = config,
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
	int r = fgt_surroundings_prepare(config->sampling.is_self_included,
					 why);

	fgt_notify_open(&daemon.notify);
	fgt_log_set(config->log.level, config->log.format);
	fgt_children_begin();
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
