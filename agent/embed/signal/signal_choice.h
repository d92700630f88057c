/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which signal samples the running threads of this process.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_CHOICE_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_CHOICE_H

#include <stdbool.h>

/* One that the program leaves alone and that does nothing by default, with the
 * handler from now on. -ENOSPC there is none; errno of sigaction. MT-Unsafe */
int fgt_signal_choice_take(int *ret_number);
/* The program may have put another handler in its place. AS-Safe */
bool fgt_signal_choice_is_ours(int number);
/* As it was before, if the handler is still the source's. AS-Safe */
void fgt_signal_choice_give_back(void);

#endif
