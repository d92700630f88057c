/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libfgtrace-embed.so, once, so that nothing of it is seen by the host.
 */
#ifndef FGT_AGENT_LIB_EMBEDDED_EMBED_LOAD_H
#define FGT_AGENT_LIB_EMBEDDED_EMBED_LOAD_H

#include "agent/embed/embed.h"

/* Stays loaded for good. -ENOENT: it is not installed, of another version, or
 * cannot be loaded; ret_why tells which, and the remedy. MT-Safe | AS-Unsafe */
int fgt_embed_load(const struct fgt_embed_ops **ret_ops,
		   char ret_why[FGT_EMBED_WHY]);

#endif
