/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices and figures of the agent whose child this process is: each request is
 * one connection of the control protocol, which the agent hands over.
 */
#ifndef FGT_AGENT_HTTP_AGENT_SOURCE_H
#define FGT_AGENT_HTTP_AGENT_SOURCE_H

#include "agent/http/source.h"

/*
 * socket_fd: to the agent, SOCK_SEQPACKET. A message of one byte asks for a
 * connection, the answer is one byte with a descriptor.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_agent_source_init(struct fgt_web_source *source, int socket_fd);

#endif
