/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the addresses of waits: what a lock is. Runs in threads that make
 * slices; must not read a foreign file.
 */
#include "agent/symbols/resolver.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ringbuf/base/array.h"

#define BSS_MAX_BYTES	((uint64_t)64 << 20)
#define HEAP_MAX_BYTES	((uint64_t)64 << 30) /* then other memory may follow */
#define STACK_MAX_BYTES ((uint64_t)8 << 20) /* the usual limit */

/* One address to be named. */
struct object_job {
	uint64_t address; /* ELF address, in the image */
	uint32_t image; /* index */
	uint32_t wait; /* index */
	bool is_inside; /* of the mappings of its file */
};

/*
 * The image that begins last before an address. Data without content (.bss)
 * lies behind the mappings of its file, where no symbol covers what is not the
 * file's.
 */
static bool find_image(const struct fgt_ring_slice *slice, uint64_t address,
		       struct object_job *ret_job)
{
	const struct fgt_slice_image *best = NULL;

	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		if (image->start <= address && image->start < image->end &&
		    (!best || image->start > best->start))
			best = image;
	}
	if (!best || address < best->bias ||
	    (address >= best->end && address - best->end >= BSS_MAX_BYTES))
		return false;
	ret_job->address = address - best->bias;
	ret_job->image = (uint32_t)(best - slice->images);
	ret_job->is_inside = address < best->end;
	return true;
}

static int set_object(struct fgt_ring_slice *slice,
		      const struct object_job *job, const char *name)
{
	return fgt_strings_intern(&slice->strings, name, strlen(name),
				  &slice->waits[job->wait].object);
}

/* By what the cache has, or by its offset. */
static int name_object(struct fgt_resolver *resolver,
		       const struct fgt_name_image *image,
		       const struct object_job *job)
{
	struct fgt_ring_slice *slice = resolver->slice;
	const char *path =
		fgt_slice_string(slice, slice->images[job->image].path);
	const char *slash = strrchr(path, '/');
	char text[FGT_IMAGE_PATH_MAX + 32];
	struct fgt_names names;
	const uint8_t *pack;
	size_t len;

	if (fgt_name_image_find(image, job->address, &pack, &len) &&
	    !fgt_names_unpack(pack, len, &names) && names.count)
		return set_object(slice, job,
				  names.symbols[names.count - 1].function);
	if (!job->is_inside || !path[0])
		return 0;
	snprintf(text, sizeof(text), "%.*s+0x%" PRIx64, FGT_IMAGE_PATH_MAX,
		 slash && slash[1] ? slash + 1 : path, job->address);
	return set_object(slice, job, text);
}

/* Jobs of one image, FGT_HELPER_ADDRESSES_MAX at most. Lock held. */
static int name_some(struct fgt_resolver *resolver,
		     const struct object_job *jobs, size_t count)
{
	const struct fgt_slice_image *slice_image =
		&resolver->slice->images[jobs[0].image];
	uint64_t missing[FGT_HELPER_ADDRESSES_MAX];
	enum fgt_symbol_reason reason;
	struct fgt_name_image *image;
	size_t missing_count = 0;
	const uint8_t *pack;
	size_t len;
	int error = fgt_resolver_find_image(resolver, slice_image, &image);

	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		if (!fgt_name_image_find(image, jobs[i].address, &pack, &len) &&
		    (!missing_count ||
		     missing[missing_count - 1] != jobs[i].address))
			missing[missing_count++] = jobs[i].address;
	if (missing_count)
		error = fgt_resolver_ask(resolver, image, slice_image, missing,
					 missing_count, &reason);
	for (size_t i = 0; i < count && !error; i++)
		error = name_object(resolver, image, &jobs[i]);
	return error;
}

/* The same with the lock taken; -ECANCELED if the client has left. */
static int name_next(struct fgt_resolver *resolver,
		     const struct object_job *jobs, size_t count,
		     size_t *ret_done)
{
	const struct fgt_symbolizer_cancel *cancel = resolver->cancel;
	struct fgt_user_names *user = resolver->user;
	size_t done = 0;
	int error;

	if (cancel->is_cancelled && cancel->is_cancelled(cancel->context))
		return -ECANCELED;
	while (done < count && done < FGT_HELPER_ADDRESSES_MAX &&
	       jobs[done].image == jobs[0].image)
		done++;
	pthread_mutex_lock(&user->lock);
	user->helper.is_cancelled = cancel->is_cancelled;
	user->helper.cancel_context = cancel->context;
	error = name_some(resolver, jobs, done);
	pthread_mutex_unlock(&user->lock);
	*ret_done = done;
	return error;
}

/* ---- Memory without a file -------------------------------------------- */

static int name_range(struct fgt_ring_slice *slice, uint64_t start,
		      uint64_t len_bytes, const char *name)
{
	int error = 0;

	for (uint32_t i = 0; i < slice->wait_count && !error; i++) {
		struct fgt_slice_wait *wait = &slice->waits[i];

		if (!wait->object && wait->address >= start &&
		    wait->address - start < len_bytes)
			error = fgt_strings_intern(&slice->strings, name,
						   strlen(name), &wait->object);
	}
	return error;
}

/*
 * By where they begin: how long they are only the process's maps show, and a
 * file of procfs that needs the lock of its memory may never answer.
 */
static int name_heap_and_stack(struct fgt_ring_slice *slice,
			       const struct fgt_target_root *root)
{
	uint64_t heap_bytes = root->mapped_bytes < HEAP_MAX_BYTES
				      ? root->mapped_bytes
				      : HEAP_MAX_BYTES;
	char name[48];
	int error = 0;

	if (root->heap_start)
		error = name_range(slice, root->heap_start, heap_bytes, "heap");
	if (error || root->stack_start < STACK_MAX_BYTES)
		return error;
	snprintf(name, sizeof(name), "stack of thread %d", slice->process.pid);
	return name_range(slice, root->stack_start - STACK_MAX_BYTES,
			  STACK_MAX_BYTES, name);
}

/* ---- All -------------------------------------------------------------- */

static int compare_jobs(const void *left, const void *right)
{
	const struct object_job *a = left, *b = right;

	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->wait > b->wait) - (a->wait < b->wait);
}

int fgt_resolver_name_objects(struct fgt_resolver *resolver)
{
	struct fgt_ring_slice *slice = resolver->slice;
	struct object_job *jobs;
	size_t count = 0, done = 0;
	int error = name_heap_and_stack(slice, &resolver->root);

	if (error)
		return error;
	if (!FGT_ARRAY_NEW(jobs, slice->wait_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->wait_count; i++) {
		const struct fgt_slice_wait *wait = &slice->waits[i];

		jobs[count].wait = i;
		if (wait->address && !wait->object &&
		    find_image(slice, wait->address, &jobs[count]))
			count++;
	}
	FGT_ARRAY_SORT(jobs, count, compare_jobs);
	for (size_t at = 0; at < count && !error; at += done)
		error = name_next(resolver, &jobs[at], count - at, &done);
	free(jobs);
	return error;
}
