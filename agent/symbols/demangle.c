/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling through libiberty. Runs where slices are resolved. Must never
 * lift libiberty's recursion limit: hostile names would overflow the stack.
 */
#include "agent/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <stdio.h>
#include <string.h>

#define MANGLED_MAX 4096

static bool is_mangled(const char *name)
{
	/* Itanium C++, Rust v0; clones such as _Z….cold are known too. */
	return !strncmp(name, "_Z", 2) || !strncmp(name, "__Z", 3) ||
	       !strncmp(name, "_R", 2);
}

void fgt_demangle_name(const char *name, enum fgt_demangle how, char *ret_text,
		       size_t size)
{
	int options = DMGL_ANSI | DMGL_AUTO;
	FGT_AUTO(free) void *text = NULL;

	if (how == FGT_DEMANGLE_FULL)
		options |= DMGL_PARAMS;
	if (how != FGT_DEMANGLE_NO && is_mangled(name) &&
	    strnlen(name, MANGLED_MAX) < MANGLED_MAX)
		text = cplus_demangle(name, options);
	snprintf(ret_text, size, "%s", text ? (const char *)text : name);
}
