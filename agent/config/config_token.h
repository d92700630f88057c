/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of the libconfig language, minus all that surprises.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_TOKEN_H
#define FGT_AGENT_CONFIG_CONFIG_TOKEN_H

#include <stddef.h>

#include "ringbuf/base/why.h"

enum fgt_config_token_kind {
	FGT_TOKEN_END,
	FGT_TOKEN_NAME,
	FGT_TOKEN_BOOL,
	FGT_TOKEN_NUMBER,
	FGT_TOKEN_STRING,
	FGT_TOKEN_SIGN, /* one character of =:;,(){}[] */
};

struct fgt_config_token {
	enum fgt_config_token_kind kind;
	const char *text;
	size_t len;
	unsigned int line;
};

struct fgt_config_scanner {
	char *at, *end; /* what is left; comments are blanked in place */
	const char *file_name;
	unsigned int line;
	unsigned int name_count; /* keys so far */
	unsigned int depth; /* groups and lists open */
	struct fgt_config_token token; /* looked at, not taken yet */
	struct fgt_why *why;
};

/* Looks at the next token. The text must be UTF-8 and end with a NUL at end.
 * -EINVAL. */
int fgt_config_token_next(struct fgt_config_scanner *scanner);

/* Sets why to "FILE:LINE: …" and returns -EINVAL. */
int fgt_config_token_refuse(const struct fgt_config_scanner *scanner,
			    unsigned int line, const char *format, ...)
	FGT_PRINTF(3, 4);

#endif
