/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of thread states. Tables of every architecture are always built in,
 * so that a slice taken on one machine reads the same on another.
 * Runs in any thread; touches static data only.
 */
#include "agent/capture/look/state_name.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>

#include "ringbuf/base/nearest.h"
#include "ringbuf/slice/frame.h"

static const char *const calls_x86_64[] = {
#include "agent/capture/look/syscalls_x86_64.inc"
};

static const char *const calls_aarch64[] = {
#include "agent/capture/look/syscalls_aarch64.inc"
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *arch;
	const char *const *calls;
	size_t count;
} tables[] = {
	{ "x86_64", calls_x86_64, COUNT_OF(calls_x86_64) },
	{ "aarch64", calls_aarch64, COUNT_OF(calls_aarch64) },
};

_Static_assert(FGT_STATE_SYSCALL_FIRST + COUNT_OF(calls_x86_64) <=
		       FGT_STATE_MAX,
	       "every system call has a state");
_Static_assert(FGT_STATE_SYSCALL_FIRST + COUNT_OF(calls_aarch64) <=
		       FGT_STATE_MAX,
	       "every system call has a state");

static const char *call_name(const char *arch, uint32_t number)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++) {
		if (strcmp(arch, tables[i].arch) != 0)
			continue;
		if (number < tables[i].count && tables[i].calls[number])
			return tables[i].calls[number];
		break;
	}
	return "syscall";
}

const char *fgt_state_name(const char *arch, uint32_t state)
{
	if (state >= FGT_STATE_SYSCALL_FIRST && state <= FGT_STATE_MAX)
		return call_name(arch, state - FGT_STATE_SYSCALL_FIRST);
	switch (state) {
	case FGT_STATE_RUNNING:
		return "running";
	case FGT_STATE_PAGE_FAULT:
		return "page_fault";
	case FGT_STATE_STOPPED:
		return "stopped";
	case FGT_STATE_RUNNABLE:
		return "runnable";
	default:
		return "unknown";
	}
}

bool fgt_state_exists(const char *arch, const char *pattern,
		      const char **ret_nearest)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, pattern);
	for (uint32_t state = 0; state <= FGT_STATE_MAX; state++) {
		const char *name = fgt_state_name(arch, state);

		if (fnmatch(pattern, name, 0) == 0)
			return true;
		fgt_nearest_offer(&nearest, name);
	}
	*ret_nearest = nearest.best;
	return false;
}

bool fgt_state_is_misspelt(const char *pattern, const char **ret_nearest)
{
	struct utsname system;

	return uname(&system) == 0 &&
	       !fgt_state_exists(system.machine, pattern, ret_nearest);
}
