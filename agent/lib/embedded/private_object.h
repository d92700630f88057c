/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads an object that is installed with this library, so that the program sees
 * none of its symbols. In a program with more privileges than its user, no file
 * is loaded that this user could have put there.
 */
#ifndef FGT_AGENT_LIB_EMBEDDED_PRIVATE_OBJECT_H
#define FGT_AGENT_LIB_EMBEDDED_PRIVATE_OBJECT_H

#include "ringbuf/base/why.h"

struct fgt_private_object {
	const char *name; /* "libfgtrace-embed.so" */
	/* A function without arguments that returns the object's operations,
	 * whose first member is an unsigned int, the version. */
	const char *symbol;
	unsigned int version;
};

/*
 * Its operations; it stays loaded. NULL: it is not installed, has another
 * version, or cannot be loaded; why: which of these, "" if it was not found.
 *
 * MT-Safe | AS-Unsafe
 */
const void *fgt_private_object_load(const struct fgt_private_object *object,
				    struct fgt_why *why);

#endif
