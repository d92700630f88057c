/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each read, at most one at a time. There are two tables: while the
 * one is read, the other is there for those who have asked for it.
 */
#include "agent/capture/threads/lock_table.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/thread.h"

#define TABLE_BYTES 16384
#define PAUSE_NS    30000000u
#define STACK_BYTES 65536

struct lock_table {
	uint64_t tick_ns; /* that asked for it; 0: none has */
	int len; /* or negative errno */
	char text[TABLE_BYTES];
};

/* The one that is not shown is the reader's while it reads. */
static struct lock_table tables[2];
static atomic_uint shown;
static atomic_bool is_being_read;

static void *read_table(void *context)
{
	struct lock_table *table = context;

	table->len = fgt_procfs_read(AT_FDCWD, "/proc/locks", table->text,
				     sizeof(table->text));
	if (table->len < 0)
		table->text[0] = '\0';
	atomic_store(&shown, (unsigned int)(table - tables));
	atomic_store(&is_being_read, false);
	return NULL;
}

static void start_read(uint64_t tick_ns)
{
	struct lock_table *table = &tables[!atomic_load(&shown)];

	*table = (struct lock_table){ .tick_ns = tick_ns };
	atomic_store(&is_being_read, true);
	if (fgt_thread_start(STACK_BYTES, read_table, table, NULL) == 0)
		return;
	/* Likewise empty. */
	atomic_store(&shown, (unsigned int)(table - tables));
	atomic_store(&is_being_read, false);
}

const char *fgt_lock_table_get(uint64_t tick_ns, uint64_t since_ns,
			       bool *ret_is_whole)
{
	bool is_read = atomic_load(&is_being_read);
	const struct lock_table *table = &tables[atomic_load(&shown)];

	if (table->tick_ns && table->tick_ns >= since_ns) {
		*ret_is_whole = table->len < TABLE_BYTES - 1;
		return table->text;
	}
	if (!is_read &&
	    (!table->tick_ns || tick_ns >= table->tick_ns + PAUSE_NS))
		start_read(tick_ns);
	return NULL;
}
