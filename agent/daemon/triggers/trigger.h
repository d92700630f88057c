/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: the state of triggers. A job has it while is_looking,
 * else the loop; rules change only in between, and events wait in the loop's
 * list meanwhile.
 */
#ifndef FGT_AGENT_DAEMON_TRIGGERS_TRIGGER_H
#define FGT_AGENT_DAEMON_TRIGGERS_TRIGGER_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "agent/daemon/loop/loop.h"
#include "agent/daemon/programs/registration.h"
#include "agent/daemon/triggers/condition.h"
#include "agent/daemon/triggers/triggers.h"

#define FGT_TRIGGER_EVENTS_MAX	32 /* that wait */
#define FGT_TRIGGER_FIRINGS_MAX 64 /* of one look */
#define FGT_TRIGGER_PATH_MAX	4096

struct fgt_trigger {
	const struct fgt_config_trigger *rule;
	char name[FGT_TRIGGER_NAME_MAX + 1];
	struct fgt_trigger_limit limit;
	uint64_t fired, suppressed, failed;
	uint64_t last_ns, last_wall_ns;
	int32_t last_pid;
	char last_cause[FGT_DELIVERY_CAUSE + 1];
	atomic_size_t targets; /* that the last look applied it to; relaxed */
	struct fgt_trigger_watch *watches;
	/* inotify's number of the file's directory, -1. Relaxed: set by a job,
	 * compared and taken back by the loop. */
	atomic_int directory;
	bool is_directory_logged;
};

/* A trigger and a target that it applies to. */
struct fgt_trigger_watch {
	struct fgt_trigger_watch *next; /* of the same trigger */
	struct fgt_target *target; /* a reference */
	bool is_seen; /* mark of a look */
	struct fgt_trigger_cpu cpu;
	uint64_t looked_ns; /* at the ring up to then; 0: not yet */
	int pid_fd; /* of the process, for its end; -1 */
	struct fgt_death death; /* once it has been looked into */
	/* An episode begins when the condition comes true, and ends when it is
	 * true no more. It gets one slice at most; one that found no room is
	 * tried again by each look. */
	bool is_true, is_served, is_suppressed, has_failed;
};

enum fgt_trigger_event_kind {
	FGT_TRIGGER_OCCURRED, /* a signal, a file, a transaction */
	FGT_TRIGGER_TRIED, /* by the verb */
};

/* Whether the limits let an event through: asked once for all its targets. */
enum fgt_trigger_verdict {
	FGT_TRIGGER_UNDECIDED,
	FGT_TRIGGER_ADMITTED, /* and taken from the limits, if it fired */
	FGT_TRIGGER_REFUSED,
};

/* What fires a trigger at once. */
struct fgt_trigger_event {
	STAILQ_ENTRY(fgt_trigger_event) link;
	enum fgt_trigger_event_kind kind;
	size_t trigger;
	struct fgt_target *target; /* a reference; NULL: all that match */
	uint64_t at_ns;
	char cause[FGT_DELIVERY_CAUSE + 1];
	struct fgt_control_client
		*client; /* of the verb; NULL: none, or gone */
	enum fgt_trigger_verdict verdict;
	size_t fired, failed; /* slices */
	struct fgt_why why; /* of the last failure */
};
STAILQ_HEAD(fgt_trigger_events, fgt_trigger_event);

/* Found by a look: the loop decides whether a slice is cut. */
struct fgt_trigger_firing {
	STAILQ_ENTRY(fgt_trigger_firing) link;
	size_t trigger;
	struct fgt_trigger_watch *watch; /* NULL: of an event */
	struct fgt_trigger_event *event; /* NULL: of a watch */
	struct fgt_target *target; /* a reference */
	uint64_t at_ns;
	int32_t tid;
	char cause[FGT_DELIVERY_CAUSE + 1];
};
STAILQ_HEAD(fgt_trigger_firings, fgt_trigger_firing);

struct fgt_triggers {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs;
	struct fgt_targets *targets;
	struct fgt_deliveries *deliveries;
	const struct fgt_config *config; /* NULL: none yet */
	struct fgt_trigger *all;
	size_t count;
	struct fgt_watch files; /* inotify */

	struct fgt_job job;
	bool is_looking, is_look_due, is_held, is_leaving;
	/* The loop's: events that the next look takes. */
	struct fgt_trigger_events waiting;
	size_t waiting_count;
	/* Those of the look that is under way, and what it found. */
	struct fgt_trigger_events events;
	struct fgt_trigger_firings firings;
	size_t firing_count;
	uint64_t looks;
	_Atomic uint64_t look_ns; /* CPU time; relaxed: only shown */
};

/* ---- trigger_look.c: a job -------------------------------------------------- */

/* Looks at all targets, and finds what fires. */
void fgt_triggers_run_look(void *context);
void fgt_trigger_firing_free(struct fgt_trigger_firing *firing);
/* Frees those of a trigger; unseen_only: without those of the last look. */
void fgt_trigger_drop_watches(struct fgt_trigger *trigger, bool unseen_only);

/* ---- trigger_fire.c: the loop ----------------------------------------------- */

/* Within the limits: queues a delivery for each place. Counts and logs. */
void fgt_trigger_fire(struct fgt_triggers *triggers,
		      struct fgt_trigger_firing *firing);

struct fgt_trigger_pace
fgt_trigger_pace_of(const struct fgt_config_trigger *rule);

/* ---- trigger_event.c: the loop ---------------------------------------------- */

/* Queues an event; target may be NULL. NULL: there are too many, or no memory;
 * counted. */
struct fgt_trigger_event *fgt_trigger_event_add(struct fgt_triggers *triggers,
						size_t trigger,
						struct fgt_target *target,
						const char *cause);
void fgt_trigger_event_free(struct fgt_trigger_event *event);
/* In trigger_verb.c: answers the client of an event, and frees it. */
void fgt_trigger_event_end(struct fgt_triggers *triggers,
			   struct fgt_trigger_event *event);

/* Opens the watch of directories. Errno of inotify_init1 and epoll_ctl. */
int fgt_trigger_files_open(struct fgt_triggers *triggers);
/* In the look: directories that are not watched yet are tried. */
void fgt_trigger_files_watch(struct fgt_triggers *triggers);

#endif
