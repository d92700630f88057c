/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/…/status says of a thread that shall get a signal. Runs in the
 * sampler's thread.
 */
#include "agent/capture/signal_permission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/procfs.h"

/* 0 if the kernel does not count. */
static unsigned long count_filters(const char *status)
{
	const char *at = strstr(status, "\nSeccomp_filters:\t");

	return at ? strtoul(at + strlen("\nSeccomp_filters:\t"), NULL, 10) : 0;
}

unsigned long fgt_signal_permission_filters(void)
{
	char status[4096];

	if (fgt_procfs_read(AT_FDCWD, "/proc/thread-self/status", status,
			    sizeof(status)) < 0)
		return 0;
	return count_filters(status);
}

int fgt_signal_permission_parse(const char *status, int number,
				unsigned long own_filters)
{
	const char *blocked = strstr(status, "\nSigBlk:\t");

	if (!blocked || count_filters(status) > own_filters)
		return -EACCES;
	if (!strstr(status, "\nState:\tR"))
		return -EAGAIN;
	blocked += strlen("\nSigBlk:\t");
	return strtoull(blocked, NULL, 16) >> (number - 1) & 1 ? -EACCES : 0;
}

int fgt_signal_permission_ask(int32_t tid, int number,
			      unsigned long own_filters)
{
	char path[64], status[4096];

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	if (fgt_procfs_read(AT_FDCWD, path, status, sizeof(status)) < 0)
		return -ESRCH;
	return fgt_signal_permission_parse(status, number, own_filters);
}
