/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of one kind, by their names: "worker-1" and "worker-12" are both of
 * "worker-*".
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_UPLOAD_WHY_GROUP_H
#define FGT_UPLOAD_WHY_GROUP_H

#include <stddef.h>

#define FGT_GROUP_NAME_MAX 64 /* NUL included */

/*
 * The name with each number in it as '*': decimal digits, in a name that has
 * anything else. Longer names are cut. Returns ret_pattern.
 */
const char *fgt_group_pattern(const char *name,
			      char ret_pattern[FGT_GROUP_NAME_MAX]);

#endif
