/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the agent, each with one deadline: what agent_link.c (the
 * backend) and registrar.c are made of.
 */
#ifndef FGT_AGENT_LIB_AGENT_AGENT_CALL_H
#define FGT_AGENT_LIB_AGENT_AGENT_CALL_H

#include "agent/lib/backend.h"
#include "agent/protocol/answer.h"
#include "agent/protocol/channel.h"
#include "agent/protocol/wire.h"

/*
 * Connects to the socket of the options; without one to those where agents
 * have it, this user's first. Errors of fgt_channel_open().
 */
int fgt_agent_connect(const struct fgt_options *options, uint64_t deadline_ns,
		      struct fgt_channel *ret_channel);

/*
 * Sends the request and reads one reply. 0: it says ok; its error (with why
 * in the answer) or one of fgt_channel_*(), -EBADMSG. Texts and numbers of the
 * answer only; its data is gone.
 */
int fgt_agent_call(const struct fgt_channel *channel, struct fgt_wire *request,
		   const int *fds, unsigned int fd_count, uint64_t deadline_ns,
		   struct fgt_answer *ret_answer);

/* Cuts a slice over a connection of its own. Errors of fgt_get_slice();
 * ret_way: 0, or why there was no connection, as fgt_agent_connect(). */
int fgt_agent_cut(const struct fgt_options *options, uint64_t from_ns,
		  uint64_t to_ns, uint64_t deadline_ns, int *ret_way,
		  struct fgt_slice **ret_slice);

#endif
