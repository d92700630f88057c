/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Titles of processes. Any thread; must not trust the text, which the program
 * writes as it likes.
 */
#include "agent/capture/service/title.h"

#include <stdlib.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

#define STAT_MAX       1024
#define ARGUMENT_FIELD 48u

uint64_t fgt_title_address(int proc_fd)
{
	char text[STAT_MAX];
	const char *at;

	if (fgt_procfs_read(proc_fd, "stat", text, sizeof(text)) <= 0)
		return 0;
	/* Field 2 is a name, which may hold anything. */
	at = strrchr(text, ')');
	for (unsigned int field = 2; at && field < ARGUMENT_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

void fgt_title_parse(const char *bytes, size_t len,
		     char ret_title[FGT_TITLE_MAX])
{
	size_t used =
		strnlen(bytes, len < FGT_TITLE_MAX ? len : FGT_TITLE_MAX - 1);

	ret_title[0] = '\0';
	while (used && bytes[used - 1] == ' ')
		used--;
	if (!used || strchr("/.-", bytes[0]) || !memchr(bytes, ' ', used))
		return;
	memcpy(ret_title, bytes, used);
	ret_title[used] = '\0';
}
