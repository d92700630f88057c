/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of perf's ring buffers and records. Runs in the sampler's thread.
 */
#include "agent/capture/running/perf_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define RECORD_MAX 65536u /* the size of a record is a uint16_t */

int fgt_perf_buffer_map(struct fgt_perf_buffer *buffer, int fd,
			size_t page_count, size_t least)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	void *map = MAP_FAILED;
	size_t bounce_size = page_count * page_size;

	*buffer = (struct fgt_perf_buffer){ 0 };
	buffer->bounce =
		malloc(bounce_size < RECORD_MAX ? bounce_size : RECORD_MAX);
	if (!buffer->bounce)
		return -ENOMEM;
	while (page_count >= least) {
		map = mmap(NULL, (page_count + 1) * page_size,
			   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		/* EPERM: more than may be locked. */
		if (map != MAP_FAILED || (errno != EPERM && errno != ENOMEM))
			break;
		page_count /= 2;
	}
	if (map == MAP_FAILED) {
		int error = -errno;

		free(FGT_TAKE(buffer->bounce));
		return error;
	}
	buffer->page = map;
	buffer->data = (const uint8_t *)map + page_size;
	buffer->size = page_count * page_size;
	return 0;
}

void fgt_perf_buffer_unmap(struct fgt_perf_buffer *buffer)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

	if (buffer->page)
		munmap(buffer->page, buffer->size + page_size);
	free(buffer->bounce);
	*buffer = (struct fgt_perf_buffer){ 0 };
}

static void skip_all(struct fgt_perf_buffer *buffer, bool *ret_is_broken)
{
	buffer->tail = buffer->head;
	*ret_is_broken = true;
}

const struct perf_event_header *
fgt_perf_buffer_next(struct fgt_perf_buffer *buffer, bool *ret_is_broken)
{
	const struct perf_event_header *header;
	uint64_t at, filled;

	*ret_is_broken = false;
	/* Acquire: pairs with the kernel's barrier before it moves the head. */
	if (buffer->tail == buffer->head)
		buffer->head = __atomic_load_n(&buffer->page->data_head,
					       __ATOMIC_ACQUIRE);
	filled = buffer->head - buffer->tail;
	if (filled == 0)
		return NULL;
	at = buffer->tail & (buffer->size - 1);
	header = (const void *)(buffer->data + at);
	/* Records are padded to 8 bytes: a header never wraps. */
	if (filled > buffer->size || filled < sizeof(*header) || at % 8 ||
	    header->size < sizeof(*header) || header->size > filled) {
		skip_all(buffer, ret_is_broken);
		return NULL;
	}
	if (at + header->size > buffer->size) {
		size_t first = (size_t)(buffer->size - at);
		uint16_t size = header->size;

		memcpy(buffer->bounce, header, first);
		memcpy(buffer->bounce + first, buffer->data, size - first);
		header = (const void *)buffer->bounce;
	}
	buffer->tail += header->size;
	return header;
}

void fgt_perf_buffer_release(struct fgt_perf_buffer *buffer)
{
	/* Release: the reads are over before the kernel may write there. */
	__atomic_store_n(&buffer->page->data_tail, buffer->tail,
			 __ATOMIC_RELEASE);
}

/* Takes fixed-size pieces from a record; sticks at the first that lacks. */
struct record_bytes {
	const uint8_t *at, *end;
	bool is_short;
};

static struct record_bytes open_record(const struct perf_event_header *header)
{
	const uint8_t *bytes = (const uint8_t *)header;

	return (struct record_bytes){ .at = bytes + sizeof(*header),
				      .end = bytes + header->size };
}

static const uint8_t *take(struct record_bytes *record, uint64_t len)
{
	const uint8_t *at = record->at;

	if (record->is_short || len > (uint64_t)(record->end - at)) {
		record->is_short = true;
		return NULL;
	}
	record->at += len;
	return at;
}

static uint64_t take_u64(struct record_bytes *record)
{
	const uint8_t *at = take(record, 8);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

static int32_t take_id(struct record_bytes *record)
{
	const uint8_t *at = take(record, 4);
	int32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

static void take_regs(struct record_bytes *record, const struct fgt_arch *arch,
		      struct fgt_running_sample *sample)
{
	uint64_t abi = take_u64(record);

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t value;

		if (!(arch->perf_regs_mask >> bit & 1))
			continue;
		value = take_u64(record);
		if (arch->perf_to_dwarf[bit] >= 0)
			fgt_regs_set(&sample->regs,
				     (unsigned int)arch->perf_to_dwarf[bit],
				     value);
	}
	sample->has_regs = abi == PERF_SAMPLE_REGS_ABI_64;
}

static void take_stack(struct record_bytes *record,
		       struct fgt_running_sample *sample)
{
	uint64_t asked = take_u64(record), copied;

	if (asked == 0)
		return;
	sample->stack = take(record, asked);
	copied = take_u64(record);
	if (record->is_short || copied > asked) {
		record->is_short = true;
		return;
	}
	sample->stack_len = (size_t)copied;
}

int fgt_perf_sample_parse(const struct perf_event_header *header,
			  const struct fgt_arch *arch,
			  struct fgt_running_sample *ret_sample)
{
	struct fgt_running_sample sample = { 0 };
	struct record_bytes record = open_record(header);

	sample.ip = take_u64(&record);
	sample.pid = take_id(&record);
	sample.tid = take_id(&record);
	sample.time_ns = take_u64(&record);
	sample.count_ns = take_u64(&record);
	take_regs(&record, arch, &sample);
	take_stack(&record, &sample);
	if (record.is_short)
		return -EBADMSG;
	/* On its last instructions a thread has no number (-1) any more. */
	if (sample.tid <= 0)
		return -ESRCH;
	sample.is_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			   PERF_RECORD_MISC_KERNEL;
	*ret_sample = sample;
	return 0;
}

int32_t fgt_perf_sample_pid(const struct perf_event_header *header)
{
	struct record_bytes record = open_record(header);

	take_u64(&record);
	return take_id(&record);
}

int fgt_perf_task_parse(const struct perf_event_header *header,
			struct fgt_running_task *ret_task)
{
	struct record_bytes record = open_record(header);
	struct fgt_running_task task = { 0 };

	task.pid = take_id(&record);
	if (header->type == PERF_RECORD_FORK ||
	    header->type == PERF_RECORD_EXIT)
		task.parent_pid = take_id(&record);
	task.tid = take_id(&record);
	if (record.is_short)
		return -EBADMSG;
	task.is_exec = header->type == PERF_RECORD_COMM &&
		       (header->misc & PERF_RECORD_MISC_COMM_EXEC);
	*ret_task = task;
	return 0;
}
