/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frame of a stack is the program's. Pure.
 */
#include "upload/why/place.h"

#include <string.h>

/* Beginnings of base names; a version follows. */
static const char *const libraries[] = {
	"libc.so",     "libc-2.",     "ld-linux",     "ld-musl",
	"ld-2.",       "libpthread",  "libm.so",      "librt.so",
	"librt-2.",    "libdl",	      "libm-2.",      "libstdc++.so",
	"libgcc_s",    "libc++.so",   "libc++abi",    "libresolv",
	"libnss_",     "libasan.so",  "libtsan.so",   "libubsan.so",
	"libjemalloc", "libtcmalloc", "libfgtrace",   "[vdso]",
	"[vsyscall]",  "libanl",      "libatomic.so",
};

static const char *const namespaces[] = {
	"std::",       "core::",      "alloc::",    "<std::",	"<core::",
	"<alloc::",    "__gnu_cxx::", "runtime.",   "syscall.", "internal/",
	"parking_lot", "__libc_",     "__pthread_",
};

static bool begins_with_one(const char *text, const char *const *beginnings,
			    size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

bool fgt_place_is_library(const char *path)
{
	const char *slash = strrchr(path, '/');

	return begins_with_one(slash ? slash + 1 : path, libraries,
			       sizeof(libraries) / sizeof(*libraries));
}

/* Demangled templates begin with the type that they return, which may be one
 * itself: the name begins behind the last blank outside all brackets. */
static const char *skip_return_type(const char *function)
{
	const char *name = function;
	unsigned int depth = 0;

	for (const char *at = function; *at && (depth || *at != '('); at++) {
		if (*at == '<')
			depth++;
		else if (*at == '>' && depth)
			depth--;
		else if (*at == ' ' && !depth)
			name = at + 1;
	}
	return name;
}

bool fgt_place_is_runtime(const char *function)
{
	if (strcmp(function, "_start") == 0)
		return true;
	return begins_with_one(skip_return_type(function), namespaces,
			       sizeof(namespaces) / sizeof(*namespaces));
}

/* The innermost function of the frame that is the program's; 0: none is. */
static uint32_t own_function(const struct fgt_ring_slice *slice,
			     const struct fgt_slice_frame *frame)
{
	uint32_t image = frame->frame.image;

	if (image && fgt_place_is_library(fgt_slice_string(
			     slice, slice->images[image - 1].path)))
		return 0;
	for (uint32_t i = 0; i < frame->symbol_count; i++) {
		uint32_t name =
			slice->symbols[frame->symbol_first + i].function;

		if (!fgt_place_is_runtime(fgt_slice_string(slice, name)))
			return name;
	}
	return 0;
}

/* The function itself, not one that was inlined into it. */
static uint32_t outer_function(const struct fgt_ring_slice *slice,
			       const struct fgt_slice_frame *frame)
{
	return slice->symbols[frame->symbol_first + frame->symbol_count - 1]
		.function;
}

struct fgt_place fgt_place_of(const struct fgt_ring_slice *slice, uint32_t node)
{
	uint32_t call = 0, leaf = 0;

	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];
		uint32_t own;

		if ((frame->frame.flags & FGT_FRAME_MARKER) ||
		    !frame->symbol_count)
			continue;
		own = own_function(slice, frame);
		if (own)
			return (struct fgt_place){ own, call, true };
		call = outer_function(slice, frame);
		if (!leaf)
			leaf = call;
	}
	return (struct fgt_place){ leaf, 0, false };
}

void fgt_place_callers(const struct fgt_ring_slice *slice, uint32_t node,
		       uint32_t ret_callers[FGT_PLACE_CALLERS])
{
	uint32_t last = fgt_place_of(slice, node).function, count = 0;

	memset(ret_callers, 0, FGT_PLACE_CALLERS * sizeof(*ret_callers));
	for (; node != FGT_NODE_NONE && count < FGT_PLACE_CALLERS;
	     node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];
		uint32_t own = frame->frame.flags & FGT_FRAME_MARKER
				       ? 0
				       : own_function(slice, frame);

		if (!own || own == last)
			continue;
		last = own;
		ret_callers[count++] = own;
	}
}
