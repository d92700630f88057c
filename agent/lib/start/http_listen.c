/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's HTTP server, in libfgtrace-http.so. Runs in the program's
 * threads; slices are cut in those of the server.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "agent/http/program/program_server.h"
#include "agent/lib/backend.h"
#include "agent/lib/embedded/private_object.h"
#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "ringbuf/base/owner.h"

#define NAME "libfgtrace-http.so"

static struct {
	/* Protects the pointer; the loader's lock nests inside. */
	pthread_mutex_t lock;
	const struct fgt_web_operations *operations;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int cut(uint64_t from_ns, uint64_t to_ns, uint8_t **ret_bytes,
	       size_t *ret_len)
{
	struct fgt_slice *slice;
	int r = fgt_get_slice(from_ns, to_ns, &slice);

	if (r < 0)
		return r;
	*ret_len = slice->file.len_bytes;
	*ret_bytes = FGT_TAKE(slice->file.bytes);
	fgt_slice_free(slice);
	return 0;
}

static const struct fgt_web_operations *get_loaded(void)
{
	const struct fgt_web_operations *operations;

	pthread_mutex_lock(&loaded.lock);
	operations = loaded.operations;
	pthread_mutex_unlock(&loaded.lock);
	return operations;
}

static const struct fgt_web_operations *load(struct fgt_why *why)
{
	static const struct fgt_private_object object = {
		.name = NAME,
		.symbol = FGT_WEB_OBJECT_SYMBOL,
		.version = FGT_WEB_OBJECT_VERSION,
	};
	const struct fgt_web_operations *operations;

	pthread_mutex_lock(&loaded.lock);
	if (!loaded.operations)
		loaded.operations = fgt_private_object_load(&object, why);
	operations = loaded.operations;
	pthread_mutex_unlock(&loaded.lock);
	if (!operations && !why->text[0])
		(void)fgt_why_set(why, -ENOENT,
				  NAME " was not found: install it beside "
				       "libfgtrace.so");
	return operations;
}

int fgt_http_listen(const char *address)
{
	FGT_UNCANCELLED;
	static const struct fgt_web_program program = { .cut = cut };
	const struct fgt_web_operations *operations;
	struct fgt_why why = { "" };
	int r = -ENOENT;

	if (!address) {
		operations = get_loaded();
		if (operations)
			operations->stop();
		return 0;
	}
	operations = load(&why);
	if (operations)
		r = operations->listen(address, &program, &why);
	if (r < 0)
		fgt_report_line(NULL, why.text);
	return r;
}

/* A thread of the parent may have held the lock. */
static void in_child(void)
{
	pthread_mutex_init(&loaded.lock, NULL);
	if (loaded.operations)
		loaded.operations->forked();
}

__attribute__((constructor)) static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, in_child);
}
