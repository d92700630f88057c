/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the frames of slices by cache, by helper or by perf map, or sets the
 * reason why not. Runs in threads that make slices, never in the sampler
 * thread.
 */
#include "agent/symbols/symbolizer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbols/lock_names.h"
#include "agent/symbols/resolver.h"
#include "agent/symbols/sockets.h"
#include "ringbuf/base/array.h"

#define PERFMAP_KEEP_BYTES (16u << 20) /* larger ones are read each time */
/* For one call: other calls wait for the helper during it. */
#define WAIT_MAX_MS 8000

/* One frame to be named. */
struct frame_job {
	uint64_t address; /* where to look */
	uint32_t image; /* index + 1, FGT_IMAGE_NONE */
	uint32_t frame;
};

static int set_places(struct fgt_symbolizer *symbolizer,
		      const struct fgt_symbolizer_options *options)
{
	static const char *const usual_dirs[] = { "/usr/lib/debug" };
	const char *const *dirs = options->debug_dirs ? options->debug_dirs
						      : usual_dirs;
	size_t count = options->debug_dirs ? options->debug_dir_count : 1;

	if (!FGT_ARRAY_NEW(symbolizer->debug_dirs, count))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		symbolizer->debug_dirs[i] = strdup(dirs[i]);
		if (!symbolizer->debug_dirs[i])
			return -ENOMEM;
	}
	symbolizer->places = (struct fgt_image_places){
		.open_image = options->open_image,
		.context = options->context,
		.is_image_checked = options->is_image_checked,
		.debug_dirs = (const char *const *)symbolizer->debug_dirs,
		.debug_dir_count = count,
	};
	return 0;
}

int fgt_symbolizer_new(const struct fgt_symbolizer_options *options,
		       struct fgt_symbolizer **ret_symbolizer)
{
	static const struct fgt_symbolizer_options usual = { 0 };
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	int error;

	symbolizer = calloc(1, sizeof(*symbolizer));
	if (!symbolizer)
		return -ENOMEM;
	fgt_users_init(&symbolizer->users);
	options = options ? options : &usual;
	symbolizer->demangle = options->demangle;
	symbolizer->wait_max_ms = options->wait_max_ms ? options->wait_max_ms
						       : WAIT_MAX_MS;
	symbolizer->users.helper.path = options->helper_path;
	symbolizer->users.helper.is_local = options->is_local;
	error = set_places(symbolizer, options);
	if (error)
		return error;
	*ret_symbolizer = FGT_TAKE(symbolizer);
	return 0;
}

void fgt_symbolizer_free(struct fgt_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	fgt_users_done(&symbolizer->users);
	for (char **dir = symbolizer->debug_dirs; dir && *dir; dir++)
		free(*dir);
	free(symbolizer->debug_dirs);
	free(symbolizer);
}

/* Gives a frame one symbol that is not from an image. */
static int set_plain(struct fgt_resolver *resolver, uint32_t frame,
		     const char *name, enum fgt_symbol_reason reason)
{
	const struct fgt_symbol_text symbol = { .function = name,
						.reason = reason };

	return fgt_slice_add_symbols(resolver->slice, frame, &symbol, 1);
}

/* Reads the target's perf map if there is one and it has changed. */
static void load_perfmap(struct fgt_resolver *resolver)
{
	struct fgt_user_names *user = resolver->user;
	const struct fgt_process_info *process = &resolver->slice->process;

	resolver->did_perfmap = true;
	if (resolver->root.target_fd < 0 || !resolver->root.ns_pid)
		return;
	user->perfmap_pid = process->pid;
	resolver->has_perfmap = !fgt_perfmap_refresh(
		resolver->root.target_fd, resolver->root.ns_pid, process->uid,
		&user->perfmap);
}

/* NULL if the perf map has no name for a PC. Lock held. */
static const char *find_jit_name(struct fgt_resolver *resolver, uint64_t pc)
{
	if (!resolver->did_perfmap)
		load_perfmap(resolver);
	/* Another call may have put another target's map in its place. */
	if (!resolver->has_perfmap || !resolver->user->perfmap ||
	    resolver->user->perfmap_pid != resolver->slice->process.pid)
		return NULL;
	return fgt_perfmap_find(resolver->user->perfmap, pc);
}

static int name_anonymous(struct fgt_resolver *resolver,
			  const struct frame_job *job)
{
	const struct fgt_frame *frame =
		&resolver->slice->frames[job->frame].frame;
	struct fgt_user_names *user = resolver->user;
	const char *name;
	char text[64];
	int error;

	pthread_mutex_lock(&user->lock);
	name = find_jit_name(resolver, job->address);
	if (name) {
		error = set_plain(resolver, job->frame, name, FGT_SYMBOL_FOUND);
	} else {
		snprintf(text, sizeof(text), "[%s]+0x%" PRIx64,
			 resolver->has_perfmap ? "jit" : "anon",
			 frame->address);
		error = set_plain(resolver, job->frame, text,
				  FGT_SYMBOL_NO_MAP);
	}
	pthread_mutex_unlock(&user->lock);
	return error;
}

/* Memory that a JIT may have mapped by a name that is no ELF file's. */
static bool may_be_jit(const char *path)
{
	static const char *const prefixes[] = { "/memfd:", "/dev/", "/SYSV",
						"//anon", "[anon" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(path, prefixes[i], strlen(prefixes[i])))
			return true;
	return !path[0];
}

/*
 * image!0xstart of the function, if start is not 0, so that all its addresses
 * have one name; else image+0xoffset; or a JIT's name. Lock held.
 */
static int name_by_place(struct fgt_resolver *resolver,
			 const struct frame_job *job,
			 enum fgt_symbol_reason reason, uint64_t start)
{
	const struct fgt_ring_slice *slice = resolver->slice;
	const struct fgt_slice_image *image = &slice->images[job->image - 1];
	const char *path = fgt_slice_string(slice, image->path);
	const char *slash = strrchr(path, '/');
	const char *base = slash && slash[1] ? slash + 1 : path;
	char text[FGT_IMAGE_PATH_MAX + 32];

	if (may_be_jit(path)) {
		const char *name =
			find_jit_name(resolver, image->bias + job->address);

		if (name)
			return set_plain(resolver, job->frame, name,
					 FGT_SYMBOL_FOUND);
	}
	snprintf(text, sizeof(text), "%.*s%c0x%" PRIx64, FGT_IMAGE_PATH_MAX,
		 base[0] ? base : "[anon]", start ? '!' : '+',
		 start ? start : slice->frames[job->frame].frame.address);
	return set_plain(resolver, job->frame, text, reason);
}

/* Names a frame from the cache, or by its place in the image. */
static int name_frame(struct fgt_resolver *resolver,
		      const struct fgt_name_image *image,
		      const struct frame_job *job,
		      enum fgt_symbol_reason reason)
{
	const uint8_t *pack;
	struct fgt_names names;
	size_t len;

	if (!fgt_name_image_find(image, job->address, &pack, &len) ||
	    fgt_names_unpack(pack, len, &names))
		return name_by_place(resolver, job, reason, 0);
	if (!names.count)
		return name_by_place(resolver, job, FGT_SYMBOL_STRIPPED,
				     names.start);
	return fgt_slice_add_symbols(resolver->slice, job->frame, names.symbols,
				     names.count);
}

/*
 * Names the first jobs of one image, up to FGT_HELPER_ADDRESSES_MAX new
 * addresses. Lock held.
 */
static int name_some(struct fgt_resolver *resolver,
		     const struct frame_job *jobs, size_t count,
		     size_t *ret_done)
{
	const struct fgt_slice_image *slice_image =
		&resolver->slice->images[jobs[0].image - 1];
	enum fgt_symbol_reason reason = FGT_SYMBOL_FOUND;
	uint64_t missing[FGT_HELPER_ADDRESSES_MAX];
	struct fgt_name_image *image;
	size_t done, missing_count = 0;
	int error;

	error = fgt_resolver_find_image(resolver, slice_image, &image);
	if (error)
		return error;
	for (done = 0; done < count; done++) {
		uint64_t address = jobs[done].address;
		const uint8_t *pack;
		size_t len;

		if (fgt_name_image_find(image, address, &pack, &len) ||
		    (missing_count && missing[missing_count - 1] == address))
			continue;
		if (missing_count == FGT_HELPER_ADDRESSES_MAX)
			break;
		missing[missing_count++] = address;
	}
	if (missing_count)
		error = fgt_resolver_ask(resolver, image, slice_image, missing,
					 missing_count, &reason);
	for (size_t i = 0; i < done && !error; i++)
		error = name_frame(resolver, image, &jobs[i], reason);
	*ret_done = done;
	return error;
}

/* The same with the lock taken; -ECANCELED if the client has left. */
static int name_next(struct fgt_resolver *resolver,
		     const struct frame_job *jobs, size_t count,
		     size_t *ret_done)
{
	const struct fgt_symbolizer_cancel *cancel = resolver->cancel;
	struct fgt_user_names *user = resolver->user;
	int error;

	if (cancel->is_cancelled && cancel->is_cancelled(cancel->context))
		return -ECANCELED;
	pthread_mutex_lock(&user->lock);
	user->helper.is_cancelled = cancel->is_cancelled;
	user->helper.cancel_context = cancel->context;
	error = name_some(resolver, jobs, count, ret_done);
	pthread_mutex_unlock(&user->lock);
	return error;
}

static int name_jobs(struct fgt_resolver *resolver,
		     const struct frame_job *jobs, size_t count)
{
	int error = 0;

	for (size_t i = 0, done = 0; i < count && !error; i += done) {
		size_t end = i;

		if (!jobs[i].image) {
			error = name_anonymous(resolver, &jobs[i]);
			done = 1;
			continue;
		}
		while (end < count && jobs[end].image == jobs[i].image)
			end++;
		error = name_next(resolver, &jobs[i], end - i, &done);
	}
	return error;
}

static int compare_jobs(const void *left, const void *right)
{
	const struct frame_job *a = left, *b = right;

	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->frame > b->frame) - (a->frame < b->frame);
}

/* Lists the frames that need names; markers get theirs at once. */
static int list_jobs(struct fgt_resolver *resolver, struct frame_job *jobs,
		     size_t *ret_count)
{
	const struct fgt_ring_slice *slice = resolver->slice;
	size_t count = 0;
	int error = 0;

	for (uint32_t i = 0; i < slice->frame_count && !error; i++) {
		const struct fgt_frame *frame = &slice->frames[i].frame;

		if (slice->frames[i].symbol_count)
			continue;
		if (frame->flags & FGT_FRAME_MARKER) {
			error = set_plain(resolver, i,
					  fgt_marker_name(frame->address),
					  FGT_SYMBOL_FOUND);
			continue;
		}
		jobs[count++] = (struct frame_job){
			.address = frame->address -
				   !!(frame->flags & FGT_FRAME_CALLER),
			.image = frame->image <= slice->image_count
					 ? frame->image
					 : FGT_IMAGE_NONE,
			.frame = i,
		};
	}
	*ret_count = count;
	return error;
}

static void tidy_up(struct fgt_user_names *user)
{
	pthread_mutex_lock(&user->lock);
	if (user->helper.is_local)
		fgt_helper_stop(&user->helper);
	if (user->perfmap &&
	    fgt_perfmap_count_bytes(user->perfmap) > PERFMAP_KEEP_BYTES)
		fgt_perfmap_free(FGT_TAKE(user->perfmap));
	pthread_mutex_unlock(&user->lock);
}

static int resolve_jobs(struct fgt_resolver *resolver,
			const struct frame_job *jobs, size_t count,
			bool is_live)
{
	const struct fgt_process_info *process = &resolver->slice->process;
	struct fgt_users *users = &resolver->symbolizer->users;
	int error =
		fgt_users_get(users, (uint32_t)process->uid, &resolver->user);

	if (error)
		return error;
	fgt_target_root_open(process, is_live, &resolver->root);
	error = name_jobs(resolver, jobs, count);
	if (!error)
		error = fgt_resolver_name_objects(resolver);
	fgt_lock_names_apply(resolver->slice);
	if (!error)
		error = fgt_sockets_name(resolver->slice,
					 resolver->root.proc_fd);
	fgt_target_root_close(&resolver->root);
	tidy_up(resolver->user);
	fgt_users_put(users, resolver->user);
	return error;
}

int fgt_symbolizer_resolve_until(struct fgt_symbolizer *symbolizer,
				 struct fgt_ring_slice *slice, bool is_live,
				 const struct fgt_symbolizer_cancel *cancel)
{
	struct fgt_resolver resolver = {
		.symbolizer = symbolizer,
		.slice = slice,
		.cancel = cancel,
		.left_ms = symbolizer->wait_max_ms,
		.checksums_left_ms = FGT_RESOLVER_CHECKSUMS_MS,
	};
	struct frame_job *jobs;
	size_t count;
	int error;

	if (!FGT_ARRAY_NEW(jobs, slice->frame_count))
		return -ENOMEM;
	error = list_jobs(&resolver, jobs, &count);
	if (!error) {
		FGT_ARRAY_SORT(jobs, count, compare_jobs);
		error = resolve_jobs(&resolver, jobs, count, is_live);
	}
	free(jobs);
	return error;
}

int fgt_symbolizer_resolve(struct fgt_symbolizer *symbolizer,
			   struct fgt_ring_slice *slice, bool is_live)
{
	static const struct fgt_symbolizer_cancel never = { 0 };

	return fgt_symbolizer_resolve_until(symbolizer, slice, is_live, &never);
}
