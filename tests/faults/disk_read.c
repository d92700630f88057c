/* SPDX-License-Identifier: Apache-2.0 */
/* Requests read a table from the disk that was in memory before. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service.h"

#define TABLE_BYTES (64u << 20)
#define PART_BYTES  (8u << 20)

static int g_table_fd;

static void prepare(void)
{
	char path[] = "/var/tmp/fault-table-XXXXXX", *part = malloc(PART_BYTES);
	int fd = mkstemp(path);

	if (fd < 0 || !part)
		abort();
	memset(part, 7, PART_BYTES);
	for (unsigned int i = 0; i < TABLE_BYTES / PART_BYTES; i++)
		if (write(fd, part, PART_BYTES) != (ssize_t)PART_BYTES)
			abort();
	fsync(fd);
	g_table_fd = open(path, O_RDONLY | O_DIRECT);
	if (g_table_fd < 0)
		abort();
	close(fd);
	unlink(path);
	free(part);
}

static STEP void load_table(void)
{
	void *part;

	if (posix_memalign(&part, 4096, PART_BYTES))
		abort();
	for (unsigned int at = 0; at < TABLE_BYTES && is_faulty();
	     at += PART_BYTES)
		if (pread(g_table_fd, part, PART_BYTES, at) < 0)
			abort();
	free(part);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = load_table };

	return run_service(&fault, argc, argv);
}
