/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs on targets. Those that look run in the daemon's loop, attach and
 * detach on the thread of jobs; must not tell a client apart "not there"
 * from "not yours".
 */
#include "agent/daemon/targets/target_verb.h"

#include <errno.h>

#include "agent/daemon/targets/rule.h"
#include "agent/daemon/targets/target_table.h"

/* May the peer see it, by what is true now? Under the lock. */
static bool is_visible(struct fgt_targets *targets,
		       struct fgt_target_entry *entry,
		       const struct fgt_peer *peer)
{
	uint64_t now_ns = fgt_loop_now();

	if (peer->uid != 0 && fgt_target_entry_is_live(entry))
		fgt_target_entry_update_owner(entry, now_ns,
					      fgt_targets_kept_ns(targets));
	return fgt_target_entry_is_visible_to(entry, peer, now_ns);
}

/* Does the process ask for itself? Then it may see what it is, whatever its
 * rights. Under the lock. */
static bool is_own(const struct fgt_target_entry *entry,
		   const struct fgt_selector *selector)
{
	struct fgt_owner owner;

	/* Still that process: the pid is not another's by now. */
	return selector->is_own && entry->pid == selector->pid &&
	       fgt_target_entry_is_live(entry) &&
	       fgt_owner_read(entry->pid, entry->start_time, &owner) == 0;
}

static void show(const struct fgt_target_entry *entry,
		 void (*visit)(void *context,
			       const struct fgt_target_view *view),
		 void *context)
{
	const struct fgt_target_view view = {
		.target = entry->target,
		.origin = entry->origin,
		.is_with_children = entry->is_with_children,
	};

	visit(context, &view);
}

static int none_found(const struct fgt_selector *selector, struct fgt_why *why)
{
	if (selector->pid != 0)
		return fgt_why_set(why, -ESRCH,
				   "no target with pid %d that you may see: "
				   "'fgtrace-agent targets' lists yours, "
				   "'attach' adds one",
				   selector->pid);
	if (selector->name)
		return fgt_why_set(why, -ESRCH,
				   "no target named %s that you may see: "
				   "'fgtrace-agent targets' lists yours, "
				   "'attach' adds one",
				   selector->name);
	return fgt_why_set(why, -ESRCH,
			   "no target that you may see: add one with "
			   "'fgtrace-agent attach PID'");
}

size_t fgt_target_verb_for_each(struct fgt_targets *targets,
				const struct fgt_peer *peer,
				const struct fgt_selector *selector,
				void (*visit)(void *context,
					      const struct fgt_target_view *),
				void *context)
{
	struct fgt_target_table *table = fgt_targets_table(targets);
	size_t count = 0;

	fgt_targets_lock(targets);
	for (size_t i = 0; i < table->count; i++) {
		struct fgt_target_entry *entry = &table->entries[i];

		if (!fgt_target_entry_is_match(entry, selector) ||
		    !is_visible(targets, entry, peer))
			continue;
		count++;
		if (visit)
			show(entry, visit, context);
	}
	fgt_targets_unlock(targets);
	return count;
}

/* Under the lock. */
static int choose(struct fgt_targets *targets, const struct fgt_peer *peer,
		  const struct fgt_selector *selector,
		  struct fgt_target **ret_target, struct fgt_why *why)
{
	struct fgt_target_table *table = fgt_targets_table(targets);
	const struct fgt_target_entry *chosen = NULL;
	size_t live = 0, ended = 0;

	for (size_t i = 0; i < table->count; i++) {
		struct fgt_target_entry *entry = &table->entries[i];

		if (!fgt_target_entry_is_match(entry, selector) ||
		    !(is_own(entry, selector) ||
		      is_visible(targets, entry, peer)))
			continue;
		if (fgt_target_entry_is_live(entry))
			live++;
		else
			ended++;
		if (!chosen || fgt_target_entry_is_live(entry))
			chosen = entry;
	}
	if (!chosen)
		return none_found(selector, why);
	if (live > 1 || (live == 0 && ended > 1))
		return fgt_why_set(why, -ENOTUNIQ,
				   "%zu targets match: name one with -p PID",
				   live ? live : ended);
	*ret_target = fgt_target_get(chosen->target);
	return 0;
}

int fgt_target_verb_find(struct fgt_targets *targets,
			 const struct fgt_peer *peer,
			 const struct fgt_selector *selector,
			 struct fgt_target **ret_target, struct fgt_why *why)
{
	int r;

	fgt_targets_lock(targets);
	r = choose(targets, peer, selector, ret_target, why);
	fgt_targets_unlock(targets);
	return r;
}

/* ---- attach ------------------------------------------------------------ */

struct attach {
	struct fgt_targets *targets;
	const struct fgt_peer *peer;
	const struct fgt_selector *selector;
	bool is_with_children;
	size_t attached;
	int error; /* the last one */
	struct fgt_why *why;
};

/* A ring costs memory: an ordinary user has some, not all. */
static bool has_too_many(const struct attach *attach)
{
	const struct fgt_target_table *table =
		fgt_targets_table(attach->targets);
	size_t count = 0;

	fgt_targets_lock(attach->targets); /* for the owner */
	for (size_t i = 0; i < table->count; i++)
		count += fgt_target_entry_is_live(&table->entries[i]) &&
			 table->entries[i].owner.uid == attach->peer->uid;
	fgt_targets_unlock(attach->targets);
	return attach->peer->uid != 0 && count >= FGT_TARGETS_PER_USER;
}

/* Whoever runs the daemon pays for the memory itself. */
static uint32_t charged_uid(const struct fgt_peer *peer)
{
	return peer->uid == geteuid() ? 0 : peer->uid;
}

/* Only of those that the peer could trace itself. */
static void attach_if_visible(struct attach *attach, int32_t pid,
			      uint64_t start_time)
{
	struct fgt_owner owner;
	int r;

	if (attach->peer->uid != 0 &&
	    (fgt_owner_read(pid, start_time, &owner) < 0 ||
	     !fgt_owner_is_visible_to(&owner, attach->peer->uid,
				      attach->peer->gid)))
		return;
	if (has_too_many(attach)) {
		attach->error = fgt_why_set(attach->why, -ENOSPC,
					    "%d of your processes are sampled "
					    "already: detach some",
					    FGT_TARGETS_PER_USER);
		return;
	}
	r = fgt_targets_attach_process(attach->targets, pid, start_time,
				       attach->is_with_children,
				       charged_uid(attach->peer), attach->why);
	if (r < 0)
		attach->error = r;
	else
		attach->attached++;
}

static int visit_process(void *context, const struct fgt_process_info *info,
			 int32_t parent_pid)
{
	struct attach *attach = context;

	(void)parent_pid;
	if (info->pid != getpid() &&
	    fgt_rule_is_name(attach->selector->name, info->name, info->exe))
		attach_if_visible(attach, info->pid, info->start_time);
	return 0;
}

static void attach_pid(struct attach *attach)
{
	struct fgt_process process;
	int r = fgt_process_open(attach->selector->pid, &process, attach->why);

	if (r < 0) {
		/* Others hear the same as of a process that is not theirs. */
		if (r != -ESRCH || attach->peer->uid == 0)
			attach->error = r;
		return;
	}
	attach_if_visible(attach, attach->selector->pid, process.start_time);
	fgt_process_close(&process);
}

static int none_attached(const struct attach *attach)
{
	const struct fgt_selector *selector = attach->selector;
	/* One answer for "is not there" and "is not yours". */
	int error = attach->peer->uid == 0 ? -ESRCH : -EPERM;

	if (attach->error < 0)
		return attach->error; /* why has been set with it */
	if (error == -ESRCH && selector->pid != 0)
		return fgt_why_set(attach->why, error,
				   "no process %d; find it with pgrep or ps",
				   selector->pid);
	if (error == -ESRCH)
		return fgt_why_set(attach->why, error,
				   "no process named %s; find it with pgrep "
				   "or ps",
				   selector->name);
	if (selector->pid != 0)
		return fgt_why_set(attach->why, error,
				   "no process %d that you could trace: it "
				   "must run as you, without more privileges; "
				   "root may attach any",
				   selector->pid);
	return fgt_why_set(attach->why, error,
			   "no process named %s that you could trace: it must "
			   "run as you, without more privileges; root may "
			   "attach any",
			   selector->name);
}

int fgt_target_verb_attach(
	struct fgt_targets *targets, const struct fgt_peer *peer,
	const struct fgt_selector *selector, bool is_with_children,
	void (*visit)(void *context, const struct fgt_target_view *view),
	void *context, struct fgt_why *why)
{
	struct attach attach = {
		.targets = targets,
		.peer = peer,
		.selector = selector,
		.is_with_children = is_with_children,
		.why = why,
	};

	if (selector->pid != 0)
		attach_pid(&attach);
	else
		(void)fgt_process_for_each(visit_process, &attach);
	if (attach.attached == 0)
		return none_attached(&attach);
	if (is_with_children)
		fgt_targets_refresh(targets, fgt_loop_now());
	(void)fgt_target_verb_for_each(targets, peer, selector, visit, context);
	return 0;
}

/* ---- detach ------------------------------------------------------------ */

int fgt_target_verb_detach(struct fgt_targets *targets,
			   const struct fgt_peer *peer,
			   const struct fgt_selector *selector,
			   void (*visit)(void *context,
					 const struct fgt_target_view *view),
			   void *context, struct fgt_why *why)
{
	struct fgt_target_table *table = fgt_targets_table(targets);
	size_t detached = 0;

	fgt_targets_lock(targets);
	for (size_t i = 0; i < table->count; i++)
		if (fgt_target_entry_is_match(&table->entries[i], selector) &&
		    is_visible(targets, &table->entries[i], peer))
			table->entries[i].is_wanted = false;
	fgt_targets_unlock(targets);
	fgt_target_table_unwant_children(table);
	for (size_t i = table->count; i-- > 0;) {
		if (table->entries[i].is_wanted)
			continue;
		table->entries[i].is_wanted = true;
		show(&table->entries[i], visit, context);
		fgt_targets_detach_index(targets, i, "by hand");
		detached++;
	}
	return detached > 0 ? 0 : none_found(selector, why);
}
