/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which service a target is a part of: what its program publishes, and its
 * cgroup. Runs in the sampler's thread, once a second; the thread that attaches
 * a target reads its cgroup. Must not wait for a file system (fault X7): a
 * payload in a mapped file, as static data of a program are, is not read. Where
 * the cache of images is served, so are payloads: what a program has written is
 * read in a process without rights.
 */
#include "agent/capture/sampled.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/service/cgroup.h"
#include "agent/capture/service/context.h"
#include "agent/capture/service/title.h"
#include "agent/context/payload.h"
#include "agent/unwind/arch/memory.h"
#include "agent/unwind/maps/maps_open.h"
#include "ringbuf/base/heartbeat.h"

#define MAPS_QUIET_NS 5000000000u

_Static_assert(FGT_SNAPSHOT_MAX_BYTES >= FGT_CONTEXT_PAYLOAD_MAX,
	       "the tick's buffer has room for a payload");

/* Of the program that the maps are of: after an exec there is nothing. */
int64_t fgt_sampled_copy(const struct fgt_sampled *sampled, uint64_t address,
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

int fgt_sampled_read_memory(void *context, uint64_t address, void *buffer,
			    size_t len)
{
	struct fgt_sampled *sampled = context;
	struct fgt_stacks *stacks = &sampled->look.stacks;
	bool is_refused = stacks->readable.is_refused;
	int64_t got = fgt_stacks_readable(stacks, address, len);

	stacks->readable.is_refused = is_refused; /* which is of a stack */
	if (got == (int64_t)len)
		got = fgt_sampled_copy(sampled, address, buffer, len);
	if (got < 0)
		return (int)got;
	return got == (int64_t)len ? 0 : -EFAULT;
}

static void show(struct fgt_sampled *sampled)
{
	struct fgt_service *service = &sampled->info.service;

	memcpy(sampled->status.title, sampled->info.title,
	       sizeof(sampled->status.title));
	*service = sampled->service.published;
	fgt_service_add(service, &sampled->service.started);
	sampled->status.service = *service;
	sampled->has_new_texts = true;
}

static void publish(struct fgt_sampled *sampled)
{
	show(sampled);
	fgt_ring_set_process(sampled->ring, &sampled->info);
}

static void forget_asked(struct fgt_sampled *sampled)
{
	struct fgt_context_asked *asked = &sampled->service.asked;

	if (!asked->bytes)
		return;
	fgt_image_cache_forget_service(sampled->look.stacks.cache,
				       &asked->file);
	free(FGT_TAKE(asked->bytes));
}

void fgt_sampled_end_service(struct fgt_sampled *sampled)
{
	forget_asked(sampled);
}

void fgt_sampled_begin_service(struct fgt_sampled *sampled)
{
	forget_asked(sampled);
	memset(&sampled->service, 0, sizeof(sampled->service));
	fgt_cgroup_read(sampled->look.process.proc_fd,
			&sampled->service.started);
	sampled->service.arguments =
		fgt_title_address(sampled->look.process.proc_fd);
	show(sampled);
}

/* The sampler may have rights: it does not read what a program has written. */
static int hand_over(struct fgt_sampled *sampled, const uint8_t *payload,
		     size_t len)
{
	struct fgt_context_asked *asked = &sampled->service.asked;
	static uint64_t count; /* in the sampler's thread only */

	forget_asked(sampled);
	asked->bytes = malloc(len + 1);
	if (!asked->bytes)
		return -ENOMEM;
	memcpy(asked->bytes, payload, len);
	asked->source = (struct fgt_elf_source){
		.fd = -1,
		.bytes = asked->bytes,
		.len = len,
	};
	asked->file = (struct fgt_image_served){
		.user = fgt_maps_user(sampled->look.process.proc_fd),
		.serial = UINT64_C(1) << 63 | ++count, /* no file has it */
		.source = &asked->source,
	};
	return -EAGAIN;
}

/* 1: it is known what the program has published; -EAGAIN not yet, -EBADMSG. */
static int read_payload(struct fgt_sampled *sampled, const uint8_t *payload,
			size_t len)
{
	int r;

	if (fgt_image_cache_is_served(sampled->look.stacks.cache))
		return hand_over(sampled, payload, len);
	r = fgt_context_payload_read(payload, len, &sampled->service.published);
	return r < 0 ? r : 1;
}

static int take_asked(struct fgt_sampled *sampled)
{
	int r = fgt_image_cache_get_service(sampled->look.stacks.cache,
					    &sampled->service.asked.file,
					    &sampled->service.published);

	if (r == -EAGAIN)
		return r;
	forget_asked(sampled);
	return r < 0 ? r : 1;
}

/* The first mapping that holds one: 1 it is new, 0 it is known, or an error. */
static int read_context(struct fgt_sampled *sampled,
			const struct fgt_tick *tick)
{
	const struct fgt_context_memory memory = { fgt_sampled_read_memory,
						   sampled };
	const struct fgt_maps *maps = sampled->look.stacks.maps;
	int r = -ENOENT;

	for (size_t i = 0; i < maps->context_count && r < 0; i++) {
		uint64_t address = maps->contexts[i];
		bool is_known = sampled->service.context == address;
		size_t len;

		r = fgt_context_copy(
			&memory, address,
			is_known ? sampled->service.published_ns : 0,
			tick->other_buffer, FGT_CONTEXT_PAYLOAD_MAX,
			&sampled->service.published_ns, &len);
		if (r >= 0)
			sampled->service.context = address;
		if (r > 0)
			r = read_payload(sampled, tick->other_buffer, len);
		if (r == -EAGAIN && sampled->service.asked.bytes)
			break;
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

/* What lies behind the arguments is the environment: always readable, too. After
 * an exec the former title stays until this: an end looks like one at first. */
static void check_title(struct fgt_sampled *sampled)
{
	char bytes[FGT_TITLE_MAX], title[FGT_TITLE_MAX];

	if (!sampled->service.arguments ||
	    fgt_sampled_read_memory(sampled, sampled->service.arguments, bytes,
				    sizeof(bytes)) < 0)
		return;
	sampled->service.is_title_read = true;
	fgt_title_parse(bytes, sizeof(bytes), title);
	if (strcmp(title, sampled->info.title) == 0)
		return;
	memcpy(sampled->info.title, title, sizeof(title));
	publish(sampled);
}

void fgt_sampled_check_service(struct fgt_sampled *sampled,
			       const struct fgt_tick *tick, bool has_run)
{
	if (has_run)
		sampled->service.ran_ns = tick->mono_ns;
	if (!sampled->look.is_readable || !sampled->look.stacks.maps)
		return;
	if (has_run || !sampled->service.is_title_read)
		check_title(sampled);
	if (sampled->service.asked.bytes && take_asked(sampled) > 0)
		publish(sampled);
	/* A program that has not run has not published again. */
	if (!has_run && sampled->service.context)
		return;
	if (!sampled->look.stacks.maps->context_count)
		find_context(sampled, tick);
	if (read_context(sampled, tick) > 0 ||
	    (sampled->service.asked.bytes && take_asked(sampled) > 0))
		publish(sampled);
}
