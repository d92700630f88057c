/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each read, at most one at a time.
 */
#include "agent/capture/threads/lock_table.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/thread.h"

#define TABLE_BYTES 16384
/* Who waits for the table asks again after 20 ms, then ever more rarely. */
#define FRESH_NS    200000000u
#define OLD_NS	    2000000000u
#define STACK_BYTES 65536

static struct {
	atomic_bool is_being_read; /* by the thread, which has the rest then */
	uint64_t tick_ns; /* that asked for it; 0: none has */
	int len; /* or negative errno */
	char text[TABLE_BYTES];
} table;

static void *read_table(void *context)
{
	(void)context;
	table.len = fgt_procfs_read(AT_FDCWD, "/proc/locks", table.text,
				    sizeof(table.text));
	atomic_store(&table.is_being_read, false);
	return NULL;
}

const char *fgt_lock_table_get(uint64_t tick_ns, uint64_t since_ns,
			       bool *ret_is_whole)
{
	if (atomic_load(&table.is_being_read))
		return NULL;
	if (table.tick_ns < since_ns || table.tick_ns > tick_ns ||
	    tick_ns - table.tick_ns > (since_ns ? OLD_NS : FRESH_NS)) {
		table.tick_ns = tick_ns;
		table.len = -1;
		atomic_store(&table.is_being_read, true);
		if (fgt_thread_start(STACK_BYTES, read_table, NULL, NULL) < 0)
			atomic_store(&table.is_being_read, false);
		return NULL;
	}
	*ret_is_whole = table.len < TABLE_BYTES - 1;
	return table.len < 0 ? NULL : table.text;
}
