/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time limits of connections, which libmicrohttpd has only for silence: a
 * client that sends or reads a byte now and then would keep its place for ever
 * (fault H7). The socket of a connection that is late is shut down, and
 * libmicrohttpd then closes it.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_LIMITS_CONNECTIONS_H
#define FGT_AGENT_HTTP_LIMITS_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FGT_WEB_CONNECTIONS_MAX 64
/* Those that have been closed keep their place until libmicrohttpd sees it. */
#define FGT_WEB_PLACES_MAX  (2 * FGT_WEB_CONNECTIONS_MAX)
#define FGT_WEB_HEADER_S    5
#define FGT_WEB_WAITING_MAX 32 /* whose header is not complete */
#define FGT_WEB_ANSWER_S    600 /* to take the whole answer */

struct fgt_web_connection {
	int fd; /* borrowed; -1: the place is free */
	uint64_t due_ns; /* CLOCK_MONOTONIC; UINT64_MAX: no limit now */
	bool is_waiting; /* its header is not complete */
	bool is_late; /* it was shut down */
};

struct fgt_web_connections {
	pthread_mutex_t lock; /* of all; nests inside none */
	struct fgt_web_connection all[FGT_WEB_PLACES_MAX];
};

void fgt_web_connections_init(struct fgt_web_connections *connections);

/* From now on its header may take FGT_WEB_HEADER_S. The oldest of
 * FGT_WEB_WAITING_MAX whose headers are not complete makes room for it: beside
 * a flood of silent connections a client that asks at once is served. NULL: no
 * place is free. */
struct fgt_web_connection *
fgt_web_connections_add(struct fgt_web_connections *connections, int fd);

/* Its header is complete. seconds 0: no limit, until the next call. connection
 * may be NULL. */
void fgt_web_connections_limit(struct fgt_web_connections *connections,
			       struct fgt_web_connection *connection,
			       unsigned int seconds);

/* Was it shut down? connection may be NULL. */
bool fgt_web_connections_is_late(struct fgt_web_connections *connections,
				 const struct fgt_web_connection *connection);

/* Before its socket is closed. connection may be NULL. */
void fgt_web_connections_drop(struct fgt_web_connections *connections,
			      struct fgt_web_connection *connection);

/* Several times a second: shuts down those that are late. */
void fgt_web_connections_tend(struct fgt_web_connections *connections);

#endif
