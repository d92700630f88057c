/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits for the disk while it holds the lock of the cache. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service.h"

#define PART_BYTES (16u << 20)

static int g_wal_fd;
static char *g_part;

static void prepare(void)
{
	char path[] = "/var/tmp/fault-wal-XXXXXX";

	g_wal_fd = mkstemp(path);
	g_part = malloc(PART_BYTES);
	if (g_wal_fd < 0 || !g_part)
		abort();
	unlink(path);
	memset(g_part, 'x', PART_BYTES);
}

static STEP void sync_wal(void)
{
	if (fsync(g_wal_fd) < 0)
		abort();
}

static STEP void append_wal(void)
{
	if (pwrite(g_wal_fd, g_part, PART_BYTES, 0) < 0)
		abort();
}

static STEP void commit_wal(void)
{
	pthread_mutex_lock(&g_cache_lock);
	while (is_faulty()) {
		append_wal();
		sync_wal();
	}
	pthread_mutex_unlock(&g_cache_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .act = commit_wal,
					    .actor = "wal-writer" };

	return run_service(&fault, argc, argv);
}
