/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one frame for the agent's control socket: [u32 length][msgpack map],
 * see agent/protocol/protocol.h. Of libc only.
 */
#ifndef FGT_AGENT_PROTOCOL_WIRE_H
#define FGT_AGENT_PROTOCOL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"

/* Embedded; the first error sticks. */
struct fgt_wire {
	uint8_t *bytes;
	size_t len, capacity;
	uint32_t pairs; /* of the outermost map */
	uint32_t inner; /* pairs still to come of an inner map */
	int error;
};

/* Opens the map with "v" and "verb". */
void fgt_wire_init(struct fgt_wire *wire, const char *verb);
void fgt_wire_done(struct fgt_wire *wire);

/* NULL texts are left out. */
void fgt_wire_text(struct fgt_wire *wire, const char *key, const char *text);
void fgt_wire_uint(struct fgt_wire *wire, const char *key, uint64_t value);
void fgt_wire_int(struct fgt_wire *wire, const char *key, int64_t value);
void fgt_wire_bool(struct fgt_wire *wire, const char *key, bool value);
void fgt_wire_bin(struct fgt_wire *wire, const char *key, const void *bytes,
		  size_t len);

/* An array of count maps: before each fgt_wire_map(), then its pairs. */
void fgt_wire_array(struct fgt_wire *wire, const char *key, uint32_t count);
void fgt_wire_map(struct fgt_wire *wire, uint32_t pairs);

/* The frame, until _done. -ENOMEM, -EMSGSIZE. */
int fgt_wire_finish(struct fgt_wire *wire, const uint8_t **ret_bytes,
		    size_t *ret_len);

#endif
