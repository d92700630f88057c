/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ and Rust names as people wrote them.
 */
#ifndef FGT_AGENT_SYMBOLS_DEMANGLE_H
#define FGT_AGENT_SYMBOLS_DEMANGLE_H

#include <stddef.h>

#include "agent/symbols/symbolizer.h"

/*
 * Writes the demangled name, or name itself if it is not mangled, is longer
 * than 4 KiB, or nests too deep for libiberty's own limit (FAULTS §2).
 * The result is cut at size. MT-Safe | AS-Unsafe
 */
void fgt_demangle_name(const char *name, enum fgt_demangle how, char *ret_text,
		       size_t size);

#endif
