/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for a user id that nothing has. Runs in the symbol helper while it has
 * its rights; must not load a name service.
 */
#include "agent/children/free_uid.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define RANGE	  (FGT_FREE_UID_LAST - FGT_FREE_UID_FIRST + 1)
#define TRIES_MAX 64

/* Bits of the ids of the range that are taken. */
struct taken {
	uint8_t bits[(RANGE + 7) / 8];
};

static void take(struct taken *taken, uint32_t uid)
{
	uint32_t at = uid - FGT_FREE_UID_FIRST;

	if (uid >= FGT_FREE_UID_FIRST && uid <= FGT_FREE_UID_LAST)
		taken->bits[at / 8] |= (uint8_t)(1u << at % 8);
}

static void take_accounts(struct taken *taken)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *account;

	while (file && (account = fgetpwent(file)))
		take(taken, account->pw_uid);
}

/* The line "Uid:" of /proc/PID/status: real, effective, saved, file system. */
static void take_status(struct taken *taken, int proc_fd, const char *pid)
{
	char path[sizeof(((struct dirent *)0)->d_name) + 8], text[1024];
	FGT_AUTO(fgt_fd_close) int fd = -1;
	uint32_t uids[3];
	const char *line;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/status", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len < 0)
		return;
	text[len] = '\0';
	line = strstr(text, "\nUid:");
	if (line &&
	    sscanf(line, "\nUid: %u %u %u", &uids[0], &uids[1], &uids[2]) == 3)
		for (size_t i = 0; i < 3; i++)
			take(taken, uids[i]);
}

static int take_processes(struct taken *taken)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	struct stat status;

	if (!processes)
		return -ENOENT;
	while ((entry = readdir(processes))) {
		int fd = dirfd(processes);

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    fstatat(fd, entry->d_name, &status, 0) < 0)
			continue;
		take(taken, status.st_uid);
		/* The folder of a process that guards itself, as helpers do,
		 * belongs to root. */
		if (!status.st_uid)
			take_status(taken, fd, entry->d_name);
	}
	closedir(processes);
	return 0;
}

static bool is_free(const struct taken *taken, uint32_t uid)
{
	uint32_t at = uid - FGT_FREE_UID_FIRST;
	char path[64];

	/* A file for each dynamic user that there is. */
	snprintf(path, sizeof(path), "/run/systemd/dynamic-uid/%u", uid);
	return !(taken->bits[at / 8] & 1u << at % 8) && access(path, F_OK) < 0;
}

int fgt_free_uid_find(uint32_t seed, uint32_t *ret_uid)
{
	struct taken taken = { { 0 } };

	if (take_processes(&taken) < 0)
		return -ENOENT;
	take_accounts(&taken);
	for (uint32_t i = 0; i < TRIES_MAX; i++) {
		/* Neighbours are taken together: try far apart. */
		uint32_t uid = FGT_FREE_UID_FIRST + (seed + i * 997) % RANGE;

		if (is_free(&taken, uid)) {
			*ret_uid = uid;
			return 0;
		}
	}
	return -ENOENT;
}
