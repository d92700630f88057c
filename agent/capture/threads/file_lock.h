/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks on files, of flock(2) and fcntl(2): who holds what a process waits for.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_FILE_LOCK_H
#define FGT_AGENT_CAPTURE_THREADS_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * By the text of /proc/locks, of which the last line may be cut. 0: it is not
 * known, or threads of that process wait for locks of several.
 *
 * MT-Safe | AS-Safe
 */
int32_t fgt_file_lock_holder(const char *locks, int32_t waiting_pid,
			     bool is_flock);

/* Has the descriptor, of which this is the fdinfo, a lock of flock(2) that the
 * process took? */
bool fgt_file_lock_is_flock_of(const char *fdinfo, int32_t pid);

/* Does that process wait, by way of others, for one that to_pid holds? */
bool fgt_file_lock_leads_to(const char *locks, int32_t pid, int32_t to_pid);

#endif
