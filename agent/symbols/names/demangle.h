/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangles C++ (Itanium) and Rust (legacy and v0) names.
 * Runs in the symbol helper; bounded in output, never trusts a name.
 */
#ifndef FGT_AGENT_SYMBOLS_NAMES_DEMANGLE_H
#define FGT_AGENT_SYMBOLS_NAMES_DEMANGLE_H

#include <stddef.h>

#include "agent/config/choices.h"

/*
 * Writes the readable form of a linker's name to ret_text[capacity], always
 * NUL-terminated and cut if longer; a name that is not mangled is copied. A
 * version ("read@@GLIBC_2.2.5") is dropped, "@plt" is kept.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_demangle_name(const char *name, enum fgt_demangle mode, char *ret_text,
		       size_t capacity);

#endif
