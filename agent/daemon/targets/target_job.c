/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands attach and detach to the thread of jobs and answers when they are
 * done. Runs in the daemon's loop, but for run(), which must not touch the
 * client: it may hang up at any moment.
 */
#include "agent/daemon/targets/target_job.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/socket/reply.h"
#include "agent/daemon/status_reply.h"
#include "agent/daemon/targets/target_verb.h"

struct order {
	struct fgt_job job;
	struct fgt_service *service;
	struct fgt_control_client *client; /* the loop's; NULL: it has gone */
	struct fgt_peer peer;
	struct fgt_target_order asked;
	char *name; /* of the selector */
	/* Written by run(), read when it is done. */
	struct fgt_builder *reply;
	int result;
	struct fgt_why why;
};

static void free_order(struct order *order)
{
	fgt_builder_free(order->reply);
	free(order->name);
	free(order);
}

static void run(void *context)
{
	struct order *order = context;
	struct fgt_targets *targets = order->service->targets;
	const struct fgt_target_order *asked = &order->asked;

	fgt_builder_array_begin(order->reply, "targets");
	if (asked->is_attach)
		order->result = fgt_target_verb_attach(
			targets, &order->peer, &asked->selector,
			asked->is_with_children, fgt_status_reply_add_name,
			order->reply, &order->why);
	else
		order->result = fgt_target_verb_detach(
			targets, &order->peer, &asked->selector,
			fgt_status_reply_add_name, order->reply, &order->why);
	fgt_builder_array_end(order->reply);
}

static void done(void *context)
{
	struct order *order = context;

	if (order->client && order->result < 0)
		fgt_control_fail(order->client, order->result, order->why.text);
	else if (order->client)
		fgt_control_reply(order->client, order->reply);
	free_order(order);
}

static void client_gone(void *context)
{
	struct order *order = context;

	order->client = NULL;
	if (fgt_jobs_withdraw(order->service->jobs, &order->job))
		free_order(order);
}

static struct order *new_order(struct fgt_service *service,
			       struct fgt_control_client *client,
			       const struct fgt_target_order *asked)
{
	struct order *order = calloc(1, sizeof(*order));

	if (!order)
		return NULL;
	order->job =
		(struct fgt_job){ .run = run, .done = done, .context = order };
	order->service = service;
	order->client = client;
	order->peer = *fgt_control_peer(client);
	order->asked = *asked;
	order->result = fgt_why_set(&order->why, -ESHUTDOWN,
				    "the agent is leaving"); /* if not run */
	if (asked->selector.name)
		order->asked.selector.name = order->name =
			strdup(asked->selector.name);
	if ((asked->selector.name && !order->name) ||
	    fgt_reply_new(&order->reply) < 0) {
		free_order(order);
		return NULL;
	}
	return order;
}

void fgt_target_job_submit(struct fgt_service *service,
			   struct fgt_control_client *client,
			   const struct fgt_target_order *asked)
{
	struct order *order = new_order(service, client, asked);

	if (!order) {
		fgt_control_fail(client, -ENOMEM, "out of memory");
		return;
	}
	fgt_control_park(client, client_gone, order);
	fgt_jobs_submit(service->jobs, &order->job);
}
