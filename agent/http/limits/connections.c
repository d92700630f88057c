/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of connections. Runs in the threads of connections and in the one that
 * tends them.
 */
#include "agent/http/limits/connections.h"

#include <stddef.h>
#include <sys/socket.h>

#include "ringbuf/base/clock.h"

#define SECOND_NS UINT64_C(1000000000)

static uint64_t due_in(unsigned int seconds)
{
	return seconds ? fgt_clock_ns(CLOCK_MONOTONIC) + seconds * SECOND_NS
		       : UINT64_MAX;
}

void fgt_web_connections_init(struct fgt_web_connections *connections)
{
	pthread_mutex_init(&connections->lock, NULL);
	for (size_t i = 0; i < FGT_WEB_PLACES_MAX; i++)
		connections->all[i].fd = -1;
}

static void shut_down(struct fgt_web_connection *one)
{
	/* The lock keeps it from being closed meanwhile. */
	shutdown(one->fd, SHUT_RDWR);
	one->due_ns = UINT64_MAX;
	one->is_waiting = false;
	one->is_late = true;
}

static void make_room(struct fgt_web_connections *connections)
{
	struct fgt_web_connection *oldest = NULL;
	unsigned int waiting = 0;

	for (size_t i = 0; i < FGT_WEB_PLACES_MAX; i++) {
		struct fgt_web_connection *one = &connections->all[i];

		if (one->fd < 0 || !one->is_waiting)
			continue;
		waiting++;
		if (!oldest || one->due_ns < oldest->due_ns)
			oldest = one;
	}
	if (waiting >= FGT_WEB_WAITING_MAX)
		shut_down(oldest);
}

struct fgt_web_connection *
fgt_web_connections_add(struct fgt_web_connections *connections, int fd)
{
	struct fgt_web_connection *found = NULL;

	pthread_mutex_lock(&connections->lock);
	make_room(connections);
	for (size_t i = 0; i < FGT_WEB_PLACES_MAX && !found; i++)
		if (connections->all[i].fd < 0)
			found = &connections->all[i];
	if (found) {
		found->fd = fd;
		found->due_ns = due_in(FGT_WEB_HEADER_S);
		found->is_waiting = true;
		found->is_late = false;
	}
	pthread_mutex_unlock(&connections->lock);
	return found;
}

void fgt_web_connections_limit(struct fgt_web_connections *connections,
			       struct fgt_web_connection *connection,
			       unsigned int seconds)
{
	if (!connection)
		return;
	pthread_mutex_lock(&connections->lock);
	connection->due_ns = due_in(seconds);
	connection->is_waiting = false;
	pthread_mutex_unlock(&connections->lock);
}

bool fgt_web_connections_is_late(struct fgt_web_connections *connections,
				 const struct fgt_web_connection *connection)
{
	bool is_late;

	pthread_mutex_lock(&connections->lock);
	is_late = connection && connection->is_late;
	pthread_mutex_unlock(&connections->lock);
	return is_late;
}

void fgt_web_connections_drop(struct fgt_web_connections *connections,
			      struct fgt_web_connection *connection)
{
	pthread_mutex_lock(&connections->lock);
	if (connection)
		connection->fd = -1;
	pthread_mutex_unlock(&connections->lock);
}

void fgt_web_connections_tend(struct fgt_web_connections *connections)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	pthread_mutex_lock(&connections->lock);
	for (size_t i = 0; i < FGT_WEB_PLACES_MAX; i++) {
		struct fgt_web_connection *one = &connections->all[i];

		if (one->fd >= 0 && one->due_ns <= now_ns)
			shut_down(one);
	}
	pthread_mutex_unlock(&connections->lock);
}
