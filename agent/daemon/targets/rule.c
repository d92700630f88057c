/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches processes against the configuration's targets. Runs as a job;
 * texts of a process are not trusted: compared, never used.
 */
#include "agent/daemon/targets/target_table.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

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

/* The place behind the next colon; behind the line if it has no more. */
static size_t next_field(const char *line, size_t at)
{
	return at + strcspn(line + at, ":\n") + 1;
}

/* Lines are HIERARCHY:CONTROLLERS:PATH. */
bool fgt_rule_is_cgroup(const char *cgroup, const char *text)
{
	size_t len;

	for (; *text; text += len + (text[len] == '\n')) {
		size_t at = next_field(text, 0);

		len = strcspn(text, "\n");
		if (at < len)
			at = next_field(text, at);
		if (at < len && is_below(cgroup, text + at, len - at))
			return true;
	}
	return false;
}

static bool is_in_cgroup(const char *cgroup, int32_t pid)
{
	char path[40], text[TEXT_MAX];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	return fgt_procfs_begin(pid) == 0 &&
	       fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	       fgt_rule_is_cgroup(cgroup, text);
}

/* The configuration may name a link, which may lead elsewhere by now. */
static bool is_exe(const char *path, const char *exe)
{
	char target[PATH_MAX];

	return strcmp(path, exe) == 0 ||
	       (realpath(path, target) && strcmp(target, exe) == 0);
}

bool fgt_rule_is_match(const struct fgt_config_target *rule,
		       const struct fgt_process_info *info)
{
	if (rule->name)
		return fgt_rule_is_name(rule->name, info->name, info->exe);
	if (rule->exe)
		return is_exe(rule->exe, info->exe);
	if (rule->cgroup)
		return is_in_cgroup(rule->cgroup, info->pid);
	return false;
}
