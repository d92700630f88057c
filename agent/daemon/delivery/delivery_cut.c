/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts what is to be delivered. Runs on the deliveries' own thread, beside the
 * sampler, which it never blocks; must not touch the loop.
 */
#include "agent/daemon/delivery/delivery_child.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/daemon/loop/log.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice_codec.h"

/* So far beyond what was asked for: a short transaction lies between two
 * ticks, and is not without a thread then. The encoder narrows. */
#define BEFORE_NS UINT64_C(60000000)
#define AFTER_NS  UINT64_C(20000000)
/* The tick after the end of a chunk comes within this time: the rate is lowered
 * to one in 8 s at most. */
#define NEXT_TICK_NS UINT64_C(10000000000)

struct cut_file {
	int fd;
	uint64_t bytes;
};

static int write_file(void *context, const void *bytes, size_t len)
{
	struct cut_file *file = context;

	if (len > FGT_DELIVERY_DATA_MAX - file->bytes)
		return -EFBIG;
	file->bytes += len;
	return fgt_fd_write(file->fd, bytes, len);
}

/*
 * What of the range the ring holds. A transaction of which it holds nothing is
 * delivered without stacks: it is older, as after a restart of the agent, or
 * lies between two ticks of a low rate.
 */
static int cut_ring(const struct fgt_delivery_cut *cut,
		    struct fgt_ring_slice **ret_slice)
{
	const struct fgt_ring *ring = fgt_target_ring(cut->target);
	uint64_t from_ns = cut->from_ns > BEFORE_NS ? cut->from_ns - BEFORE_NS
						    : 0;
	uint64_t to_ns = cut->to_ns + AFTER_NS;
	int r = fgt_gate_cut(&cut->gate, cut->target, from_ns, to_ns, NULL,
			     ret_slice);

	if (r != -ENODATA || !cut->is_transaction)
		return r;
	r = fgt_ring_blank(ring, from_ns, to_ns, ret_slice);
	if (r == 0)
		fgt_log(FGT_LOG_WARNING, "without_profile",
			"pid %d: nothing is recorded of the time of a "
			"transaction, which is delivered without its stacks",
			fgt_target_pid(cut->target));
	return r;
}

/* Index of the first tick from then on; tick_count: there is none. */
static uint32_t find_tick(const struct fgt_ring_slice *slice, uint64_t ns)
{
	return (uint32_t)FGT_ARRAY_BISECT(i, slice->tick_count,
					  slice->tick_ns[i] < ns);
}

/* Only the ticks of the chunk. Its wall clock is that of all chunks. */
static int cut_chunk(const struct fgt_delivery_cut *cut,
		     struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *whole = NULL;
	uint64_t to_ns = cut->to_ns - 1;
	uint32_t next;
	int r = fgt_gate_cut(&cut->gate, cut->target, cut->from_ns,
			     cut->to_ns + NEXT_TICK_NS, NULL, &whole);

	if (r < 0)
		return r;
	next = find_tick(whole, cut->to_ns);
	if (cut->chunk.has_next_tick && next < whole->tick_count)
		to_ns = whole->tick_ns[next];
	r = fgt_slice_narrow(whole, cut->from_ns, to_ns, 0, ret_slice);
	if (r < 0)
		return r;
	(*ret_slice)->anchors[0] = cut->chunk.anchor;
	(*ret_slice)->anchor_count = 1;
	return 0;
}

static int note_chunk(const struct fgt_delivery_cut *cut,
		      struct fgt_ring_slice *slice)
{
	int r;

	if (!cut->chunk.profiler_id[0])
		return 0;
	r = fgt_slice_add_note(slice, FGT_NOTE_PROFILER,
			       cut->chunk.profiler_id);
	return r < 0 ? r
		     : fgt_slice_add_note(slice, FGT_NOTE_CHUNK,
					  cut->chunk.chunk_id);
}

static int note_trigger(const struct fgt_delivery_cut *cut,
			struct fgt_ring_slice *slice)
{
	const struct fgt_delivery_trigger *trigger = &cut->trigger;
	char mark[sizeof(trigger->name) + 16];
	int r;

	if (!trigger->name[0])
		return 0;
	snprintf(mark, sizeof(mark), "trigger %s", trigger->name);
	r = fgt_slice_add_note(slice, FGT_NOTE_TRIGGER, trigger->name);
	if (r == 0)
		r = fgt_slice_add_note(slice, FGT_NOTE_CAUSE, trigger->cause);
	return r < 0 ? r
		     : fgt_slice_add_mark(slice, trigger->at_ns,
					  trigger->tid ? trigger->tid
						       : slice->process.pid,
					  mark);
}

static int make_slice(const struct fgt_delivery_cut *cut,
		      struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r = cut->chunk.profiler_id[0] ? cut_chunk(cut, &slice)
					  : cut_ring(cut, &slice);

	if (r == 0)
		r = fgt_target_cut_spans(cut->target, slice);
	if (r == 0)
		r = fgt_slice_name_states(slice, fgt_state_name);
	if (r == 0)
		r = fgt_symbolizer_resolve(cut->symbolizer, slice,
					   fgt_target_is_alive(cut->target));
	if (r == 0)
		r = note_trigger(cut, slice);
	if (r == 0)
		r = note_chunk(cut, slice);
	if (r == 0)
		*ret_slice = FGT_TAKE(slice);
	return r;
}

int fgt_delivery_cut(const struct fgt_delivery_cut *cut, int *ret_fd,
		     uint64_t *ret_bytes)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct cut_file file = { .bytes = 0 };
	const struct fgt_sink sink = { write_file, &file };
	int r = make_slice(cut, &slice);

	if (r < 0)
		return r;
	fd = memfd_create("fgtrace-delivery", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	file.fd = fd;
	r = fgt_slice_encode(slice, &sink);
	if (r < 0)
		return r;
	*ret_fd = FGT_TAKE_FD(fd);
	*ret_bytes = file.bytes;
	return 0;
}

uint64_t fgt_delivery_bytes(int fd)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0
		       ? (uint64_t)status.st_blocks * 512
		       : 0;
}
