/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at targets for their triggers. Runs as a job; reads the CPU clock of a
 * process, and cuts the newest part of a ring without names, for conditions on
 * the states of threads. Must not fire anything itself.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/capture/look/state_name.h"
#include "agent/capture/threads/process.h"
#include "agent/daemon/programs/registration.h"
#include "agent/daemon/triggers/trigger.h"
#include "ringbuf/base/clock.h"

#define PROCESS_CLOCK 2u /* CPUCLOCK_SCHED, see clock_getcpuclockid(3) */
#define NS(seconds)   ((uint64_t)((seconds)*1e9))
/* A look at the ring takes in a quarter of the time again. */
#define LOOKS_IN_STRETCH 4
#define SETTLED_NS	 UINT64_C(50000000) /* the newest ticks may change */
#define DEADLOCK_NS	 UINT64_C(500000000)
#define DEADLOCK	 "a deadlock of "

/* A look at one target. */
struct look {
	struct fgt_triggers *triggers;
	struct fgt_target *target;
	uint64_t now_ns;
};

/* What a condition has found. */
struct finding {
	uint64_t at_ns;
	int32_t tid;
	char cause[FGT_DELIVERY_CAUSE + 1];
};

/* ---- Watches ------------------------------------------------------------- */

static void free_watch(struct fgt_trigger_watch *watch)
{
	fgt_fd_close(watch->pid_fd);
	fgt_target_put(watch->target);
	free(watch);
}

/* A target that is no longer there keeps its ring no longer. */
void fgt_trigger_drop_watches(struct fgt_trigger *trigger, bool unseen_only)
{
	struct fgt_trigger_watch **place = &trigger->watches;

	while (*place) {
		struct fgt_trigger_watch *watch = *place;

		if (unseen_only && watch->is_seen) {
			place = &watch->next;
			continue;
		}
		*place = watch->next;
		free_watch(watch);
	}
}

/* -1: it has ended. */
static int open_process(const struct fgt_target *target)
{
	struct fgt_process process;
	struct fgt_why why;
	int fd = -1;

	if (fgt_process_open(fgt_target_pid(target), &process, &why) < 0)
		return fd;
	if (process.start_time == fgt_target_start_time(target))
		fd = FGT_TAKE_FD(process.pidfd);
	fgt_process_close(&process);
	return fd;
}

/* NULL: there is none yet. */
static struct fgt_trigger_watch *find_watch(const struct look *look,
					    const struct fgt_trigger *trigger)
{
	struct fgt_trigger_watch *watch = trigger->watches;

	while (watch && watch->target != look->target)
		watch = watch->next;
	return watch;
}

static struct fgt_trigger_watch *add_watch(const struct look *look,
					   struct fgt_trigger *trigger)
{
	struct fgt_trigger_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->target = fgt_target_get(look->target);
	watch->pid_fd =
		trigger->rule->when.is_killed ? open_process(look->target) : -1;
	watch->next = trigger->watches;
	trigger->watches = watch;
	return watch;
}

/* ---- Conditions ---------------------------------------------------------- */

static bool read_cpu(const struct fgt_target *target, uint64_t *ret_ns)
{
	unsigned int pid = (unsigned int)fgt_target_pid(target);
	struct timespec cpu;

	if (clock_gettime((clockid_t)(~pid << 3 | PROCESS_CLOCK), &cpu) < 0 ||
	    !fgt_target_is_alive(target))
		return false;
	*ret_ns = fgt_timespec_ns(&cpu);
	return true;
}

static bool uses_cpu(const struct look *look, struct fgt_trigger_watch *watch,
		     const struct fgt_config_trigger *rule,
		     struct finding *finding)
{
	double percent;

	if (!fgt_trigger_cpu_percent(&watch->cpu, NS(rule->when.for_s),
				     &percent) ||
	    percent <= rule->when.cpu_percent)
		return false;
	finding->at_ns = look->now_ns;
	snprintf(finding->cause, sizeof(finding->cause),
		 "%.1f %% of a core in the last %g s", percent,
		 rule->when.for_s);
	return true;
}

/* The part of its ring since from_ns, with names of states. */
static int cut(const struct look *look, uint64_t from_ns,
	       struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r = fgt_ring_cut(fgt_target_ring(look->target), from_ns,
			     look->now_ns, &slice);

	if (r == 0)
		r = fgt_slice_name_states(slice, fgt_state_name);
	if (r == 0)
		*ret_slice = FGT_TAKE(slice);
	return r;
}

/* A thread that waits for a CPU does not sleep: the ring shows that. */
static bool is_asleep(const struct look *look, struct fgt_trigger_watch *watch,
		      const struct fgt_config_trigger *rule,
		      struct finding *finding)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t ns = NS(rule->when.asleep_s);
	uint64_t rests_ns = look->now_ns - watch->cpu.rests_since_ns;

	if (watch->cpu.count < 2 || rests_ns < ns)
		return false;
	finding->at_ns = look->now_ns;
	snprintf(finding->cause, sizeof(finding->cause),
		 "all threads have slept for %.1f s", (double)rests_ns / 1e9);
	/* Once an episode. */
	if (watch->is_true)
		return true;
	return cut(look, look->now_ns - ns, &slice) == 0 &&
	       !fgt_trigger_is_busy(slice, look->now_ns - ns + SETTLED_NS);
}

/* From where a look at the ring must begin; false: it is too early for the next
 * one. */
static bool is_look_due(const struct look *look,
			struct fgt_trigger_watch *watch, uint64_t longer_ns,
			uint64_t *ret_from_ns)
{
	uint64_t from_ns = watch->looked_ns ? watch->looked_ns : look->now_ns;

	if (watch->looked_ns &&
	    look->now_ns - watch->looked_ns < longer_ns / LOOKS_IN_STRETCH)
		return false;
	watch->looked_ns = look->now_ns;
	from_ns = from_ns > longer_ns + SETTLED_NS
			  ? from_ns - longer_ns - SETTLED_NS
			  : 0;
	*ret_from_ns = from_ns;
	return true;
}

static bool is_in_state(const struct look *look,
			struct fgt_trigger_watch *watch,
			const struct fgt_config_trigger *rule,
			struct finding *finding)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_trigger_state wanted = {
		.state = rule->when.state,
		.thread = rule->when.thread,
		.longer_ns = NS(rule->when.longer_s),
	};
	struct fgt_trigger_stretch stretch;
	uint64_t from_ns;

	if (!is_look_due(look, watch, wanted.longer_ns, &from_ns))
		return watch->is_true;
	if (cut(look, from_ns, &slice) < 0 ||
	    !fgt_trigger_find_state(slice, &wanted, &stretch))
		return false;
	finding->at_ns = stretch.to_ns;
	finding->tid = stretch.tid;
	snprintf(finding->cause, sizeof(finding->cause),
		 "thread %d (%s) was in %s for %.1f s or longer", stretch.tid,
		 stretch.thread, stretch.state,
		 (double)(stretch.to_ns - stretch.from_ns) / 1e9);
	return true;
}

static bool is_starved(const struct look *look, struct fgt_trigger_watch *watch,
		       const struct fgt_config_trigger *rule,
		       struct finding *finding)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t longer_ns = NS(rule->when.starved_s), from_ns;
	struct fgt_trigger_stretch stretch;

	if (!is_look_due(look, watch, longer_ns, &from_ns))
		return watch->is_true;
	if (cut(look, from_ns, &slice) < 0 ||
	    !fgt_trigger_find_starved(slice, longer_ns, &stretch))
		return false;
	finding->at_ns = stretch.to_ns;
	snprintf(finding->cause, sizeof(finding->cause),
		 "no thread ran for %.1f s or longer, though one was runnable",
		 (double)(stretch.to_ns - stretch.from_ns) / 1e9);
	return true;
}

static bool is_deadlocked(const struct look *look,
			  struct fgt_trigger_watch *watch,
			  struct finding *finding)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	char threads[sizeof(finding->cause) - sizeof(DEADLOCK)];
	struct fgt_target_status status;
	uint64_t from_ns;

	if (!is_look_due(look, watch, DEADLOCK_NS, &from_ns))
		return watch->is_true;
	fgt_target_get_status(look->target, &status);
	from_ns = look->now_ns - DEADLOCK_NS - 2 * SETTLED_NS;
	if (status.effective_hz > 0) /* with a tick at each end */
		from_ns -= NS(2 / status.effective_hz);
	if (cut(look, from_ns, &slice) < 0 ||
	    slice->tick_ns[slice->tick_count - 1] - slice->tick_ns[0] <
		    DEADLOCK_NS)
		return watch->is_true; /* not known */
	if (!fgt_trigger_find_deadlock(slice, &finding->tid, threads,
				       sizeof(threads)))
		return false;
	finding->at_ns = look->now_ns;
	snprintf(finding->cause, sizeof(finding->cause), DEADLOCK "%s",
		 threads);
	return true;
}

/* An end stays true. Limits that forbid its slice at that time forbid it later,
 * too. */
static bool was_killed(const struct look *look, struct fgt_trigger_watch *watch,
		       struct finding *finding)
{
	struct fgt_target_status status;
	char name[24];

	if (watch->pid_fd < 0)
		return false;
	if (watch->death.kind == FGT_DEATH_NOT_YET)
		fgt_death_look(watch->pid_fd, fgt_target_pid(watch->target),
			       fgt_target_start_time(watch->target),
			       &watch->death);
	if (watch->death.kind != FGT_DEATH_SIGNAL ||
	    fgt_death_is_asked_for(&watch->death))
		return false;
	if (watch->is_served || watch->is_suppressed)
		return true;
	fgt_target_get_status(watch->target, &status);
	fgt_death_name(&watch->death, name, sizeof(name));
	finding->at_ns = status.ended_ns ? status.ended_ns : look->now_ns;
	snprintf(finding->cause, sizeof(finding->cause),
		 "the process was ended by %s", name);
	return true;
}

static bool is_true(const struct look *look, struct fgt_trigger_watch *watch,
		    const struct fgt_config_trigger *rule,
		    struct finding *finding)
{
	uint64_t cpu_ns;

	if (rule->when.is_killed)
		return was_killed(look, watch, finding);
	if (!fgt_target_is_alive(look->target))
		return false;
	if (rule->when.state)
		return is_in_state(look, watch, rule, finding);
	if (rule->when.starved_s > 0)
		return is_starved(look, watch, rule, finding);
	if (rule->when.is_deadlocked)
		return is_deadlocked(look, watch, finding);
	if (rule->when.cpu_percent <= 0 && rule->when.asleep_s <= 0)
		return false; /* it waits for an event */
	if (!read_cpu(look->target, &cpu_ns))
		return false;
	fgt_trigger_cpu_add(&watch->cpu, look->now_ns, cpu_ns,
			    NS(rule->when.for_s));
	return rule->when.asleep_s > 0 ? is_asleep(look, watch, rule, finding)
				       : uses_cpu(look, watch, rule, finding);
}

/* ---- What fires ---------------------------------------------------------- */

void fgt_trigger_firing_free(struct fgt_trigger_firing *firing)
{
	fgt_target_put(firing->target);
	free(firing);
}

/* What finds no room is found again by the next look, unless it is of an
 * event, which counts it. */
static void add_firing(const struct look *look, size_t trigger,
		       struct fgt_trigger_watch *watch,
		       struct fgt_trigger_event *event,
		       const struct finding *finding)
{
	struct fgt_triggers *triggers = look->triggers;
	struct fgt_trigger_firing *firing = NULL;

	if (triggers->firing_count < FGT_TRIGGER_FIRINGS_MAX)
		firing = calloc(1, sizeof(*firing));
	if (!firing) {
		if (event)
			event->failed++;
		return;
	}
	triggers->firing_count++;
	firing->trigger = trigger;
	firing->watch = watch;
	firing->event = event;
	firing->target = fgt_target_get(look->target);
	firing->at_ns = finding->at_ns;
	firing->tid = finding->tid;
	memcpy(firing->cause, finding->cause, sizeof(firing->cause));
	STAILQ_INSERT_TAIL(&triggers->firings, firing, link);
}

static void look_at_watch(const struct look *look, size_t trigger,
			  struct fgt_trigger_watch *watch)
{
	struct finding finding = { .at_ns = 0 };

	watch->is_seen = true;
	watch->is_true = is_true(look, watch, look->triggers->all[trigger].rule,
				 &finding);
	if (!watch->is_true)
		watch->is_served = watch->is_suppressed = watch->has_failed =
			false;
	/* Without an instant it was not looked at again. */
	else if (!watch->is_served && finding.at_ns != 0)
		add_firing(look, trigger, watch, NULL, &finding);
}

static void look_at_events(const struct look *look, size_t trigger)
{
	struct fgt_trigger_event *event;

	STAILQ_FOREACH(event, &look->triggers->events, link) {
		struct finding finding = { .at_ns = event->at_ns };

		if (event->trigger != trigger ||
		    (event->target && event->target != look->target) ||
		    (!event->target && !fgt_target_is_alive(look->target)))
			continue;
		memcpy(finding.cause, event->cause, sizeof(finding.cause));
		add_firing(look, trigger, NULL, event, &finding);
	}
}

static bool applies_to(const struct fgt_config_trigger *trigger,
		       const struct fgt_target *target)
{
	const struct fgt_config_target rule = {
		.pid = trigger->pid,
		.name = trigger->target,
		.exe = trigger->exe,
		.cgroup = trigger->cgroup,
	};
	bool is_any = !rule.pid && !rule.name && !rule.exe && !rule.cgroup;

	return is_any || fgt_targets_is_match(&rule, target);
}

/* The end of a process is looked into although its cgroup is gone. */
static void look_at_trigger(const struct look *look, size_t index)
{
	struct fgt_trigger *trigger = &look->triggers->all[index];
	struct fgt_trigger_watch *watch = find_watch(look, trigger);
	bool is_alive = fgt_target_is_alive(look->target);

	if (!(watch && !is_alive) && !applies_to(trigger->rule, look->target))
		return;
	if (is_alive)
		atomic_fetch_add_explicit(&trigger->targets, 1,
					  memory_order_relaxed);
	look_at_events(look, index);
	if (!watch)
		watch = add_watch(look, trigger);
	if (watch)
		look_at_watch(look, index, watch);
}

static void look_at_target(void *context, struct fgt_target *target)
{
	struct fgt_triggers *triggers = context;
	const struct look look = { .triggers = triggers,
				   .target = target,
				   .now_ns = fgt_loop_now() };

	for (size_t i = 0; i < triggers->count; i++)
		look_at_trigger(&look, i);
}

void fgt_triggers_run_look(void *context)
{
	struct fgt_triggers *triggers = context;
	uint64_t began_ns = fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (size_t i = 0; i < triggers->count; i++) {
		struct fgt_trigger_watch *watch = triggers->all[i].watches;

		for (; watch; watch = watch->next)
			watch->is_seen = false;
		atomic_store_explicit(&triggers->all[i].targets, 0,
				      memory_order_relaxed);
	}
	fgt_trigger_files_watch(triggers);
	fgt_targets_for_each(triggers->targets, look_at_target, triggers);
	for (size_t i = 0; i < triggers->count; i++)
		fgt_trigger_drop_watches(&triggers->all[i], true);
	atomic_fetch_add_explicit(&triggers->look_ns,
				  fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) -
					  began_ns,
				  memory_order_relaxed);
}
