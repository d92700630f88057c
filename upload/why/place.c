/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of a stack are the program's. Pure.
 */
#include "upload/why/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"

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

/* ---- All stacks of a slice ----------------------------------------------- */

/* Each text is looked at once, however many frames have it. */
struct texts {
	const struct fgt_ring_slice *slice;
	bool *libraries; /* by image */
	enum {
		UNKNOWN,
		OWN,
		RUNTIME
	} * functions; /* by string id */
};

static int texts_init(struct texts *texts, const struct fgt_ring_slice *slice)
{
	*texts = (struct texts){ .slice = slice };
	if (!FGT_ARRAY_NEW(texts->libraries, slice->image_count) ||
	    !FGT_ARRAY_NEW(texts->functions, slice->strings.count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->image_count; i++)
		texts->libraries[i] = fgt_place_is_library(
			fgt_slice_string(slice, slice->images[i].path));
	return 0;
}

static void texts_done(struct texts *texts)
{
	free(texts->libraries);
	free(texts->functions);
}

static bool is_own(struct texts *texts, uint32_t function)
{
	if (texts->functions[function] == UNKNOWN)
		texts->functions[function] =
			fgt_place_is_runtime(
				fgt_slice_string(texts->slice, function))
				? RUNTIME
				: OWN;
	return texts->functions[function] == OWN;
}

/* A function of the program, called by what the place has so far. */
static void push(struct fgt_place *place, uint32_t function)
{
	uint32_t *callers = place->callers;

	place->call = 0;
	if (place->is_own && place->function == function)
		return;
	memmove(callers + 1, callers,
		(FGT_PLACE_CALLERS - 1) * sizeof(*callers));
	callers[0] = place->is_own ? place->function : 0;
	place->function = function;
	place->is_own = true;
}

/* Adds a frame to the place of its callers. */
static void add_frame(struct texts *texts, const struct fgt_slice_frame *frame,
		      struct fgt_place *place)
{
	const struct fgt_symbol *symbols =
		&texts->slice->symbols[frame->symbol_first];
	uint32_t image = frame->frame.image, count = frame->symbol_count;
	bool is_pushed = false;

	if ((frame->frame.flags & FGT_FRAME_MARKER) || !count)
		return;
	/* The function itself comes last, before it what is inlined. */
	for (uint32_t i = count; i-- > 0;)
		if (!(image && texts->libraries[image - 1]) &&
		    is_own(texts, symbols[i].function)) {
			push(place, symbols[i].function);
			is_pushed = true;
		}
	if (!is_pushed && !place->is_own)
		place->function = symbols[count - 1].function;
	else if (!is_pushed && !place->call)
		place->call = symbols[count - 1].function;
}

int fgt_places_new(const struct fgt_ring_slice *slice,
		   struct fgt_place **ret_places)
{
	struct fgt_place *places = NULL;
	struct texts texts;
	int r = texts_init(&texts, slice);

	if (r == 0 && !FGT_ARRAY_NEW(places, slice->node_count))
		r = -ENOMEM;
	/* Parents come before their children. */
	for (uint32_t i = 0; i < slice->node_count && r == 0; i++) {
		const struct fgt_slice_node *node = &slice->nodes[i];

		places[i] = fgt_place_of(places, node->parent);
		add_frame(&texts, &slice->frames[node->frame], &places[i]);
	}
	texts_done(&texts);
	if (r == 0)
		*ret_places = places;
	return r;
}

struct fgt_place fgt_place_of(const struct fgt_place *places, uint32_t node)
{
	return node == FGT_NODE_NONE ? (struct fgt_place){ 0 } : places[node];
}
