/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches and detaches on request. Runs in the daemon's loop, but attach(),
 * detach() and what they call on the thread of jobs, which must not touch the
 * client: it may hang up at any moment.
 */
#include "agent/daemon/targets/targets.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/targets/target_table.h"

/* One request. */
struct target_order {
	struct fgt_job job;
	struct fgt_targets *targets;
	struct fgt_control_client *client; /* the loop's; NULL: it hung up */
	struct fgt_peer peer;
	struct fgt_selector selector;
	char name[FGT_REQUEST_NAME + 1]; /* of the selector */
	bool is_with_children;
	/* Written by the job, read when it is done. */
	size_t attached;
	struct fgt_builder *reply;
	int result; /* of attach: the last error */
	struct fgt_why why;
};

static void free_order(struct target_order *order)
{
	fgt_builder_free(order->reply);
	free(order);
}

/* rules: what was added or dropped. */
static void put_rule(struct target_order *order)
{
	if (!order->selector.name)
		return;
	fgt_builder_array_begin(order->reply, "rules");
	fgt_builder_map_begin(order->reply, NULL);
	fgt_builder_string(order->reply, "name", order->name);
	fgt_builder_map_end(order->reply);
	fgt_builder_array_end(order->reply);
}

/* ---- attach ------------------------------------------------------------ */

static int visit_process(void *context, const struct fgt_process_info *info,
			 int32_t parent_pid)
{
	struct target_order *order = context;
	const struct fgt_attach_cause cause = {
		.origin = FGT_ORIGIN_ATTACHED,
		.is_with_children = order->is_with_children,
		.charged_uid = fgt_charged_uid(&order->peer),
		.peer = order->peer,
	};
	int r;

	(void)parent_pid;
	if (order->selector.name &&
	    (info->pid == getpid() ||
	     !fgt_rule_is_name(order->name, info->name, info->exe)))
		return 0;
	r = fgt_attaching_process(order->targets, info->pid, info->start_time,
				  &cause, &order->why);
	if (r == 0)
		order->attached++;
	else if (r != -ENXIO)
		order->result = r;
	return 0;
}

static void attach_pid(struct target_order *order)
{
	struct fgt_process_info info = { .pid = order->selector.pid };
	struct fgt_process process;
	int r = fgt_process_open(info.pid, &process, &order->why);

	/* Ordinary users get one answer for a process that does not exist and
	 * for one that they could not trace. */
	if (r < 0 && (r != -ESRCH || order->peer.is_root))
		order->result = r;
	if (r < 0)
		return;
	info.start_time = process.start_time;
	(void)visit_process(order, &info, 0);
	fgt_process_close(&process);
}

static int none_attached(struct target_order *order)
{
	char what[FGT_REQUEST_NAME + 16];

	if (order->result < 0)
		return order->result; /* why has been set with it */
	if (order->selector.name)
		snprintf(what, sizeof(what), "named %s", order->name);
	else
		snprintf(what, sizeof(what), "%d", order->selector.pid);
	if (!order->peer.is_root)
		return fgt_why_set(&order->why, -EPERM,
				   "no process %s that you could trace: it "
				   "must run as you, without more privileges; "
				   "root may attach any",
				   what);
	return fgt_why_set(&order->why, -ESRCH,
			   order->selector.name
				   ? "no process %s: start it first, or add it "
				     "to 'targets' of the configuration"
				   : "no process %s; find it with pgrep or ps",
			   what);
}

/* The rule stays until detach: processes of this name that start later. */
static void keep_rule(struct target_order *order)
{
	struct fgt_name_rule rule = {
		.peer = order->peer,
		.is_with_children = order->is_with_children,
	};

	memcpy(rule.name, order->name, sizeof(rule.name));
	fgt_targets_add_name(order->targets, &rule);
}

static void attach(void *context)
{
	struct target_order *order = context;
	size_t given_up;

	order->result =
		order->selector.name
			? fgt_targets_check_name(order->targets, order->name,
						 order->peer.uid, &order->why)
			: 0;
	if (order->result < 0)
		return;
	if (order->selector.name)
		(void)fgt_process_for_each(visit_process, order);
	else
		attach_pid(order);
	given_up = fgt_attaching_settle(order->targets, &order->why);
	order->attached -= given_up < order->attached ? given_up
						      : order->attached;
	if (given_up > 0)
		order->result = -EAGAIN;
	order->result = order->attached == 0 ? none_attached(order) : 0;
	if (order->result < 0)
		return;
	if (order->selector.name)
		keep_rule(order);
	put_rule(order);
	if (order->is_with_children)
		fgt_targets_refresh(order->targets, fgt_loop_now());
	fgt_target_list_put_running(order->targets, &order->peer,
				    &order->selector, order->reply);
}

/* ---- detach ------------------------------------------------------------ */

/* Only jobs use the mark: no lock. */
static void mark_unwanted(struct target_order *order)
{
	struct fgt_target_table *table = &order->targets->table;

	for (size_t i = 0; i < table->count; i++)
		if (fgt_target_entry_is_match(&table->entries[i],
					      &order->selector) &&
		    fgt_target_entry_is_visible(&table->entries[i],
						&order->peer))
			table->entries[i].is_wanted = false;
	fgt_target_table_unwant_children(table);
}

static void detach(void *context)
{
	struct target_order *order = context;
	struct fgt_targets *targets = order->targets;
	struct fgt_target_table *table = &targets->table;
	size_t detached = 0;

	if (order->selector.name)
		detached = fgt_targets_drop_name(targets, order->name,
						 order->peer.uid);
	if (detached > 0)
		put_rule(order);
	fgt_builder_array_begin(order->reply, "targets");
	mark_unwanted(order);
	for (size_t i = table->count; i-- > 0;) {
		if (table->entries[i].is_wanted)
			continue;
		table->entries[i].is_wanted = true;
		fgt_target_list_put_name(order->reply,
					 table->entries[i].target);
		fgt_attaching_detach(targets, i, "on request");
		detached++;
	}
	fgt_builder_array_end(order->reply);
	order->result = detached > 0 ? 0
				     : fgt_target_list_none_found(
					       &order->selector, &order->why);
}

/* ---- The loop's side --------------------------------------------------- */

static void done(void *context)
{
	struct target_order *order = context;

	if (order->job.is_lost)
		order->result =
			fgt_why_set(&order->why, -EAGAIN, FGT_JOB_IS_LOST);
	if (order->client && order->result < 0)
		fgt_control_fail(order->client, order->result, order->why.text);
	else if (order->client)
		fgt_control_reply(order->client, order->reply);
	free_order(order);
}

static void client_gone(void *context)
{
	struct target_order *order = context;

	order->client = NULL;
	if (fgt_jobs_withdraw(order->targets->jobs, &order->job))
		free_order(order);
}

static int read_request(struct target_order *order,
			const struct fgt_request *request)
{
	const struct fgt_request_target *asked = &request->target;
	int r = fgt_selector_take(order->client, &asked->selector,
				  &order->selector, &order->why);

	if (r < 0)
		return r;
	if (order->selector.pid == 0 && !order->selector.name)
		return fgt_why_set(&order->why, -EINVAL,
				   "pid or name is missing: give one");
	order->is_with_children = asked->is_with_children;
	if (order->selector.name)
		order->selector.name =
			strcpy(order->name, order->selector.name);
	return fgt_builder_new_reply(&order->reply);
}

static void submit(struct fgt_targets *targets,
		   struct fgt_control_client *client,
		   const struct fgt_request *request, void (*run)(void *))
{
	struct target_order *order = calloc(1, sizeof(*order));
	int r;

	if (!order) {
		fgt_control_reply(client, NULL);
		return;
	}
	order->job =
		(struct fgt_job){ .run = run, .done = done, .context = order };
	order->targets = targets;
	order->client = client;
	order->peer = *fgt_control_peer(client);
	r = read_request(order, request);
	if (r < 0) {
		fgt_control_fail(client, r, order->why.text);
		free_order(order);
		return;
	}
	order->result = fgt_why_set(&order->why, -ESHUTDOWN,
				    FGT_AGENT_IS_LEAVING); /* if not run */
	fgt_control_park(client, client_gone, order);
	fgt_jobs_submit(targets->jobs, &order->job);
}

void fgt_target_verb_attach(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request)
{
	submit(context, client, request, attach);
}

void fgt_target_verb_detach(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request)
{
	submit(context, client, request, detach);
}
