/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and loads libfgtrace-embed.so. Runs in the program's threads; must
 * load nothing that the program's user could have put in its place where the
 * program has more rights than its user.
 */
#include "agent/lib/embed_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#define NAME "libfgtrace-embed.so"

/* A folder that installing chose; "" where nothing was said. */
#ifndef FGT_PRIVATE_FOLDER
#define FGT_PRIVATE_FOLDER ""
#endif

static struct {
	/* Protects what follows; the loader's own lock nests inside. */
	pthread_mutex_t lock;
	const struct fgt_embed_ops *ops;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const struct fgt_embed_ops *load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct fgt_embed_ops *(*embed)(void) = NULL;
	const struct fgt_embed_ops *ops;

	if (handle)
		*(void **)&embed = dlsym(handle, FGT_EMBED_SYMBOL);
	/* The program shall not find an error of ours with dlerror(). */
	(void)dlerror();
	if (!embed)
		return NULL;
	ops = embed();
	return ops && ops->version == FGT_EMBED_VERSION ? ops : NULL;
}

static const struct fgt_embed_ops *load_from(const char *folder, int len)
{
	char path[PATH_MAX];

	if (len <= 0 || folder[0] != '/' ||
	    snprintf(path, sizeof(path), "%.*s/" NAME, len, folder) >=
		    (int)sizeof(path))
		return NULL;
	return load(path);
}

/* In the folder "fgtrace" beside this library, else beside it. */
static const struct fgt_embed_ops *load_beside(void)
{
	const struct fgt_embed_ops *ops;
	char folder[PATH_MAX];
	const char *slash;
	Dl_info info;
	int len;

	if (!dladdr(&loaded, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	if (!slash || slash - info.dli_fname >= PATH_MAX)
		return NULL;
	len = (int)(slash - info.dli_fname);
	if (snprintf(folder, sizeof(folder), "%.*s/fgtrace", len,
		     info.dli_fname) >= (int)sizeof(folder))
		return NULL;
	ops = load_from(folder, (int)strlen(folder));
	return ops ? ops : load_from(folder, len);
}

static const struct fgt_embed_ops *find(void)
{
	const struct fgt_embed_ops *ops = NULL;
	int is_secure = getauxval(AT_SECURE) != 0;

	/* Without a loader: it would bring a second libc. */
	if (!getauxval(AT_BASE))
		return NULL;
	if (!is_secure)
		ops = load_beside();
	if (!ops)
		ops = load_from(FGT_PRIVATE_FOLDER, strlen(FGT_PRIVATE_FOLDER));
	return ops || is_secure ? ops : load(NAME);
}

int fgt_embed_load(const struct fgt_embed_ops **ret_ops)
{
	const struct fgt_embed_ops *ops;

	pthread_mutex_lock(&loaded.lock);
	if (!loaded.ops)
		loaded.ops = find();
	ops = loaded.ops;
	pthread_mutex_unlock(&loaded.lock);
	if (!ops)
		return -ENOENT;
	*ret_ops = ops;
	return 0;
}

void fgt_embed_load_forked(void)
{
	/* A thread of the parent may have been loading. */
	pthread_mutex_init(&loaded.lock, NULL);
}
