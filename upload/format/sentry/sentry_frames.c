/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the frames and stacks of a planned Sentry profile, leaf first in
 * every stack. Runs in any thread; must write the same bytes each time.
 */
#include <errno.h>
#include <string.h>

#include "upload/format/parts/levels.h"
#include "upload/format/sentry/sentry_profile.h"

static bool has_prefix(const char *path, const char *prefix)
{
	return !strncmp(path, prefix, strlen(prefix));
}

static bool is_in_app(const struct fgt_ring_slice *slice,
		      const struct fgt_slice_frame *frame)
{
	static const char *const system[] = {
		"/lib/",       "/lib64/", "/usr/lib/", "/usr/lib64/",
		"/usr/lib32/", "/lib32/", "["
	};
	const char *path, *name;

	if (frame->frame.flags & FGT_FRAME_MARKER)
		return false;
	if (!frame->frame.image) /* compiled at run time, if it has a name */
		return frame->symbol_count &&
		       slice->symbols[frame->symbol_first].reason ==
			       FGT_SYMBOL_FOUND;
	path = fgt_slice_string(slice,
				slice->images[frame->frame.image - 1].path);
	if (slice->process.exe[0] && !strcmp(path, slice->process.exe))
		return true;
	name = strrchr(path, '/');
	if (name && has_prefix(name, "/libfgtrace")) /* in any directory */
		return false;
	for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++)
		if (has_prefix(path, system[i]))
			return false;
	return true;
}

/* An absolute path also gives its last part as file name. */
static void put_source(struct fgt_json *json, const char *file)
{
	const char *slash = strrchr(file, '/');

	if (!*file)
		return;
	fgt_json_put_string(json, "filename",
			    slash && slash[1] ? slash + 1 : file);
	if (*file == '/')
		fgt_json_put_string(json, "abs_path", file);
}

static void put_virtual_frame(struct fgt_json *json, const char *name)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "function", name);
	fgt_json_put_bool(json, "in_app", false);
	fgt_json_end_object(json);
}

/* The exact PC of a leaf, the return address of a caller, as Sentry wants. */
static void put_address(struct fgt_json *json,
			const struct fgt_ring_slice *slice,
			const struct fgt_slice_frame *frame)
{
	const struct fgt_slice_image *image;

	if (!frame->frame.image) {
		fgt_json_put_hex_string(json, "instruction_addr",
					frame->frame.address);
		return;
	}
	image = &slice->images[frame->frame.image - 1];
	fgt_json_put_string(json, "package",
			    fgt_slice_string(slice, image->path));
	fgt_json_put_hex_string(json, "instruction_addr",
				image->bias + frame->frame.address);
}

static void put_level(struct fgt_json *json, const struct fgt_ring_slice *slice,
		      uint32_t index, uint32_t level)
{
	const struct fgt_slice_frame *frame = &slice->frames[index];
	const struct fgt_symbol *symbol =
		frame->symbol_count
			? &slice->symbols[frame->symbol_first + level]
			: NULL;
	char buffer[FGT_LEVEL_NAME_MAX];

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(
		json, "function",
		fgt_level_name(slice, fgt_level_of_frame(slice, index, level),
			       buffer));
	if (symbol)
		put_source(json, fgt_slice_string(slice, symbol->file));
	if (symbol && symbol->line)
		fgt_json_put_uint(json, "lineno", symbol->line);
	put_address(json, slice, frame);
	fgt_json_put_bool(json, "in_app", is_in_app(slice, frame));
	fgt_json_end_object(json);
}

static void put_slice_frame(struct fgt_json *json,
			    const struct fgt_ring_slice *slice, uint32_t index)
{
	const struct fgt_frame *frame = &slice->frames[index].frame;
	uint32_t count = fgt_levels_of_frame(slice, index);

	if (frame->flags & FGT_FRAME_MARKER)
		put_virtual_frame(json, fgt_marker_name(frame->address));
	else
		for (uint32_t i = 0; i < count; i++)
			put_level(json, slice, index, i);
}

void fgt_sentry_frames_put(const struct fgt_sentry_profile *profile,
			   struct fgt_json *json)
{
	char buffer[FGT_LEVEL_NAME_MAX];

	fgt_json_begin_array(json, "frames");
	for (uint32_t i = 0; i < profile->frames.count; i++) {
		uint64_t key = profile->frames.keys[i];

		if (key >> 32)
			put_virtual_frame(json,
					  fgt_level_name(profile->slice,
							 fgt_level_of_key(key),
							 buffer));
		else
			put_slice_frame(json, profile->slice, (uint32_t)key);
	}
	fgt_json_end_array(json);
}

static uint64_t level_key(enum fgt_level_kind kind, uint32_t id)
{
	return fgt_level_key((struct fgt_level){ kind, id });
}

size_t fgt_sentry_stack_frames(const struct fgt_sentry_profile *profile,
			       uint64_t stack,
			       uint64_t ret_keys[FGT_SENTRY_FRAMES_MAX])
{
	const struct fgt_slice_node *nodes = profile->slice->nodes;
	enum fgt_state_frames place = profile->scope.state_frames;
	uint64_t state = level_key(FGT_LEVEL_STATE, (uint32_t)stack);
	uint32_t node = (uint32_t)(stack >> 32);
	size_t count = 0;

	if (stack == FGT_SENTRY_GAP_STACK) {
		ret_keys[0] = level_key(FGT_LEVEL_GAP, 0);
		return 1;
	}
	if (place == FGT_STATE_FRAMES_LEAF)
		ret_keys[count++] = state;
	if (node == FGT_NODE_NONE)
		ret_keys[count++] = level_key(FGT_LEVEL_NO_STACK, 0);
	for (; node != FGT_NODE_NONE && count < FGT_SLICE_DEPTH_MAX;
	     node = nodes[node].parent)
		ret_keys[count++] = profile->canonical[nodes[node].frame];
	if (fgt_state_is_at_root(place))
		ret_keys[count++] = state;
	return count;
}

/* The levels of all its frames. -EINVAL: the plan lacks one. */
static int put_stack(const struct fgt_sentry_profile *profile,
		     struct fgt_json *json, uint64_t stack)
{
	uint64_t keys[FGT_SENTRY_FRAMES_MAX];
	size_t count = fgt_sentry_stack_frames(profile, stack, keys);

	for (size_t i = 0; i < count; i++) {
		uint32_t frame = fgt_id_map_find(&profile->frames, keys[i]);

		if (frame == FGT_ID_NONE)
			return -EINVAL;
		for (uint32_t id = profile->frame_first[frame];
		     id < profile->frame_first[frame + 1]; id++)
			fgt_json_put_uint(json, NULL, id);
	}
	return 0;
}

int fgt_sentry_stacks_put(const struct fgt_sentry_profile *profile,
			  struct fgt_json *json)
{
	const struct fgt_id_map *stacks = &profile->stacks;
	int r = 0;

	fgt_json_begin_array(json, "stacks");
	for (uint32_t i = 0; i < stacks->count && !r; i++) {
		fgt_json_begin_array(json, NULL);
		r = put_stack(profile, json, stacks->keys[i]);
		fgt_json_end_array(json);
	}
	fgt_json_end_array(json);
	return r;
}
