/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which service a target is a part of: what its program publishes, and its
 * cgroup. Runs in the sampler's thread, once a second; the thread that attaches
 * a target reads its cgroup. Must not wait for a file system (fault X7): a payload
 * in a mapped file, as static data of a program are, is not read.
 */
#include "agent/capture/sampled.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/service/cgroup.h"
#include "agent/capture/service/context.h"
#include "agent/unwind/arch/memory.h"
#include "ringbuf/base/heartbeat.h"

#define MAPS_QUIET_NS 5000000000u

_Static_assert(FGT_SNAPSHOT_MAX_BYTES >= FGT_CONTEXT_PAYLOAD_MAX,
	       "the tick's buffer has room for a payload");

/* Of the program that the maps are of: after an exec there is nothing. */
static int64_t copy(const struct fgt_sampled *sampled, uint64_t address,
		    void *buffer, size_t len)
{
	struct fgt_heartbeat *heartbeat;
	ssize_t got;

	if (sampled->look.is_embedded)
		return fgt_memory_read(sampled->look.process.pid, address,
				       buffer, len);
	if (sampled->memory_fd < 0)
		return -EBADF;
	heartbeat = fgt_call_enter(FGT_STEP_MEMORY);
	got = pread(sampled->memory_fd, buffer, len, (off_t)address);
	fgt_call_leave(heartbeat, -1);
	return got < 0 ? -errno : got;
}

static int read_memory(void *context, uint64_t address, void *buffer,
		       size_t len)
{
	struct fgt_sampled *sampled = context;
	struct fgt_stacks *stacks = &sampled->look.stacks;
	bool is_refused = stacks->readable.is_refused;
	int64_t got = fgt_stacks_readable(stacks, address, len);

	stacks->readable.is_refused = is_refused; /* which is of a stack */
	if (got == (int64_t)len)
		got = copy(sampled, address, buffer, len);
	if (got < 0)
		return (int)got;
	return got == (int64_t)len ? 0 : -EFAULT;
}

static void show(struct fgt_sampled *sampled)
{
	struct fgt_service *service = &sampled->info.service;

	*service = sampled->service.published;
	fgt_service_add(service, &sampled->service.started);
	sampled->status.service = *service;
	sampled->has_new_texts = true;
}

void fgt_sampled_begin_service(struct fgt_sampled *sampled)
{
	memset(&sampled->service, 0, sizeof(sampled->service));
	fgt_cgroup_read(sampled->look.process.proc_fd,
			&sampled->service.started);
	show(sampled);
}

/* The first mapping that holds one: 1 it is new, 0 it is known, or an error. */
static int read_context(struct fgt_sampled *sampled,
			const struct fgt_tick *tick)
{
	const struct fgt_context_memory memory = { read_memory, sampled };
	const struct fgt_maps *maps = sampled->look.stacks.maps;
	int r = -ENOENT;

	for (size_t i = 0; i < maps->context_count && r < 0; i++) {
		uint64_t address = maps->contexts[i];
		bool is_known = sampled->service.context == address;

		r = fgt_context_read(
			&memory, address,
			is_known ? sampled->service.published_ns : 0,
			tick->other_buffer, &sampled->service.published_ns,
			&sampled->service.published);
		if (r >= 0)
			sampled->service.context = address;
	}
	return r;
}

/* A program that published and then fell asleep has no other reason to have its
 * maps read. */
static void find_context(struct fgt_sampled *sampled,
			 const struct fgt_tick *tick)
{
	struct fgt_stacks *stacks = &sampled->look.stacks;

	if (!sampled->look.is_embedded &&
	    stacks->read_ns < sampled->service.ran_ns &&
	    fgt_stacks_is_due(stacks, tick->mono_ns, MAPS_QUIET_NS))
		(void)fgt_stacks_refresh(stacks, tick->mono_ns, false, NULL);
}

void fgt_sampled_check_service(struct fgt_sampled *sampled,
			       const struct fgt_tick *tick, bool has_run)
{
	if (has_run)
		sampled->service.ran_ns = tick->mono_ns;
	if (!sampled->look.is_readable || !sampled->look.stacks.maps)
		return;
	/* A program that has not run has not published again. */
	if (!has_run && sampled->service.context)
		return;
	if (!sampled->look.stacks.maps->context_count)
		find_context(sampled, tick);
	if (read_context(sampled, tick) <= 0)
		return;
	show(sampled);
	fgt_ring_set_process(sampled->ring, &sampled->info);
}
