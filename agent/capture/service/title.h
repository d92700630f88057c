/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program calls itself: it writes that over its arguments, so that ps
 * shows "postgres: checkpointer" or "nginx: worker process".
 */
#ifndef FGT_AGENT_CAPTURE_SERVICE_TITLE_H
#define FGT_AGENT_CAPTURE_SERVICE_TITLE_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/slice/slice.h"

/* Where a process has its arguments, by field 48 of its stat; 0: not known, or
 * not permitted. MT-Safe | AS-Safe */
uint64_t fgt_title_address(int proc_fd);

/*
 * The title in the first bytes of the arguments. "" if they are a command line:
 * a title has words behind the program's name, where arguments have a NUL, and
 * is no path. Spaces at its end are padding. MT-Safe | AS-Safe
 */
void fgt_title_parse(const char *bytes, size_t len,
		     char ret_title[FGT_TITLE_MAX]);

#endif
