/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes this process known to the agent over a connection that stays open,
 * and again when the agent has been restarted.
 */
#ifndef FGT_AGENT_LIB_AGENT_REGISTRAR_H
#define FGT_AGENT_LIB_AGENT_REGISTRAR_H

#include <stdbool.h>

#include "agent/protocol/channel.h"

/*
 * One in a process: the agent's backend uses it, or the crash link of embedded
 * recording. Once the worker runs, it alone calls all functions, except
 * _connect and the getters.
 */

/*
 * Not registered yet. ring_fd: of embedded recording, whose ring the agent
 * keeps for a crash; nothing is logged then, because the program did not ask
 * for an agent. -1: the agent samples.
 */
void fgt_registrar_begin(int ring_fd);
/* Sends `bye` if it is registered. */
void fgt_registrar_end(void);
/* In the child of a fork. AS-Safe */
void fgt_registrar_forked(void);

/* Errors of fgt_channel_open(), fgt_channel_call() and of the agent.
 * is_optional: an absent agent is not logged. */
int fgt_registrar_register(bool is_optional);
/* Detects the end of the agent; registers if it is not registered. */
void fgt_registrar_refresh(void);
/*
 * A request over the open connection. -ENOTCONN. -EMSGSIZE and -ENOMEM of the
 * request itself: nothing has been sent. The error of a reply, with why set.
 * Errors of fgt_channel_call(), after which the connection is closed.
 */
int fgt_registrar_call(struct fgt_builder *request, struct fgt_why *why);

/* Another connection to the agent. Errors of fgt_channel_open(). Any thread. */
int fgt_registrar_connect(uint64_t deadline_ns,
			  struct fgt_channel *ret_channel);
/* The deadline of a request that begins now. */
uint64_t fgt_registrar_deadline(void);

bool fgt_registrar_is_registered(void);
double fgt_registrar_hz(void);
void fgt_registrar_get_limitation(char *ret_text, size_t len);

#endif
