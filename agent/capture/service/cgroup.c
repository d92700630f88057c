/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit and container by the names of cgroups. Any thread; must not trust the
 * names: users make cgroups, and containers see and name parts of the paths.
 */
#include "agent/capture/service/cgroup.h"

#include <ctype.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

#define ID_DIGITS 64
#define TEXT_MAX  8192

struct name {
	const char *at;
	size_t len;
};

/* The first run of exactly 64 hexadecimal digits: "docker-ID.scope", "ID",
 * "cri-containerd-ID.scope", "libpod-ID.scope". */
static bool find_id(struct name name, struct name *ret_id)
{
	size_t run = 0;

	for (size_t i = 0; i <= name.len; i++) {
		if (i < name.len && isxdigit((unsigned char)name.at[i])) {
			run++;
			continue;
		}
		if (run == ID_DIGITS) {
			*ret_id = (struct name){ name.at + i - run, run };
			return true;
		}
		run = 0;
	}
	return false;
}

static bool ends_with(struct name name, const char *end)
{
	size_t len = strlen(end);

	return name.len > len && !memcmp(name.at + name.len - len, end, len);
}

/* "user@1000.service" holds all units of a user. */
static bool is_unit(struct name name)
{
	return ends_with(name, ".service") &&
	       (name.len < 5 || memcmp(name.at, "user@", 5) != 0);
}

/* Components of one path, outermost first; inner ones take the place. */
static void parse_path(const char *at, const char *end, struct name *unit,
		       struct name *container)
{
	while (at < end) {
		struct name name = { at, 0 };

		while (at < end && *at != '/')
			at++;
		name.len = (size_t)(at - name.at);
		at++;
		if (find_id(name, container))
			*unit = (struct name){ NULL, 0 };
		else if (is_unit(name) && !container->len)
			*unit = name;
	}
}

void fgt_cgroup_parse(const char *text, struct fgt_service *service)
{
	struct name unit = { NULL, 0 }, container = { NULL, 0 };

	/* Lines are HIERARCHY:CONTROLLERS:PATH. */
	while (*text && !container.len) {
		const char *end = text + strcspn(text, "\n");
		const char *colon = memchr(text, ':', (size_t)(end - text));

		if (colon)
			colon = memchr(colon + 1, ':',
				       (size_t)(end - colon - 1));
		if (colon)
			parse_path(colon + 1, end, &unit, &container);
		text = end + (*end == '\n');
	}
	if (unit.len)
		fgt_service_set(service, FGT_SERVICE_UNIT, unit.at, unit.len);
	if (container.len)
		fgt_service_set(service, FGT_SERVICE_CONTAINER, container.at,
				container.len);
}

void fgt_cgroup_read(int proc_fd, struct fgt_service *service)
{
	char text[TEXT_MAX];

	if (fgt_procfs_read(proc_fd, "cgroup", text, sizeof(text)) > 0)
		fgt_cgroup_parse(text, service);
}
