/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches processes against the configuration's targets. Runs as a job;
 * texts of a process are not trusted: compared, never used.
 */
#include "agent/daemon/targets/rule.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/owner.h"

#define COMM_MAX 15
#define TEXT_MAX 8192

bool fgt_rule_is_name(const char *name, const char *comm, const char *exe)
{
	const char *slash = strrchr(exe, '/');

	if (strcmp(comm, name) == 0)
		return true;
	if (slash)
		return strcmp(slash + 1, name) == 0;
	/* Its path may not be read: all that is left is a name cut short. */
	return strlen(name) > COMM_MAX && strlen(comm) == COMM_MAX &&
	       strncmp(comm, name, COMM_MAX) == 0;
}

/* path is "/a/b" of one line; cgroup "a/b" or "/a/b" or "/a". */
static bool is_below(const char *cgroup, const char *path, size_t len)
{
	size_t cgroup_len;

	while (*cgroup == '/')
		cgroup++;
	while (len > 0 && *path == '/') {
		path++;
		len--;
	}
	cgroup_len = strlen(cgroup);
	while (cgroup_len > 0 && cgroup[cgroup_len - 1] == '/')
		cgroup_len--;
	return cgroup_len > 0 && len >= cgroup_len &&
	       memcmp(path, cgroup, cgroup_len) == 0 &&
	       (len == cgroup_len || path[cgroup_len] == '/');
}

/* Lines are HIERARCHY:CONTROLLERS:PATH. */
bool fgt_rule_is_cgroup(const char *cgroup, const char *text)
{
	while (*text) {
		size_t line_len = strcspn(text, "\n");
		const char *path = memchr(text, ':', line_len);

		if (path) {
			const char *end = text + line_len;

			path = memchr(path + 1, ':', (size_t)(end - path - 1));
			if (path && is_below(cgroup, path + 1,
					     (size_t)(end - path - 1)))
				return true;
		}
		text += line_len;
		text += *text == '\n';
	}
	return false;
}

static bool is_in_cgroup(const char *cgroup, int32_t pid)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char path[40], text[TEXT_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = 0;
	return fgt_rule_is_cgroup(cgroup, text);
}

bool fgt_rule_is_match(const struct fgt_config_target *rule,
		       const struct fgt_process_info *info)
{
	if (rule->name)
		return fgt_rule_is_name(rule->name, info->name, info->exe);
	if (rule->exe)
		return strcmp(rule->exe, info->exe) == 0;
	if (rule->cgroup)
		return is_in_cgroup(rule->cgroup, info->pid);
	return false;
}
