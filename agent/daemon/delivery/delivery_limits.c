/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small table of limits. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_limits.h"

#include <stdbool.h>
#include <stddef.h>

/* FNV-1a. Should two destinations meet, one of them waits in vain. */
struct fgt_delivery_address fgt_delivery_address_of(uint32_t uid,
						    const char *destination)
{
	struct fgt_delivery_address address = {
		.hash = UINT64_C(0xcbf29ce484222325), .uid = uid
	};

	for (; *destination; destination++)
		address.hash = (address.hash ^ (unsigned char)*destination) *
			       UINT64_C(0x100000001b3);
	return address;
}

static bool is_same(const struct fgt_delivery_address *a,
		    const struct fgt_delivery_address *b)
{
	return a->hash == b->hash && a->uid == b->uid;
}

void fgt_delivery_limits_set(struct fgt_delivery_limits *limits,
			     const struct fgt_delivery_address *address,
			     uint64_t until_ns)
{
	size_t best = 0;

	for (size_t i = 0; i < FGT_DELIVERY_LIMITS_MAX; i++) {
		if (is_same(&limits->rows[i].address, address)) {
			best = i;
			break;
		}
		if (limits->rows[i].until_ns < limits->rows[best].until_ns)
			best = i;
	}
	limits->rows[best].address = *address;
	limits->rows[best].until_ns = until_ns;
}

uint64_t fgt_delivery_limits_until(const struct fgt_delivery_limits *limits,
				   const struct fgt_delivery_address *address)
{
	for (size_t i = 0; i < FGT_DELIVERY_LIMITS_MAX; i++)
		if (limits->rows[i].until_ns &&
		    is_same(&limits->rows[i].address, address))
			return limits->rows[i].until_ns;
	return 0;
}
