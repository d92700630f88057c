/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenTelemetry process context of another process (OTEP 4719): a mapping
 * that is named OTEL_CTX begins with a header, which points to a payload.
 */
#ifndef FGT_AGENT_CAPTURE_SERVICE_CONTEXT_H
#define FGT_AGENT_CAPTURE_SERVICE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

/* Reads all len bytes of the process's memory at an address, or fails:
 * negative errno. */
struct fgt_context_memory {
	int (*read)(void *context, uint64_t address, void *buffer, size_t len);
	void *context;
};

/*
 * Copies the payload of the context whose header is at an address, if it is not
 * the one that was published at known_ns. buffer: of size bytes. 1: copied; 0:
 * it is that one. -EAGAIN: it is being written, or changed at each of a few
 * reads; -EPROTO: no context, or of another version; -EMSGSIZE: larger than the
 * buffer; errors of the memory's read().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_context_copy(const struct fgt_context_memory *memory, uint64_t address,
		     uint64_t known_ns, uint8_t *buffer, size_t size,
		     uint64_t *ret_published_ns, size_t *ret_len);

#endif
