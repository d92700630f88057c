/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads debug files with elfutils' client library, which is loaded only
 * here, and only if a server is named. Must not read what it downloads: that is
 * a helper's work, which also checks the build id.
 */
#include "agent/cli/output/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/complaint.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define LIBRARY "libdebuginfod.so.1"
#define MAX_NS	UINT64_C(10000000000)

/* elfutils/debuginfod.h */
struct debuginfod_client;
struct client {
	struct debuginfod_client *(*begin)(void);
	void (*end)(struct debuginfod_client *client);
	void (*set_progress)(struct debuginfod_client *client,
			     int (*progress)(struct debuginfod_client *client,
					     long a, long b));
	int (*find)(struct debuginfod_client *client, const unsigned char *id,
		    int id_len, char **ret_path);
	struct debuginfod_client *handle;
};

/* For one slice. */
struct download {
	struct client client;
	struct fgt_ring_slice *slice;
	int *fds; /* of its images' debug files; -1: none */
	struct fgt_slice_frame *before; /* its frames, as they were named */
};

static uint64_t until_ns; /* no server is asked after it; 0: none was asked */

/* The client asks at least once a second. */
static int is_over(struct debuginfod_client *client, long a, long b)
{
	(void)client;
	(void)a;
	(void)b;
	return fgt_clock_ns(CLOCK_MONOTONIC) >= until_ns;
}

static bool find_symbol(void *library, const char *name, void *ret_function)
{
	void *found = dlsym(library, name);

	memcpy(ret_function, &found, sizeof(found));
	return found != NULL;
}

/* The library stays loaded. */
static bool load(struct client *client)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fgt_note(NULL, "DEBUGINFOD_URLS has no effect: " LIBRARY
			       " cannot be loaded: install libdebuginfod1");
		return false;
	}
	return find_symbol(library, "debuginfod_begin", &client->begin) &&
	       find_symbol(library, "debuginfod_end", &client->end) &&
	       find_symbol(library, "debuginfod_set_progressfn",
			   &client->set_progress) &&
	       find_symbol(library, "debuginfod_find_debuginfo",
			   &client->find) &&
	       (client->handle = client->begin());
}

static bool lacks_name(const struct fgt_ring_slice *slice,
		       const struct fgt_slice_frame *frame)
{
	uint32_t image = frame->frame.image, reason;

	if (!frame->symbol_count || !image || image > slice->image_count ||
	    (frame->frame.flags & FGT_FRAME_MARKER) ||
	    !slice->images[image - 1].build_id_len)
		return false;
	reason = slice->symbols[frame->symbol_first].reason;
	return reason == FGT_SYMBOL_STRIPPED || reason == FGT_SYMBOL_NO_FILE ||
	       reason == FGT_SYMBOL_OTHER_FILE;
}

static void fetch(struct download *download, uint32_t image)
{
	const struct fgt_slice_image *wanted = &download->slice->images[image];
	struct client *client = &download->client;

	if (download->fds[image] != -1 || is_over(NULL, 0, 0))
		return;
	download->fds[image] = client->find(client->handle, wanted->build_id,
					    (int)wanted->build_id_len, NULL);
	if (download->fds[image] < 0)
		download->fds[image] = -ENOENT; /* not asked for again */
}

/* Frames that may get a name have none. Returns their number. */
static uint32_t fetch_all(struct download *download)
{
	struct fgt_ring_slice *slice = download->slice;
	uint32_t count = 0;

	for (uint32_t i = 0; i < slice->frame_count; i++) {
		struct fgt_slice_frame *frame = &slice->frames[i];

		if (!lacks_name(slice, frame))
			continue;
		fetch(download, frame->frame.image - 1);
		if (download->fds[frame->frame.image - 1] < 0)
			continue;
		frame->symbol_count = 0;
		count++;
	}
	return count;
}

/* For struct fgt_symbolizer_options. */
static int open_fetched(void *context, const struct fgt_ring_slice *slice,
			const struct fgt_slice_image *image, int *ret_fd)
{
	const struct download *download = context;
	int fd = download->fds[image - slice->images];

	fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -ENOENT;
	*ret_fd = fd;
	return 0;
}

/* What has no name now keeps what it had. */
static void restore(struct download *download)
{
	struct fgt_ring_slice *slice = download->slice;

	for (uint32_t i = 0; i < slice->frame_count; i++) {
		struct fgt_slice_frame *frame = &slice->frames[i];

		if (!frame->symbol_count ||
		    slice->symbols[frame->symbol_first].reason)
			*frame = download->before[i];
	}
}

static void name_fetched(struct download *download,
			 const struct fgt_config *config)
{
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	struct fgt_symbolizer_options options = {
		.open_image = open_fetched,
		.context = download,
		.is_image_checked = true,
	};

	if (config) {
		options.demangle = config->symbols.demangle;
		options.debug_dirs =
			(const char *const *)config->symbols.debug_dirs;
		options.debug_dir_count = config->symbols.debug_dir_count;
	}
	if (fgt_symbolizer_new(&options, &symbolizer) == 0)
		(void)fgt_symbolizer_resolve(symbolizer, download->slice,
					     false);
	restore(download);
}

static int begin(struct download *download)
{
	struct fgt_ring_slice *slice = download->slice;
	size_t bytes = slice->frame_count * sizeof(*slice->frames);

	if (!FGT_ARRAY_NEW(download->fds, slice->image_count) ||
	    !FGT_ARRAY_NEW(download->before, slice->frame_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->image_count; i++)
		download->fds[i] = -1;
	if (bytes)
		memcpy(download->before, slice->frames, bytes);
	if (!until_ns)
		until_ns = fgt_clock_ns(CLOCK_MONOTONIC) + MAX_NS;
	return 0;
}

static void end(struct download *download)
{
	for (uint32_t i = 0; download->fds && i < download->slice->image_count;
	     i++)
		if (download->fds[i] >= 0)
			close(download->fds[i]);
	if (download->client.handle)
		download->client.end(download->client.handle);
	free(download->fds);
	free(download->before);
}

static bool is_needed(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->frame_count; i++)
		if (lacks_name(slice, &slice->frames[i]))
			return true;
	return false;
}

void fgt_debuginfod_name(struct fgt_ring_slice *slice,
			 const struct fgt_config *config)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct download download = { .slice = slice };

	if (!urls || !urls[0] || !is_needed(slice))
		return;
	if (begin(&download) == 0 && load(&download.client)) {
		download.client.set_progress(download.client.handle, is_over);
		if (fetch_all(&download))
			name_fetched(&download, config);
	}
	end(&download);
}
