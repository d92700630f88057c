/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the frames of slices. Runs in the threads that serve slices, never
 * while sampling. Files and answers are cached, by build id.
 */
#include "agent/symbols/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "agent/symbols/demangle.h"
#include "agent/symbols/perfmap.h"
#include "agent/symbols/symbol_cache.h"

struct fgt_symbolizer {
	struct fgt_symbolizer_options options;
	char **debug_dirs;
	struct fgt_symbol_cache *cache;
};

/* What one call of resolve needs; on its stack. */
struct work {
	struct fgt_symbolizer *symbolizer;
	struct fgt_slice *slice;
	struct fgt_debug_search search;
	struct fgt_perfmap *perfmap;
	struct fgt_symbol_file **files; /* [image_count], NULL: not yet */
};

static const char default_debug_dir[] = "/usr/lib/debug";

/* ---- Life --------------------------------------------------------------- */

void fgt_symbolizer_free(struct fgt_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	fgt_symbol_cache_free(symbolizer->cache);
	for (size_t i = 0;
	     symbolizer->debug_dirs && i < symbolizer->options.debug_dir_count;
	     i++)
		free(symbolizer->debug_dirs[i]);
	free(symbolizer->debug_dirs);
	free(symbolizer);
}

static int copy_dirs(struct fgt_symbolizer *symbolizer,
		     const struct fgt_symbolizer_options *options)
{
	static const char *const default_dirs[] = { default_debug_dir };
	const char *const *dirs = options->debug_dirs;
	size_t count = options->debug_dir_count;

	if (!dirs) {
		dirs = default_dirs;
		count = 1;
	}
	symbolizer->debug_dirs = calloc(count + 1, sizeof(char *));
	if (!symbolizer->debug_dirs)
		return -ENOMEM;
	symbolizer->options.debug_dir_count = count;
	for (size_t i = 0; i < count; i++) {
		symbolizer->debug_dirs[i] = strdup(dirs[i]);
		if (!symbolizer->debug_dirs[i])
			return -ENOMEM;
	}
	return 0;
}

int fgt_symbolizer_new(const struct fgt_symbolizer_options *options,
		       struct fgt_symbolizer **ret_symbolizer)
{
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	int r;

	symbolizer = calloc(1, sizeof(*symbolizer));
	if (!symbolizer)
		return -ENOMEM;
	symbolizer->options = *options;
	r = copy_dirs(symbolizer, options);
	if (r == 0)
		r = fgt_symbol_cache_new(&symbolizer->options,
					 &symbolizer->cache);
	if (r < 0)
		return r;
	*ret_symbolizer = FGT_TAKE(symbolizer);
	return 0;
}

/* ---- One frame ---------------------------------------------------------- */

static int add_one(struct fgt_slice *slice, uint32_t frame, const char *name,
		   enum fgt_symbol_reason reason)
{
	const struct fgt_symbol_text text = { .function = name,
					      .reason = reason };

	return fgt_slice_add_symbols(slice, frame, &text, 1);
}

/* libredis.so+0x1234: what a person can still look up by hand. */
static int add_unnamed(struct fgt_slice *slice, uint32_t frame,
		       const char *path, uint64_t address,
		       enum fgt_symbol_reason reason)
{
	const char *slash = strrchr(path, '/');
	char name[FGT_IMAGE_PATH_MAX + 32];

	snprintf(name, sizeof(name), "%s+0x%" PRIx64, slash ? slash + 1 : path,
		 address);
	return add_one(slice, frame, name, reason);
}

static int name_jit(struct work *work, uint32_t index,
		    const struct fgt_frame *frame)
{
	bool is_caller = frame->flags & FGT_FRAME_CALLER;
	const char *name = NULL;

	if (work->perfmap)
		name = fgt_perfmap_find(work->perfmap,
					frame->address - is_caller);
	if (!name)
		return add_unnamed(work->slice, index, "[anon]", frame->address,
				   FGT_SYMBOL_NO_MAP);
	return add_one(work->slice, index, name, FGT_SYMBOL_FOUND);
}

static int name_code(struct work *work, uint32_t index,
		     const struct fgt_frame *frame)
{
	uint32_t image = frame->image - 1;
	const char *path =
		fgt_slice_string(work->slice, work->slice->images[image].path);
	bool is_caller = frame->flags & FGT_FRAME_CALLER;
	enum fgt_symbol_reason reason;
	int r;

	if (!work->files[image]) {
		r = fgt_symbol_cache_get(work->symbolizer->cache, work->slice,
					 &work->slice->images[image],
					 &work->search, &work->files[image]);
		if (r < 0)
			return r;
	}
	r = fgt_symbol_file_name(work->files[image], work->slice, index,
				 frame->address - is_caller, &reason);
	if (r != -ENOENT)
		return r;
	return add_unnamed(work->slice, index, path, frame->address, reason);
}

static int name_frame(struct work *work, uint32_t index)
{
	const struct fgt_frame frame = work->slice->frames[index].frame;

	if (frame.flags & FGT_FRAME_MARKER)
		return add_one(work->slice, index,
			       fgt_marker_name(frame.address),
			       FGT_SYMBOL_FOUND);
	if (frame.image == FGT_IMAGE_NONE ||
	    frame.image > work->slice->image_count)
		return name_jit(work, index, &frame);
	return name_code(work, index, &frame);
}

/* ---- One slice ---------------------------------------------------------- */

/* The pid that the target itself knows: the last number of NSpid. */
static int32_t pid_inside(int32_t pid)
{
	FGT_AUTO(fgt_file_close) FILE *status = NULL;
	char path[64], line[256];
	int32_t inside = pid;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		char *last;

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		last = strrchr(line, '\t');
		if (last)
			inside = (int32_t)strtol(last, NULL, 10);
	}
	return inside;
}

static void open_target(struct work *work, bool is_live)
{
	const struct fgt_process_info *process = &work->slice->process;
	char path[64];

	work->search.root_fd = -1;
	if (!is_live || process->pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/root", process->pid);
	work->search.root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (work->search.root_fd >= 0 &&
	    fgt_perfmap_read(work->search.root_fd, pid_inside(process->pid),
			     process->uid, &work->perfmap) < 0)
		work->perfmap = NULL;
}

int fgt_symbolizer_resolve(struct fgt_symbolizer *symbolizer,
			   struct fgt_slice *slice, bool is_live)
{
	struct work work = { .symbolizer = symbolizer, .slice = slice };
	int r = 0;

	work.search.dirs = (const char *const *)symbolizer->debug_dirs;
	work.search.dir_count = symbolizer->options.debug_dir_count;
	work.files = calloc(slice->image_count + 1, sizeof(*work.files));
	if (!work.files)
		return -ENOMEM;
	open_target(&work, is_live);
	for (uint32_t i = 0; i < slice->frame_count && r == 0; i++)
		if (slice->frames[i].symbol_count == 0)
			r = name_frame(&work, i);
	for (uint32_t i = 0; i < slice->image_count; i++)
		fgt_symbol_file_put(work.files[i]);
	free(work.files);
	fgt_perfmap_free(work.perfmap);
	fgt_fd_close(work.search.root_fd);
	return r;
}
