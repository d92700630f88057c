/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as the daemon gets it: of fixed layout, made of the client's
 * msgpack by a front (fronts.h), a process without rights that the client may
 * have taken over. So each value is checked here once more.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_AGENT_DAEMON_REQUESTS_REQUEST_H
#define FGT_AGENT_DAEMON_REQUESTS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

/* Bytes of texts, without their NUL. */
#define FGT_REQUEST_NAME	64 /* of a program */
#define FGT_REQUEST_DESTINATION 4095
#define FGT_REQUEST_TEXT	1023 /* of a registration's destination */
#define FGT_REQUEST_RELEASE	200
#define FGT_REQUEST_ENVIRONMENT 64
#define FGT_REQUEST_TRANSACTION 200
#define FGT_REQUEST_FACTS	32768 /* a transaction's, as msgpack */

enum fgt_request_verb {
	FGT_REQUEST_REFUSED, /* what came is no request */
	/* The first of a connection: */
	FGT_REQUEST_ATTACH,
	FGT_REQUEST_DETACH,
	FGT_REQUEST_TARGETS,
	FGT_REQUEST_SLICE,
	FGT_REQUEST_STATUS,
	FGT_REQUEST_REGISTER,
	FGT_REQUEST_TRIGGERS,
	/* Later ones, of a connection that stays open: */
	FGT_REQUEST_CONFIRM,
	FGT_REQUEST_DELIVER,
	FGT_REQUEST_BYE,
	FGT_REQUEST_VERBS,
};

/* Truth values are 0 or 1. At most one of the three is given. */
struct fgt_request_selector {
	int32_t pid; /* 0: not given */
	uint32_t is_self;
	char name[FGT_REQUEST_NAME + 1]; /* "": not given */
};

struct fgt_request_target { /* attach and detach */
	struct fgt_request_selector selector;
	uint32_t is_with_children;
};

/* An end of a range. */
struct fgt_request_end {
	uint64_t ns;
	uint32_t is_given, is_wall; /* is_wall: of the wall clock */
};

struct fgt_request_slice {
	struct fgt_request_selector selector;
	int32_t tid; /* 0: all */
	uint32_t is_moment; /* what threads do at the last tick */
	struct fgt_request_end from, to;
	uint64_t last_ns; /* 0: not given; else from is not */
};

struct fgt_request_register {
	uint32_t is_embedded;
	uint32_t has_spans, has_ring; /* descriptors came, in this order */
	char destination[FGT_REQUEST_TEXT + 1];
	char release[FGT_REQUEST_RELEASE + 1];
	char environment[FGT_REQUEST_ENVIRONMENT + 1];
};

struct fgt_request_deliver {
	uint64_t from_ns, to_ns; /* if it has no data */
	uint32_t data_at, data_len; /* in the frame; 0: none */
	uint32_t has_times; /* it is a transaction of known begin and end */
	uint32_t facts_len; /* 0: none */
	char destination[FGT_REQUEST_DESTINATION + 1];
	char name[FGT_REQUEST_TRANSACTION + 1]; /* for the log */
	char event_id[33];
	/* For the process that delivers, which has the rights of the client:
	 * the daemon does not read them. */
	uint8_t facts[FGT_REQUEST_FACTS];
};

struct fgt_request_triggers {
	char name[FGT_REQUEST_NAME + 1]; /* to be tried; "": list all */
};

struct fgt_request_refusal {
	int32_t error; /* a negative errno */
	uint32_t is_malformed; /* its connection ends */
	struct fgt_why why;
};

struct fgt_request {
	uint32_t verb; /* enum fgt_request_verb */
	union {
		struct fgt_request_refusal refusal;
		struct fgt_request_target target;
		struct fgt_request_slice slice;
		struct fgt_request_register registration;
		struct fgt_request_deliver deliver;
		struct fgt_request_triggers triggers;
	};
};

/* What a front gets of a request: the frame without its length, as it came. */
struct fgt_request_frame {
	const uint8_t *bytes;
	size_t len;
	bool is_kept; /* of a connection that stays open */
};

/* The bytes of a request of that verb; verbs without arguments have a head. */
size_t fgt_request_size(uint32_t verb);

/*
 * len bytes came as a request of that frame: are they as this header has it?
 * verb in range and fit for the connection, size exact, texts terminated,
 * numbers in their ranges, data inside the frame.
 */
bool fgt_request_is_valid(const struct fgt_request *request, size_t len,
			  const struct fgt_request_frame *frame);

#endif
