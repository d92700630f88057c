/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of thread states: "running", or the blocking system call's name.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_STATE_NAME_H
#define FGT_AGENT_CAPTURE_LOOK_STATE_NAME_H

#include <stdbool.h>
#include <stdint.h>

/*
 * For any architecture's table ("x86_64", "aarch64"), so that a slice reads
 * the same everywhere. Unknown numbers: "syscall". Never NULL; static text.
 * MT-Safe | AS-Safe
 */
const char *fgt_state_name(const char *arch, uint32_t state);

/* Does a state of that architecture match, as by fnmatch(3)? ret_nearest: NULL,
 * or the name that is nearest to the pattern, static. MT-Safe */
bool fgt_state_exists(const char *arch, const char *pattern,
		      const char **ret_nearest);
/* It is of no state on this machine. ret_nearest: as above, if so. MT-Safe */
bool fgt_state_is_misspelt(const char *pattern, const char **ret_nearest);

#endif
