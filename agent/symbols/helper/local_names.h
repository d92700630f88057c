/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names without a helper process: in a program that names its own frames, no
 * child may be made (they are the program's to wait for), and its files have
 * its trust already. One image is open at a time.
 */
#ifndef FGT_AGENT_SYMBOLS_HELPER_LOCAL_NAMES_H
#define FGT_AGENT_SYMBOLS_HELPER_LOCAL_NAMES_H

#include "agent/symbols/helper/helper.h"

/* Larger files are named by their symbols only: reading DWARF takes a multiple
 * of this in memory. */
#define FGT_LOCAL_DWARF_MAX (64u << 20)

struct fgt_local_names;

/* As fgt_helper_ask(), without the errors of a helper process. *names is made
 * when it is needed. */
int fgt_local_names_ask(struct fgt_local_names **names,
			const struct fgt_helper_request *request,
			const uint64_t *addresses,
			struct fgt_image_files *files, int64_t *left_ms,
			struct fgt_bytes *reply);

void fgt_local_names_free(struct fgt_local_names *names);

#endif
