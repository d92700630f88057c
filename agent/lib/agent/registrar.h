/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes this process known to the agent over a connection that stays open,
 * and again when the agent has been restarted.
 */
#ifndef FGT_AGENT_LIB_AGENT_REGISTRAR_H
#define FGT_AGENT_LIB_AGENT_REGISTRAR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "agent/protocol/channel.h"
#include "ringbuf/base/fd.h"

/* Embedded by its owner. Once the worker runs, it alone calls all functions,
 * except _connect and the getters. */
struct fgt_registrar {
	/* Embedded recording: its ring. Nothing is logged, because the program
	 * did not ask for an agent. -1: the agent samples. */
	int ring_fd;
	struct fgt_file_id ring; /* of ring_fd: the program may close it */
	struct fgt_channel channel;
	uint64_t retry_ns; /* no try before */
	bool is_optional; /* an absent agent is not logged */
	atomic_bool is_registered;
	/* 0, or why the last connection failed: a registered program may have
	 * changed its root or its user since. Relaxed: no other field depends
	 * on it. */
	atomic_int connect_error;
	/* Protects what follows; innermost. */
	pthread_mutex_t lock;
	double hz; /* of the agent; 0: not registered */
	char limitation[256]; /* why it is not registered, or the agent's */
};

void fgt_registrar_init(struct fgt_registrar *registrar, int ring_fd);
/* Sends `bye` if it is registered. */
void fgt_registrar_done(struct fgt_registrar *registrar);
/* In the child of a fork; async-signal-safe. */
void fgt_registrar_forked(struct fgt_registrar *registrar);

/* Errors of fgt_channel_open(), fgt_channel_call() and of the agent. */
int fgt_registrar_register(struct fgt_registrar *registrar);
/* Detects the end of the agent; registers if it is not registered. */
void fgt_registrar_refresh(struct fgt_registrar *registrar);
/*
 * A request over the open connection. -ENOTCONN. -EMSGSIZE and -ENOMEM of the
 * request itself: nothing has been sent. The error of a reply, with why set.
 * Errors of fgt_channel_call(), after which the connection is closed.
 */
int fgt_registrar_call(struct fgt_registrar *registrar,
		       struct fgt_builder *request, struct fgt_why *why);

/* Another connection to the agent. Errors of fgt_channel_open(). Any thread. */
int fgt_registrar_connect(struct fgt_registrar *registrar, uint64_t deadline_ns,
			  struct fgt_channel *ret_channel);

bool fgt_registrar_is_registered(const struct fgt_registrar *registrar);
double fgt_registrar_hz(struct fgt_registrar *registrar);
void fgt_registrar_get_limitation(struct fgt_registrar *registrar,
				  char *ret_text, size_t len);

#endif
