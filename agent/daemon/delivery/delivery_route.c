/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which destinations a slice goes to. Each gets a separate delivery, so that
 * one that is down does not delay another. Runs in the daemon's loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_job.h"
#include "agent/daemon/loop/log.h"

/* Data and spans; a destination of the configuration is where the agent is. */
static int copy_fds(const struct fgt_delivery_fds *fds,
		    struct fgt_delivery_fds *ret_copy)
{
	static const enum fgt_delivery_fd wanted[] = { FGT_DELIVERY_DATA,
						       FGT_DELIVERY_SPANS };

	*ret_copy = FGT_DELIVERY_FDS_NONE;
	for (size_t i = 0; i < 2; i++) {
		int fd = fds->fd[wanted[i]];

		if (fd < 0)
			continue;
		ret_copy->fd[wanted[i]] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (ret_copy->fd[wanted[i]] < 0) {
			int error = -errno;

			fgt_delivery_fds_close(ret_copy);
			return error;
		}
	}
	return 0;
}

/* Do its readers take a sample to last until the next one? Those of envelopes
 * do. */
static bool is_of_samples(const struct fgt_destination *destination)
{
	return destination && (destination->format == FGT_KIND_SENTRY ||
			       destination->format == FGT_KIND_SENTRY_CHUNK);
}

static int submit_configured(struct fgt_deliveries *deliveries,
			     const struct fgt_delivery_order *order,
			     struct fgt_destination_entry *entry,
			     struct fgt_why *why)
{
	struct fgt_delivery_order own = *order;
	int r = copy_fds(&order->fds, &own.fds);

	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot copy descriptors: %s: raise "
				   "LimitNOFILE=",
				   strerror(-r));
	own.destination = NULL;
	own.configured = entry->name;
	own.chunk.has_next_tick = is_of_samples(entry->destination);
	return fgt_deliveries_submit(deliveries, &own, why);
}

/* Counts what it did not get. */
static int offer(struct fgt_deliveries *deliveries,
		 const struct fgt_delivery_order *order,
		 struct fgt_destination_entry *entry, struct fgt_why *why)
{
	enum fgt_drop_reason reason = FGT_DROP_REJECTED;
	int r = submit_configured(deliveries, order, entry, why);

	if (r == -EBUSY)
		reason = FGT_DROP_QUEUE_FULL;
	else if (r == -ESHUTDOWN)
		reason = FGT_DROP_LEAVING;
	if (r == -EACCES) /* the server's first answer stays to be seen */
		entry->dropped[FGT_DROP_REFUSED]++;
	else if (r < 0)
		fgt_destination_entry_dropped(entry, reason, why->text);
	return r;
}

/* A name holds neither / nor :, a URL and a path do. */
static bool is_name(const char *destination)
{
	return !strpbrk(destination, "/:");
}

static int route_to_name(struct fgt_deliveries *deliveries,
			 const struct fgt_delivery_order *order,
			 const struct fgt_delivery_asker *asker,
			 struct fgt_why *why)
{
	struct fgt_destination_entry *entry = fgt_destinations_find(
		&deliveries->destinations, asker->destination);
	bool is_agents = asker->uid == 0 || asker->uid == geteuid();

	if (!entry && is_agents)
		return fgt_why_set(
			why, -ENOENT,
			"no destination is called '%.64s': add it to "
			"upload.destinations",
			asker->destination);
	/* Other users learn no names. */
	if (!entry || (!is_agents && !entry->is_of_transactions))
		return fgt_why_set(why, -EPERM,
				   "destination '%.64s' is not in "
				   "upload.transactions, or does not exist: "
				   "ask the agent's administrator",
				   asker->destination);
	return offer(deliveries, order, entry, why);
}

/* Also where one of them cannot take it. */
static int route_to_all(struct fgt_deliveries *deliveries,
			const struct fgt_delivery_order *order,
			struct fgt_why *why)
{
	struct fgt_destinations *all = &deliveries->destinations;
	struct fgt_why last_why;
	bool is_taken = false;
	int last = fgt_why_set(&last_why, -ENOENT,
			       "no destination: the program names none, and "
			       "upload.transactions is empty");

	for (size_t i = 0; i < all->count; i++) {
		struct fgt_destination_entry *entry = &all->entries[i];
		int r;

		if (!entry->is_of_transactions)
			continue;
		r = offer(deliveries, order, entry, &last_why);
		if (r == 0)
			is_taken = true;
		else
			last = r;
	}
	return is_taken ? 0 : fgt_why_set(why, last, "%s", last_why.text);
}

int fgt_deliveries_route(struct fgt_deliveries *deliveries,
			 const struct fgt_delivery_order *order,
			 const struct fgt_delivery_asker *asker,
			 struct fgt_why *why)
{
	struct fgt_delivery_fds fds = order->fds;
	struct fgt_delivery_order own = *order;
	int r;

	if (!*asker->destination) {
		r = route_to_all(deliveries, order, why);
	} else if (is_name(asker->destination)) {
		r = route_to_name(deliveries, order, asker, why);
	} else {
		own.destination = asker->destination;
		own.configured = NULL;
		return fgt_deliveries_submit(deliveries, &own, why);
	}
	fgt_delivery_fds_close(&fds);
	return r;
}

bool fgt_deliveries_has_default(const struct fgt_deliveries *deliveries)
{
	for (size_t i = 0; i < deliveries->destinations.count; i++)
		if (deliveries->destinations.entries[i].is_of_transactions)
			return true;
	return false;
}

void fgt_deliveries_configure(struct fgt_deliveries *deliveries,
			      const struct fgt_config *config)
{
	fgt_destinations_load(&deliveries->destinations, config);
	deliveries->is_sentry_v1 = config->sentry.profile == FGT_SENTRY_V1;
}

void fgt_deliveries_set_keeper(struct fgt_deliveries *deliveries,
			       const struct fgt_delivery_keeper *keeper)
{
	deliveries->keeper = keeper;
}

static struct fgt_destination_waiting
count_waiting(const struct fgt_deliveries *deliveries, const char *configured)
{
	const struct fgt_delivery_keeper *keeper = deliveries->keeper;
	struct fgt_destination_waiting waiting = { .queued = 0 };
	struct fgt_delivery_kept_count kept = { .entries = 0 };
	const struct fgt_delivery_job *job;

	TAILQ_FOREACH(job, &deliveries->all, link)
		waiting.queued += strcmp(job->configured, configured) == 0;
	if (keeper)
		keeper->count(keeper->context, configured, &kept);
	waiting.spooled = kept.entries;
	waiting.spooled_bytes = kept.bytes;
	waiting.next_try_ns = kept.next_try_ns;
	return waiting;
}

void fgt_deliveries_put_destinations(const struct fgt_deliveries *deliveries,
				     struct fgt_builder *builder)
{
	const struct fgt_destinations *all = &deliveries->destinations;

	fgt_builder_array_begin(builder, "destinations");
	for (size_t i = 0; i < all->count; i++) {
		const struct fgt_destination_waiting waiting =
			count_waiting(deliveries, all->entries[i].name);

		fgt_destination_entry_put(&all->entries[i], &waiting,
					  fgt_loop_now(), builder);
	}
	fgt_builder_array_end(builder);
}
