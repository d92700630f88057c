/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user id for a confined child that no account and no process has: what has
 * the same user may stop, kill and trace it. Runs once, in the helper, before
 * it sees a file.
 */
#ifndef FGT_AGENT_CHILDREN_FREE_UID_H
#define FGT_AGENT_CHILDREN_FREE_UID_H

#include <stdint.h>

/* systemd's range of dynamic users, which distributions keep free of accounts:
 * https://systemd.io/UIDS-GIDS */
#define FGT_FREE_UID_FIRST 61184u
#define FGT_FREE_UID_LAST  65519u

/*
 * Tries the ids of the range from a start that seed decides. An id is taken if
 * /etc/passwd has it, systemd has given it to a service, or a process has it.
 * Name services are not asked: they load code, and may wait for a network.
 * -ENOENT: /proc cannot be read, or none of 64 ids is free.
 *
 * MT-Unsafe (fgetpwent) | AS-Unsafe
 */
int fgt_free_uid_find(uint32_t seed, uint32_t *ret_uid);

#endif
