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

static struct {
	struct fgt_registrar registrar;
	bool is_started;
	uint64_t refresh_ns; /* not before */
} crash_link;

/* False: nothing for an agent to keep. */
static bool start(void)
{
	const struct fgt_open_backend *backend = &fgt_library.backend;

	if (!backend->calls->ring_fd ||
	    !fgt_library.settings.options.destination)
		return false;
	fgt_registrar_init(&crash_link.registrar,
			   backend->calls->ring_fd(backend->state));
	crash_link.refresh_ns = 0;
	crash_link.is_started = true;
	return true;
}

static uint64_t work(uint64_t now_ns)
{
	if (!fgt_library_is_started() || (!crash_link.is_started && !start()))
		return UINT64_MAX;
	if (now_ns >= crash_link.refresh_ns) {
		fgt_registrar_refresh(&crash_link.registrar);
		crash_link.refresh_ns = now_ns + REFRESH_NS;
	}
	return UINT64_MAX;
}

/* A normal end: the agent does not look into the ring. */
static void stop(void)
{
	if (crash_link.is_started)
		fgt_registrar_done(&crash_link.registrar);
	crash_link.is_started = false;
}

static void forked(void)
{
	if (crash_link.is_started)
		fgt_registrar_forked(&crash_link.registrar);
	crash_link.is_started = false;
}

const struct fgt_part fgt_crash_link_part = {
	.stop = stop,
	.work = work,
	.forked = forked,
};
