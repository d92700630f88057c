/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers a process that records itself. Runs on the worker, but for start
 * and stop, while there is none or none any more.
 */
#include "agent/lib/agent/crash_link.h"

#include "agent/lib/agent/registrar.h"

static struct fgt_registrar registrar;
static bool is_started;

/* That there is no agent is no fault here: nobody asked for one. */
static void keep_silent(void *context, const char *line)
{
	(void)context;
	(void)line;
}

void fgt_crash_link_start(const struct fgt_backend_options *options,
			  int ring_fd)
{
	struct fgt_backend_options silent = *options;

	silent.log = keep_silent;
	fgt_registrar_init(&registrar, &silent, ring_fd);
	is_started = true;
}

void fgt_crash_link_refresh(void)
{
	if (is_started)
		fgt_registrar_refresh(&registrar);
}

void fgt_crash_link_stop(void)
{
	if (is_started)
		fgt_registrar_done(&registrar);
	is_started = false;
}

void fgt_crash_link_forked(void)
{
	if (is_started)
		fgt_registrar_forked(&registrar);
	is_started = false;
}
