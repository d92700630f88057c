/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads schedstat files. Runs in the sampler's thread.
 */
#include "agent/capture/who_ran/schedstat.h"

#include <errno.h>

static bool parse_number(const char **cursor, uint64_t *ret_value)
{
	const char *at = *cursor;
	uint64_t value = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*cursor = *at == ' ' ? at + 1 : at;
	*ret_value = value;
	return true;
}

int fgt_cpu_use_parse(const char *text, struct fgt_cpu_use *ret_use)
{
	struct fgt_cpu_use use;

	if (!parse_number(&text, &use.runtime_ns) ||
	    !parse_number(&text, &use.wait_ns) ||
	    !parse_number(&text, &use.switches))
		return -EBADMSG;
	*ret_use = use;
	return 0;
}

int fgt_schedstat_read(const struct fgt_thread_table *threads,
		       struct fgt_thread *thread, struct fgt_cpu_use *ret_use)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_aside(&threads->table, thread);
	char text[96];
	int rc;

	rc = fgt_fd_budget_read(threads->budget, &aside->schedstat_fd,
				threads->task_fd, thread->tid, "schedstat",
				text, sizeof(text));
	if (rc < 0)
		return rc == -ENOENT ? -ESRCH : rc;
	rc = fgt_cpu_use_parse(text, ret_use);
	if (rc < 0)
		fgt_fd_budget_doubt(threads->budget, &aside->schedstat_fd);
	return rc;
}
