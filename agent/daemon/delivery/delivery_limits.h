/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations that asked to be left alone for a while (429).
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LIMITS_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LIMITS_H

#include <stdint.h>

#define FGT_DELIVERY_LIMITS_MAX 32

/* A destination of a user, without its secrets. */
struct fgt_delivery_address {
	uint64_t hash;
	uint32_t uid;
};

struct fgt_delivery_address fgt_delivery_address_of(uint32_t uid,
						    const char *destination);

/* { 0 } has none. */
struct fgt_delivery_limits {
	struct {
		struct fgt_delivery_address address;
		uint64_t until_ns; /* 0: free */
	} rows[FGT_DELIVERY_LIMITS_MAX];
};

/* Until then it wants no more; where there is no row left, the limit that
 * ends soonest is forgotten. */
void fgt_delivery_limits_set(struct fgt_delivery_limits *limits,
			     const struct fgt_delivery_address *address,
			     uint64_t until_ns);

/* 0: it has not asked. */
uint64_t fgt_delivery_limits_until(const struct fgt_delivery_limits *limits,
				   const struct fgt_delivery_address *address);

#endif
