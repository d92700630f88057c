/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the library: where this process records itself and has a
 * destination, an agent that runs is given a copy of the ring's descriptor, so
 * that the last seconds before a crash are not lost with the process. Runs on
 * the worker, except stop (after the worker) and forked.
 */
#include "agent/lib/agent/registrar.h"
#include "agent/lib/library.h"

#define REFRESH_NS UINT64_C(1000000000)

static bool is_started;
static uint64_t refresh_ns; /* not before */

/* False: nothing for an agent to keep. */
static bool start(void)
{
	if (!fgt_library.backend->ring_fd ||
	    !fgt_library.settings.options.destination)
		return false;
	fgt_registrar_begin(fgt_library.backend->ring_fd());
	refresh_ns = 0;
	is_started = true;
	return true;
}

static uint64_t work(uint64_t now_ns)
{
	if (!fgt_library_is_started() || (!is_started && !start()))
		return UINT64_MAX;
	if (now_ns >= refresh_ns) {
		fgt_registrar_refresh();
		refresh_ns = now_ns + REFRESH_NS;
	}
	return UINT64_MAX;
}

/* A normal end: the agent does not look into the ring. */
static void stop(void)
{
	if (is_started)
		fgt_registrar_end();
	is_started = false;
}

static void forked(void)
{
	fgt_registrar_forked();
	is_started = false;
}

const struct fgt_part fgt_crash_link_part = {
	.stop = stop,
	.work = work,
	.forked = forked,
};
