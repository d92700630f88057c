/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libfgtrace-embed.so, once. The program sees none of its symbols.
 */
#ifndef FGT_AGENT_LIB_EMBEDDED_EMBED_LOAD_H
#define FGT_AGENT_LIB_EMBEDDED_EMBED_LOAD_H

#include "agent/embed/embed.h"

/* It stays loaded. -ENOENT: it is not installed, has another version, or cannot
 * be loaded; why: which of these, and what to do. MT-Safe | AS-Unsafe */
int fgt_embed_load(const struct fgt_embed_ops **ret_ops, struct fgt_why *why);

#endif
