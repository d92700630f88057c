/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libfgtrace-embed.so, once. Runs in the program's threads.
 */
#include "agent/lib/embedded/embed_load.h"

#include <errno.h>
#include <pthread.h>

#include "agent/lib/embedded/private_object.h"
#include "agent/lib/own.h"

#define NAME "libfgtrace-embed.so"

static struct {
	/* Protects ops; the loader's lock nests inside. */
	pthread_mutex_t lock;
	const struct fgt_embed_ops *ops;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

int fgt_embed_load(const struct fgt_embed_ops **ret_ops, struct fgt_why *why)
{
	FGT_UNCANCELLED;
	static const struct fgt_private_object object = {
		.name = NAME,
		.symbol = FGT_EMBED_SYMBOL,
		.version = FGT_EMBED_VERSION,
	};
	const struct fgt_embed_ops *ops;

	why->text[0] = '\0';
	pthread_mutex_lock(&loaded.lock);
	if (!loaded.ops)
		loaded.ops = fgt_private_object_load(&object, why);
	ops = loaded.ops;
	pthread_mutex_unlock(&loaded.lock);
	if (!ops && why->text[0])
		return -ENOENT;
	if (!ops)
		return fgt_why_set(why, -ENOENT,
				   NAME " was not found: install it beside "
					"libfgtrace.so (and give LD_PRELOAD an "
					"absolute path), or run an agent, "
					"which a statically linked program "
					"needs");
	*ret_ops = ops;
	return 0;
}

/* A thread of the parent may have held the lock. */
static void in_child(void)
{
	pthread_mutex_init(&loaded.lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, in_child);
}
