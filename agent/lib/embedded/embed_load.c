/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and loads libfgtrace-embed.so. Runs in the program's threads. In a
 * program with more privileges than its user, it must not load a file that this
 * user could have put there.
 */
#include "agent/lib/embedded/embed_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "agent/lib/own.h"

#define NAME "libfgtrace-embed.so"

/* The folder that CMake installs it in; "" without one. */
#ifndef FGT_PRIVATE_FOLDER
#define FGT_PRIVATE_FOLDER ""
#endif

static struct {
	/* Protects ops; the loader's lock nests inside. */
	pthread_mutex_t lock;
	const struct fgt_embed_ops *ops;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Why a file that exists cannot be used; of several files the first. The text
 * that may be long comes last. */
static void note_why(struct fgt_why *why, const char *remedy, const char *about)
{
	if (!why->text[0])
		(void)fgt_why_set(why, 0, NAME " cannot be loaded%s%s", remedy,
				  about ? about : "no reason is given");
}

/* For a bare name that is not found, the loader's error begins with it. */
static bool is_there(const char *path, const char *error)
{
	if (path[0] != '/')
		return error && strncmp(error, NAME ":", sizeof(NAME)) != 0;
	return access(path, F_OK) == 0 || errno == EACCES;
}

static void note_failure(const char *path, struct fgt_why *why)
{
	const char *error = dlerror();

	if (is_there(path, error))
		note_why(why, " (correct this, or run an agent): ", error);
}

static const struct fgt_embed_ops *load(const char *path, struct fgt_why *why)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct fgt_embed_ops *(*embed)(void) = NULL;
	const struct fgt_embed_ops *ops = NULL;

	if (handle)
		*(void **)&embed = dlsym(handle, FGT_EMBED_SYMBOL);
	else
		note_failure(path, why);
	/* The program must not find this error with dlerror(). */
	(void)dlerror();
	if (!handle)
		return NULL;
	if (embed)
		ops = embed();
	if (ops && ops->version == FGT_EMBED_VERSION)
		return ops;
	note_why(why,
		 ": its version differs from libfgtrace.so: install both from "
		 "one build: ",
		 path);
	return NULL;
}

static const struct fgt_embed_ops *load_from(const char *folder, int len,
					     struct fgt_why *why)
{
	char path[PATH_MAX];

	if (len <= 0 || folder[0] != '/' ||
	    snprintf(path, sizeof(path), "%.*s/" NAME, len, folder) >=
		    (int)sizeof(path))
		return NULL;
	return load(path, why);
}

/* In the folder "fgtrace" beside this library, else beside this library. */
static const struct fgt_embed_ops *load_beside(struct fgt_why *why)
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
	ops = load_from(folder, (int)strlen(folder), why);
	return ops ? ops : load_from(folder, len, why);
}

static const struct fgt_embed_ops *find(struct fgt_why *why)
{
	const struct fgt_embed_ops *ops = NULL;
	int is_secure = getauxval(AT_SECURE) != 0;

	/* A static program has no loader: dlopen() would load a second libc. */
	if (!getauxval(AT_BASE))
		return NULL;
	if (!is_secure)
		ops = load_beside(why);
	if (!ops)
		ops = load_from(FGT_PRIVATE_FOLDER, strlen(FGT_PRIVATE_FOLDER),
				why);
	return ops || is_secure ? ops : load(NAME, why);
}

int fgt_embed_load(const struct fgt_embed_ops **ret_ops, struct fgt_why *why)
{
	FGT_UNCANCELLED;
	const struct fgt_embed_ops *ops;

	why->text[0] = '\0';
	pthread_mutex_lock(&loaded.lock);
	if (!loaded.ops)
		loaded.ops = find(why);
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
