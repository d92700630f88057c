/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/locks. Runs in the sampler's thread.
 */
#include "agent/capture/threads/file_lock.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 16

struct line {
	bool is_waiting, is_flock;
	int32_t pid; /* -1: of an open file, which several may have */
};

static const char *next_word(const char *at)
{
	at += strcspn(at, " \n");
	return at + strspn(at, " ");
}

/* "1: FLOCK  ADVISORY  WRITE 312 fe:00:3951 0 EOF"; "1: -> FLOCK …" waits. By
 * hand: there may be hundreds of lines for each wait. */
static bool parse(const char *text, struct line *ret_line)
{
	const char *kind = next_word(text), *pid;
	bool is_waiting = strncmp(kind, "->", 2) == 0;
	char *end;

	if (is_waiting)
		kind = next_word(kind);
	pid = next_word(next_word(next_word(kind)));
	if (*pid == '\n')
		return false;
	*ret_line = (struct line){ .is_waiting = is_waiting,
				   .is_flock = !strncmp(kind, "FLOCK ", 6),
				   .pid = (int32_t)strtol(pid, &end, 10) };
	return end != pid;
}

int32_t fgt_file_lock_holder(const char *locks, int32_t waiting_pid,
			     bool is_flock)
{
	int32_t holder = 0, found = 0;
	const char *end;

	/* Those that wait follow the lock that they wait for. */
	for (; (end = strchr(locks, '\n')); locks = end + 1) {
		struct line line;

		if (!parse(locks, &line))
			return 0;
		if (!line.is_waiting)
			holder = line.pid;
		else if (line.pid != waiting_pid || line.is_flock != is_flock)
			continue;
		else if (holder <= 0 || (found && found != holder))
			return 0;
		else
			found = holder;
	}
	return found;
}

bool fgt_file_lock_is_flock_of(const char *fdinfo, int32_t pid)
{
	static const char lock[] = "lock:";
	const char *end;

	for (; (end = strchr(fdinfo, '\n')); fdinfo = end + 1) {
		struct line line;

		/* Behind it the line is as in the table. */
		if (strncmp(fdinfo, lock, strlen(lock)) == 0 &&
		    parse(fdinfo + strlen(lock) + 1, &line) && line.is_flock &&
		    line.pid == pid)
			return true;
	}
	return false;
}

bool fgt_file_lock_leads_to(const char *locks, int32_t pid, int32_t to_pid)
{
	for (int i = 0; i < STEPS_MAX && pid && pid != to_pid; i++) {
		int32_t next = fgt_file_lock_holder(locks, pid, true);

		pid = next ? next : fgt_file_lock_holder(locks, pid, false);
		if (pid == to_pid)
			return true;
	}
	return false;
}
