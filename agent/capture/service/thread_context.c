/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads contexts of threads, which may run meanwhile, of programs that may mean
 * to mislead. Any thread; must believe no address, and read each record twice.
 */
#include "agent/capture/service/thread_context.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULES_MAX 65536u

/* As programs write it; the attributes behind it are not read. */
struct context_record {
	uint8_t ids[FGT_TRACE_IDS];
	uint8_t valid, trace_flags;
	uint16_t attributes_bytes;
};
_Static_assert(sizeof(struct context_record) == 28, "as programs write it");

/* What glibc's and the thread pointer have in common on x86-64. */
struct head {
	uint64_t self, vector, self_again;
};

static pthread_once_t distance_once = PTHREAD_ONCE_INIT;
static uint64_t distance; /* 0: not known */

static int get_robust(int32_t tid, uint64_t *ret_address)
{
	struct robust_list_head *head = NULL;
	size_t len;

	if (syscall(SYS_get_robust_list, tid, &head, &len) < 0)
		return -errno;
	*ret_address = (uintptr_t)head;
	return head ? 0 : -ENOTSUP;
}

/* In this program's libc: the thread pointer is pthread_self(), which the read
 * of each other thread's confirms. */
static void find_distance(void)
{
	uint64_t robust;

	if (get_robust(0, &robust) == 0)
		distance = robust - (uintptr_t)pthread_self();
}

int fgt_thread_pointer_find(const struct fgt_context_memory *memory,
			    int32_t tid, uint64_t *ret_pointer)
{
	struct head head;
	uint64_t robust;
	int r;

	pthread_once(&distance_once, find_distance);
	if (!distance)
		return -ENOTSUP;
	r = get_robust(tid, &robust);
	if (r < 0)
		return r;
	robust -= distance;
	r = memory->read(memory->context, robust, &head, sizeof(head));
	if (r < 0)
		return r;
	if (head.self != robust || head.self_again != robust)
		return -ENOTSUP;
	*ret_pointer = robust;
	return 0;
}

/* ---- The variable --------------------------------------------------------- */

/* The thread's vector has two words for each module; the first is where its
 * part begins, -1 until the thread uses it. */
static int find_in_module(const struct fgt_context_memory *memory,
			  uint64_t pointer, uint64_t module, uint64_t offset,
			  uint64_t *ret_address)
{
	struct head head;
	uint64_t part;
	int r;

	if (!module || module > MODULES_MAX)
		return -EPROTO;
	r = memory->read(memory->context, pointer, &head, sizeof(head));
	if (r == 0)
		r = memory->read(memory->context, head.vector + module * 16,
				 &part, sizeof(part));
	if (r < 0)
		return r;
	if (!part || part == UINT64_MAX)
		return -EAGAIN;
	*ret_address = part + offset;
	return 0;
}

/* Negative: as an offset; else where module and offset are. */
static int find_by_descriptor(const struct fgt_context_memory *memory,
			      uint64_t argument, uint64_t pointer,
			      uint64_t *ret_address)
{
	uint64_t place[2];
	int r;

	if (argument >> 63) {
		*ret_address = pointer + argument;
		return 0;
	}
	r = memory->read(memory->context, argument, place, sizeof(place));
	return r < 0 ? r
		     : find_in_module(memory, pointer, place[0], place[1],
				      ret_address);
}

int fgt_thread_variable_find(const struct fgt_context_memory *memory,
			     const struct fgt_elf_tls *tls,
			     const uint64_t words[2], uint64_t pointer,
			     uint64_t *ret_address)
{
	switch (tls->kind) {
	case FGT_ELF_TLS_PROGRAM:
		*ret_address = pointer + tls->offset;
		return 0;
	case FGT_ELF_TLS_POINTER:
		*ret_address = pointer + words[0];
		return 0;
	case FGT_ELF_TLS_MODULE:
		return find_in_module(memory, pointer, words[0], tls->offset,
				      ret_address);
	case FGT_ELF_TLS_DESCRIPTOR:
		return find_by_descriptor(memory, words[1], pointer,
					  ret_address);
	default:
		return -EPROTO;
	}
}

/* ---- The record ------------------------------------------------------------ */

/* 1 a record, 0 none. */
static int read_once(const struct fgt_context_memory *memory, uint64_t variable,
		     uint64_t *ret_at, struct context_record *ret_record)
{
	int r = memory->read(memory->context, variable, ret_at,
			     sizeof(*ret_at));

	if (r < 0 || !*ret_at)
		return r;
	r = memory->read(memory->context, *ret_at, ret_record,
			 sizeof(*ret_record));
	return r < 0 ? r : ret_record->valid == 1;
}

int fgt_thread_context_read(const struct fgt_context_memory *memory,
			    uint64_t variable, uint8_t ret_ids[FGT_TRACE_IDS])
{
	static const uint8_t zeros[FGT_TRACE_BYTES];
	struct context_record record = { 0 }, again = { 0 };
	uint64_t at, at_again;
	int r = read_once(memory, variable, &at, &record);

	if (r <= 0)
		return r;
	r = read_once(memory, variable, &at_again, &again);
	if (r < 0)
		return r;
	if (!r || at_again != at ||
	    memcmp(&again, &record, sizeof(record)) != 0)
		return -EAGAIN;
	if (!memcmp(record.ids, zeros, FGT_TRACE_BYTES))
		return 0;
	memcpy(ret_ids, record.ids, FGT_TRACE_IDS);
	return 1;
}
