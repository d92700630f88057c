/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a thread that was found blocked waits. Runs in the sampler's thread, once
 * for each wait: must not touch the thread, nor wait for a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/look/look_parts.h"
#include "agent/capture/waits/waits.h"
#include "agent/unwind/arch/memory.h"

/* Waits of one tick that are read; others have their call alone. */
#define READS_MAX 256u

/* Flags of /proc/PID/pagemap. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_FILE    (UINT64_C(1) << 61)

struct reading {
	struct fgt_look *look;
	const struct fgt_thread *thread;
};

/*
 * A page that the process has written to, of a private mapping: its data are in
 * memory, whatever file is mapped there. Variables with a value at the program's
 * start lie in such pages.
 */
static bool is_own_page(const struct fgt_look *look, uint64_t address,
			size_t len)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), entry = 0;
	off_t at = (off_t)(address / page_bytes * sizeof(entry));
	int fd;
	bool is_read;

	if (address / page_bytes != (address + len - 1) / page_bytes)
		return false;
	fd = openat(look->process.proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_read = pread(fd, &entry, sizeof(entry), at) == sizeof(entry);
	close(fd);
	return is_read && (entry & PAGE_PRESENT) && !(entry & PAGE_FILE);
}

static bool read_memory(void *context, uint64_t address, void *buffer,
			size_t len)
{
	const struct reading *reading = context;
	struct fgt_look *look = reading->look;
	bool was_refused = look->stacks.readable.is_refused;
	int32_t tid = reading->thread->tid;
	int64_t may = fgt_stacks_readable(&look->stacks, address, len);

	/* That is about stacks. */
	look->stacks.readable.is_refused = was_refused;
	if (may != (int64_t)len && !is_own_page(look, address, len))
		return false;
	return fgt_memory_read(tid, address, buffer, len) == (int64_t)len;
}

static bool is_thread(void *context, int32_t tid)
{
	const struct reading *reading = context;
	const struct fgt_thread *thread =
		fgt_thread_table_find(&reading->look->threads, tid);

	return thread && !thread->is_ended;
}

/* Reads the link alone: the file is not touched. */
static bool describe(void *context, int32_t descriptor, char *text, size_t size)
{
	const struct reading *reading = context;
	char name[32];
	ssize_t len;

	snprintf(name, sizeof(name), "fd/%d", descriptor);
	len = readlinkat(reading->look->process.proc_fd, name, text, size - 1);
	if (len < 0)
		return false;
	text[len] = '\0';
	return true;
}

/* A call that was interrupted by a stop, and goes on, hides which it is. */
static bool is_of_state(const struct fgt_blocked *blocked, uint32_t state)
{
	return !blocked->is_running && blocked->call >= 0 &&
	       state == FGT_STATE_SYSCALL_FIRST + (uint32_t)blocked->call;
}

/* The thread has not moved while its wait was read. */
static bool read_wait(struct fgt_look *look, struct fgt_thread *thread,
		      uint32_t state, struct fgt_wait *ret_wait)
{
	struct reading reading = { look, thread };
	const struct fgt_wait_source source = {
		.context = &reading,
		.tid = thread->tid,
		.read = read_memory,
		.is_thread = is_thread,
		/* A program that confines itself may be killed for it. */
		.describe = look->is_embedded ? NULL : describe,
	};
	char before[FGT_BLOCKED_TEXT_MAX], after[FGT_BLOCKED_TEXT_MAX];
	struct fgt_blocked blocked;

	if (fgt_blocked_read(&look->threads, thread, before) < 0 ||
	    fgt_blocked_parse(before, &blocked) < 0 ||
	    !is_of_state(&blocked, state))
		return false;
	fgt_wait_decode(blocked.call, blocked.args, &source, ret_wait);
	return fgt_blocked_read(&look->threads, thread, after) >= 0 &&
	       strcmp(before, after) == 0;
}

const struct fgt_wait *fgt_look_wait(struct fgt_look *look,
				     struct fgt_thread *thread,
				     const struct fgt_verdict *verdict)
{
	uint32_t state = verdict->state;
	int32_t call = -1;

	if (verdict->kind != FGT_VERDICT_STACK || !fgt_state_is_blocked(state))
		return NULL;
	if (look->wait_tick != look->tick) {
		look->wait_tick = look->tick;
		look->wait_reads = 0;
	}
	if (state >= FGT_STATE_SYSCALL_FIRST)
		call = (int32_t)(state - FGT_STATE_SYSCALL_FIRST);
	if (call >= 0 && look->is_readable && thread->active &&
	    look->wait_reads++ < READS_MAX &&
	    read_wait(look, thread, state, &look->wait))
		return &look->wait;
	fgt_wait_of_call(call, &look->wait);
	if (state == FGT_STATE_STOPPED)
		look->wait.kind = FGT_WAIT_STOPPED;
	return &look->wait;
}
