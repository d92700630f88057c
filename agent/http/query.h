/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the target of a request, "/path?name=value&name=value", apart. The
 * bytes come from anywhere: what is not exactly of this form is refused.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_AGENT_HTTP_QUERY_H
#define FGT_AGENT_HTTP_QUERY_H

#include <stddef.h>

#include "ringbuf/base/why.h"

#define FGT_WEB_TARGET_MAX     2047 /* bytes */
#define FGT_WEB_PARAMETERS_MAX 16

struct fgt_web_parameter {
	const char *name, *value; /* in text */
};

struct fgt_web_query {
	const char *path; /* in text; as it came, nothing is decoded in it */
	struct fgt_web_parameter parameters[FGT_WEB_PARAMETERS_MAX];
	unsigned int count;
	char text[FGT_WEB_TARGET_MAX + 1];
};

/*
 * Names and values are decoded: %41 is A, + a blank. It must not be copied.
 * -EINVAL: no path, a percent sign without two hex digits, a control
 * character, a parameter without name, one that is there twice, too many;
 * -E2BIG: too long. Both with why.
 */
int fgt_web_query_parse(const char *target, struct fgt_web_query *ret_query,
			struct fgt_why *why);

/* The value of a parameter, NULL if it is not there or is empty. */
const char *fgt_web_query_get(const struct fgt_web_query *query,
			      const char *name);

#endif
