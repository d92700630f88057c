/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of libfgtrace-http.so to libfgtrace, which loads it with
 * RTLD_LOCAL: an HTTP server inside a program, for the stacks of that program.
 * It passes plain types only.
 */
#ifndef FGT_AGENT_HTTP_PROGRAM_PROGRAM_SERVER_H
#define FGT_AGENT_HTTP_PROGRAM_PROGRAM_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_WEB_OBJECT_VERSION 1
#define FGT_WEB_OBJECT_SYMBOL  "fgt_web_object"

struct fgt_web_program {
	/* Does what fgt_get_slice() does: the bytes of a .fgt file, of
	 * malloc(). Any thread. */
	int (*cut)(uint64_t from_ns, uint64_t to_ns, uint8_t **ret_bytes,
		   size_t *ret_len);
};

struct fgt_web_operations {
	unsigned int version;
	/*
	 * Serves until stop; one server at a time. program outlives it.
	 * -EINVAL no loopback address, -EADDRINUSE, -EACCES, -EALREADY,
	 * -EAGAIN, -ENOMEM, with why. MT-Safe
	 */
	int (*listen)(const char *address,
		      const struct fgt_web_program *program,
		      struct fgt_why *why);
	/* Waits for the slices that are being cut. Nothing without server. */
	void (*stop)(void);
	/* In the child of a fork: closes the socket, frees nothing. */
	void (*forked)(void);
};

/* The only exported symbol. */
const struct fgt_web_operations *fgt_web_object(void);

#endif
