/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose files a process has mapped. Runs in any thread.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/unwind/maps/maps_open.h"
#include "ringbuf/base/heartbeat.h"

/* Uids of 32 bits are below 1 << 31 wherever they are in use. */
#define MIXED (UINT64_C(1) << 63)

uint64_t fgt_maps_user(int proc_fd)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_fd_close)
	int fd = openat(proc_fd, "status", O_RDONLY | O_CLOEXEC);
	uint32_t real, effective, saved, files;
	char text[1024];
	const char *line;
	ssize_t len;

	/* Not the owner of the directory: it is root where a process hides. */
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	fgt_call_leave(heartbeat, fd);
	if (len < 0)
		return UINT64_MAX;
	text[len] = '\0';
	/* The name before it has no line feed. */
	line = strstr(text, "\nUid:");
	if (!line ||
	    sscanf(line, "\nUid: %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
		   &real, &effective, &saved, &files) != 4)
		return UINT64_MAX;
	if (real == effective && real == saved && real == files)
		return real;
	return MIXED | (uint64_t)real << 32 | effective;
}

bool fgt_maps_is_user(uint64_t user, uint64_t uid)
{
	return user == uid ||
	       ((user & MIXED) && user != UINT64_MAX &&
		((uint32_t)user == uid || (user & ~MIXED) >> 32 == uid));
}
