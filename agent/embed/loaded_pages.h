/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives back pages that only the loading of this library and its dependencies
 * has touched: relocations and constructors make 550 KiB of files resident that
 * a recorder reads only when it cuts a slice. With it a recorded program has
 * 1.1 MB more in memory than without the library, else 1.7 MB; the limit is
 * 1.5 MB (tests/bench/bench_embed.py). For glibc's loader.
 */
#ifndef FGT_AGENT_EMBED_LOADED_PAGES_H
#define FGT_AGENT_EMBED_LOADED_PAGES_H

#include <stdint.h>

/*
 * Pages of the libraries that were loaded with this one, not of those that the
 * program had before. Later calls do nothing.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_loaded_pages_give_back(void);

/*
 * Pages of one library, which must stay loaded during the call. base: address
 * of its ELF header. The kernel maps its read-only parts again when they are
 * used. A part that was written to (breakpoints of a debugger), or of which
 * that is unknown, stays as it is.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_loaded_pages_drop(uintptr_t base);

#endif
