/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches processes against the configuration's targets. Runs as a job;
 * texts of a process are not trusted: compared, never used.
 */
#include "agent/daemon/targets/target_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/loop.h"
#include "agent/files/open_file.h"
#include "ringbuf/base/array.h"

#define COMM_MAX   15
#define TEXT_MAX   8192
#define PLACES_MAX 1024
#define KEPT_NS	   UINT64_C(1000000000)
#define RETRY_NS   (60 * KEPT_NS)

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

/*
 * Where paths of the configuration lead. Its file system may not answer: a
 * reader asks it, once a second, and once a minute if it did not answer.
 */
static struct exe_place {
	char *path, target[FGT_OPEN_PATH_MAX];
	uint64_t until_ns;
} * places;
static size_t place_count, place_capacity;

static void find_target(struct exe_place *place)
{
	FGT_AUTO(fgt_fd_close) int root_fd = -1;
	struct fgt_open_request request = {
		.place = FGT_OPEN_NAMED,
		.path = place->path,
		.is_trusted = true,
	};
	struct fgt_opened_file file = { .fd = -1 };
	char link[40];
	ssize_t len = -1;
	int r;

	root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	request.dir_fd = root_fd;
	r = fgt_file_open(&request, &file);
	if (r == -ETIMEDOUT)
		fgt_log(FGT_LOG_WARNING, "target_not_found",
			"exe %s: its file system does not answer: end or "
			"unmount it",
			place->path);
	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", file.fd);
	if (r == 0)
		len = readlink(link, place->target, sizeof(place->target) - 1);
	place->target[len < 0 ? 0 : len] = '\0';
	fgt_file_close_of(file.fd, 0);
	place->until_ns =
		fgt_loop_now() + (r == -ETIMEDOUT ? RETRY_NS : KEPT_NS);
}

static const char *target_of(const char *path)
{
	struct exe_place *place = places, *end = place + place_count;

	while (place < end && strcmp(place->path, path) != 0)
		place++;
	if (place == end) {
		if (place_count == PLACES_MAX ||
		    FGT_ARRAY_GROW(places, place_count, place_capacity) < 0)
			return "";
		place = &places[place_count];
		*place = (struct exe_place){ .path = strdup(path) };
		if (!place->path)
			return "";
		place_count++;
	}
	if (fgt_loop_now() >= place->until_ns)
		find_target(place);
	return place->target;
}

/* The configuration may name a link, which may lead elsewhere by now. */
static bool is_exe(const char *path, const char *exe)
{
	return strcmp(path, exe) == 0 ||
	       (*exe && strcmp(target_of(path), exe) == 0);
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
