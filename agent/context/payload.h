/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of an OpenTelemetry process context: which service a program is a
 * part of. Read in a process without rights, where the sampler has any.
 */
#ifndef FGT_AGENT_CONTEXT_PAYLOAD_H
#define FGT_AGENT_CONTEXT_PAYLOAD_H

#include "ringbuf/slice/service.h"

/* A larger payload is not read. */
#define FGT_CONTEXT_PAYLOAD_MAX 65536u

/*
 * Reads bytes[len] of protobuf from another process: a ProcessContext message
 * (field 1 is a Resource), or a Resource itself, as older programs publish.
 * Texts that it lacks, or that are no strings, are "". -EBADMSG.
 *
 * MT-Safe | AS-Safe
 */
int fgt_context_payload_read(const uint8_t *bytes, size_t len,
			     struct fgt_service *ret_service);

#endif
