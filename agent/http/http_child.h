/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that serves HTTP for an agent: this program executed again, with
 * a user id that nothing else has, no capabilities, no files, and the system
 * calls that answering takes. It gets the socket that listens, and asks the
 * agent by the control protocol; what it may ask for, agent/daemon/http
 * decides. So requests and slices are only read where they can do no harm
 * (fault H15).
 */
#ifndef FGT_AGENT_HTTP_HTTP_CHILD_H
#define FGT_AGENT_HTTP_HTTP_CHILD_H

#include <stdint.h>

#include "agent/http/guard.h"

#define FGT_WEB_CHILD_NAME "fgt-http"
#define FGT_WEB_CHILD_VERB "serve-http"

/* The agent's first message; the listening socket comes with it. */
struct fgt_web_setup {
	struct fgt_web_guard guard;
	uint32_t state_frames; /* enum fgt_state_frames */
};

/* The process's life; returns only if these are not its arguments. Early in
 * main(), while there is one thread. */
void fgt_web_serve_if_asked(int argc, char **argv);

#endif
