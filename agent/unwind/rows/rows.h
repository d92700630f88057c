/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row servers: processes that read the ELF files of other users for the
 * sampler, one for each user, so that a hostile file costs its user a server
 * and no other user a tick. A server is this program, executed again and
 * confined (agent/children/confinement.h).
 */
#ifndef FGT_AGENT_UNWIND_ROWS_ROWS_H
#define FGT_AGENT_UNWIND_ROWS_ROWS_H

#include "agent/unwind/maps/image_file.h"

/*
 * Before the first use of a cache: its files are read by servers, which are
 * started when they are needed, by a thread that this makes. path: what to
 * execute, NULL: /proc/self/exe. -ENOMEM, -EAGAIN.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_rows_serve_cache(struct fgt_image_cache *cache, const char *path);

/*
 * Runs a server; returns only if these are not the arguments of one. A program
 * that has servers calls this first in main(), while it has no other thread.
 */
void fgt_rows_serve_if_asked(int argc, char **argv);

#endif
