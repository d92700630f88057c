/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovers the frame pointer of a blocked thread from the stack: procfs does
 * not have it.
 */
#ifndef FGT_AGENT_UNWIND_FRAME_POINTER_H
#define FGT_AGENT_UNWIND_FRAME_POINTER_H

#include "agent/unwind/walk.h"

/*
 * walk ended with is_fp_unknown. Tries the slots above its SP that can be the
 * saved frame pointer of the function that asked; the first from which the walk
 * reaches the root is taken and walk->list holds its frames. Returns 0, or why
 * there is none; walk->list is then undefined and walk->view.need_end is set if
 * more of the stack might help.
 */
enum fgt_marker fgt_frame_pointer_recover(struct fgt_walk *walk,
					  const struct fgt_regs *regs);

#endif
