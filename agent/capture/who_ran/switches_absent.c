/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of switches.c where clang, bpftool or libbpf were missing when
 * this was built: says so, and nothing else is ever called.
 */
#include <errno.h>

#include "agent/capture/who_ran/switches.h"

int fgt_switches_open(struct fgt_switches **ret_switches, struct fgt_why *why)
{
	(void)ret_switches;
	return fgt_why_set(why, -ENOSYS,
			   "built without BPF: clang, bpftool or libbpf was "
			   "missing");
}

void fgt_switches_close(struct fgt_switches *switches)
{
	(void)switches;
}

int fgt_switches_start(struct fgt_switches *switches)
{
	(void)switches;
	return -ENOSYS;
}

void fgt_switches_stop(struct fgt_switches *switches)
{
	(void)switches;
}

void fgt_switches_watch(struct fgt_switches *switches, int32_t pid)
{
	(void)switches;
	(void)pid;
}

void fgt_switches_unwatch(struct fgt_switches *switches, int32_t pid)
{
	(void)switches;
	(void)pid;
}

int fgt_switches_add(struct fgt_switches *switches, int32_t pid, int32_t tid,
		     void *home, void *owner, uint32_t *ret_index)
{
	(void)switches;
	(void)pid;
	(void)tid;
	(void)home;
	(void)owner;
	(void)ret_index;
	return -ENOSYS;
}

void fgt_switches_remove(struct fgt_switches *switches, uint32_t index)
{
	(void)switches;
	(void)index;
}

void fgt_switches_set_instant(struct fgt_switches *switches,
			      uint64_t instant_ns)
{
	(void)switches;
	(void)instant_ns;
}

void fgt_switches_take(struct fgt_switches *switches,
		       void (*changed)(void *home, void *owner))
{
	(void)switches;
	(void)changed;
}

bool fgt_switches_read(const struct fgt_switches *switches, uint32_t index,
		       struct fgt_switch_slot *ret_slot)
{
	(void)switches;
	(void)index;
	(void)ret_slot;
	return false;
}

uint64_t fgt_switches_version(const struct fgt_switches *switches,
			      uint32_t index)
{
	(void)switches;
	(void)index;
	return 0;
}

bool fgt_switches_look(struct fgt_switches *switches, uint32_t index,
		       uint64_t version, uint64_t instant_ns)
{
	(void)switches;
	(void)index;
	(void)version;
	(void)instant_ns;
	return false;
}

int fgt_switches_hand_over(
	const struct fgt_switches *switches, int32_t pid,
	void (*asleep)(void *context, const struct fgt_switch_sleeper *sleeper),
	void *context)
{
	(void)switches;
	(void)pid;
	(void)asleep;
	(void)context;
	return -ENOSYS;
}
