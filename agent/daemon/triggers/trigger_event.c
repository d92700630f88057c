/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fires a trigger at once: signals to the agent, files that appear,
 * transactions, the verb. Runs in the daemon's loop, except
 * fgt_trigger_files_watch(), which is a part of a job; must not open the files
 * that it waits for.
 */
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/triggers/trigger.h"

/* ---- Events -------------------------------------------------------------- */

void fgt_trigger_event_free(struct fgt_trigger_event *event)
{
	fgt_target_put(event->target);
	free(event);
}

struct fgt_trigger_event *fgt_trigger_event_add(struct fgt_triggers *triggers,
						size_t trigger,
						struct fgt_target *target,
						const char *cause)
{
	struct fgt_trigger_event *event = NULL;

	if (!triggers->is_leaving &&
	    triggers->waiting_count < FGT_TRIGGER_EVENTS_MAX)
		event = calloc(1, sizeof(*event));
	if (!event) {
		triggers->all[trigger].failed++;
		return NULL;
	}
	event->trigger = trigger;
	event->target = target ? fgt_target_get(target) : NULL;
	event->at_ns = fgt_loop_now();
	snprintf(event->cause, sizeof(event->cause), "%s", cause);
	STAILQ_INSERT_TAIL(&triggers->waiting, event, link);
	triggers->waiting_count++;
	fgt_triggers_look(triggers);
	return event;
}

bool fgt_triggers_signal(struct fgt_triggers *triggers, int number)
{
	bool is_waited_for = false;
	char name[24];

	snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(number));
	for (size_t i = 0; i < triggers->count; i++) {
		const char *wanted = triggers->all[i].rule->when.signal;

		if (!wanted || strcmp(wanted, name) != 0)
			continue;
		is_waited_for = true;
		(void)fgt_trigger_event_add(triggers, i, NULL, name);
	}
	return is_waited_for;
}

void fgt_triggers_transaction(void *context, struct fgt_target *target,
			      const char *name, uint64_t begin_ns,
			      uint64_t end_ns)
{
	struct fgt_triggers *triggers = context;
	uint64_t ms = (end_ns - begin_ns) / 1000000;

	for (size_t i = 0; i < triggers->count; i++) {
		const struct fgt_config_trigger *rule = triggers->all[i].rule;
		char cause[FGT_DELIVERY_CAUSE + 1];

		if (!rule->when.transaction_ms ||
		    ms <= (uint64_t)rule->when.transaction_ms ||
		    (rule->when.transaction &&
		     fnmatch(rule->when.transaction, name, 0) != 0))
			continue;
		snprintf(cause, sizeof(cause),
			 "transaction %.100s took %llu ms", name,
			 (unsigned long long)ms);
		(void)fgt_trigger_event_add(triggers, i, target, cause);
	}
}

/* ---- Files --------------------------------------------------------------- */

static void file_appeared(struct fgt_triggers *triggers, int directory,
			  const char *name)
{
	for (size_t i = 0; i < triggers->count; i++) {
		struct fgt_trigger *trigger = &triggers->all[i];
		const char *path = trigger->rule->when.file;
		char cause[FGT_DELIVERY_CAUSE + 1];

		if (!path ||
		    atomic_load_explicit(&trigger->directory,
					 memory_order_relaxed) != directory ||
		    strcmp(strrchr(path, '/') + 1, name) != 0)
			continue;
		snprintf(cause, sizeof(cause), "file %.180s appeared", path);
		(void)fgt_trigger_event_add(triggers, i, NULL, cause);
	}
}

/* The directory has gone, or has another name: the next look tries it again. */
static void directory_gone(struct fgt_triggers *triggers, int directory)
{
	for (size_t i = 0; i < triggers->count; i++) {
		int expected = directory;

		(void)atomic_compare_exchange_strong_explicit(
			&triggers->all[i].directory, &expected, -1,
			memory_order_relaxed, memory_order_relaxed);
	}
}

static void files_ready(void *context, uint32_t events)
{
	struct fgt_triggers *triggers = context;
	_Alignas(struct inotify_event) char bytes[8192];
	ssize_t n = read(triggers->files.fd, bytes, sizeof(bytes));
	const struct inotify_event *event;

	(void)events;
	for (ssize_t at = 0; at < n;
	     at += (ssize_t)(sizeof(*event)) + event->len) {
		event = (const struct inotify_event *)(const void *)(bytes +
								     at);
		if (event->mask & IN_IGNORED)
			directory_gone(triggers, event->wd);
		else if (event->mask & IN_MOVE_SELF) /* IN_IGNORED follows */
			(void)inotify_rm_watch(triggers->files.fd, event->wd);
		else if (event->len > 0)
			file_appeared(triggers, event->wd, event->name);
	}
}

int fgt_trigger_files_open(struct fgt_triggers *triggers)
{
	fgt_loop_unwatch(triggers->loop, &triggers->files);
	fgt_fd_close(triggers->files.fd);
	triggers->files = (struct fgt_watch){
		.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
		.ready = files_ready,
		.context = triggers,
	};
	if (triggers->files.fd < 0)
		return -errno;
	return fgt_loop_watch(triggers->loop, &triggers->files, EPOLLIN);
}

static void watch_directory(struct fgt_triggers *triggers,
			    struct fgt_trigger *trigger)
{
	const char *path = trigger->rule->when.file;
	size_t len = (size_t)(strrchr(path, '/') - path);
	char directory[FGT_TRIGGER_PATH_MAX];
	int number;

	if (len >= sizeof(directory))
		return;
	memcpy(directory, path, len);
	directory[len] = '\0';
	number = inotify_add_watch(
		triggers->files.fd, len > 0 ? directory : "/",
		IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF | IN_ONLYDIR);
	if (number >= 0)
		atomic_store_explicit(&trigger->directory, number,
				      memory_order_relaxed);
	else if (!trigger->is_directory_logged)
		fgt_log(FGT_LOG_WARNING, "trigger_directory",
			"trigger %s: cannot watch %s: %s: it is tried again "
			"once a second",
			trigger->name, directory, strerror(errno));
	trigger->is_directory_logged = number < 0;
}

void fgt_trigger_files_watch(struct fgt_triggers *triggers)
{
	for (size_t i = 0; i < triggers->count; i++) {
		struct fgt_trigger *trigger = &triggers->all[i];

		if (trigger->rule->when.file &&
		    atomic_load_explicit(&trigger->directory,
					 memory_order_relaxed) < 0)
			watch_directory(triggers, trigger);
	}
}
