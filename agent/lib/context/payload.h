/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of the program as protobuf: the payload of an OpenTelemetry
 * process context.
 */
#ifndef FGT_AGENT_LIB_CONTEXT_PAYLOAD_H
#define FGT_AGENT_LIB_CONTEXT_PAYLOAD_H

#include <stdint.h>

#include "agent/lib/fgtrace.h"

/* Attributes of FGT_SETTINGS_SERVICE bytes at most, with their names. */
#define FGT_PAYLOAD_MAX 2048u

/*
 * Writes a ProcessContext message with the service's name, namespace, version,
 * instance and environment, as far as they are given. Returns its length.
 *
 * MT-Safe | AS-Unsafe
 */
size_t fgt_payload_write(const struct fgt_options *options,
			 uint8_t ret_bytes[FGT_PAYLOAD_MAX]);

#endif
