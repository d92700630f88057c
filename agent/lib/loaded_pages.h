/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives back the pages that only loading libfgtrace-embed.so and what it needs
 * has touched: relocations and constructors bring in half a megabyte of files
 * that the recorder may never look at.
 */
#ifndef FGT_AGENT_LIB_LOADED_PAGES_H
#define FGT_AGENT_LIB_LOADED_PAGES_H

/* How many objects are loaded; to be asked before ours are. */
unsigned int fgt_loaded_count(void);

/*
 * Of the objects that came after so many, those that are ours and stay for
 * ever: pages that were never written to are mapped again when they are used.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_loaded_give_back(unsigned int count);

#endif
