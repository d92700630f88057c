/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and loads objects of this library. Runs in the program's threads. In a
 * program with more privileges than its user, it must not load a file that this
 * user could have put there.
 */
#include "agent/lib/embedded/private_object.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The folder that CMake installs it in; "" without one. */
#ifndef FGT_PRIVATE_FOLDER
#define FGT_PRIVATE_FOLDER ""
#endif

/* Why a file that exists cannot be used; of several files the first. The text
 * that may be long comes last. */
static void note_why(const struct fgt_private_object *object,
		     struct fgt_why *why, const char *remedy, const char *about)
{
	if (!why->text[0])
		(void)fgt_why_set(why, 0, "%s cannot be loaded%s%s",
				  object->name, remedy,
				  about ? about : "no reason is given");
}

/* For a bare name that is not found, the loader's error begins with it. */
static bool is_there(const struct fgt_private_object *object, const char *path,
		     const char *error)
{
	size_t len = strlen(object->name);

	if (path[0] != '/')
		return error && !(strncmp(error, object->name, len) == 0 &&
				  error[len] == ':');
	return access(path, F_OK) == 0 || errno == EACCES;
}

static void note_failure(const struct fgt_private_object *object,
			 const char *path, struct fgt_why *why)
{
	const char *error = dlerror();

	if (is_there(object, path, error))
		note_why(object, why,
			 " (correct this, or run an agent): ", error);
}

static const void *load(const struct fgt_private_object *object,
			const char *path, struct fgt_why *why)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const void *(*get)(void) = NULL;
	const void *operations = NULL;

	if (handle)
		*(void **)&get = dlsym(handle, object->symbol);
	else
		note_failure(object, path, why);
	/* The program must not find this error with dlerror(). */
	(void)dlerror();
	if (!handle)
		return NULL;
	if (get)
		operations = get();
	if (operations && *(const unsigned int *)operations == object->version)
		return operations;
	note_why(object, why,
		 ": its version differs from libfgtrace.so: install both from "
		 "one build: ",
		 path);
	return NULL;
}

static const void *load_from(const struct fgt_private_object *object,
			     const char *folder, int len, struct fgt_why *why)
{
	char path[PATH_MAX];

	if (len <= 0 || folder[0] != '/' ||
	    snprintf(path, sizeof(path), "%.*s/%s", len, folder,
		     object->name) >= (int)sizeof(path))
		return NULL;
	return load(object, path, why);
}

/* In the folder "fgtrace" beside this library, else beside this library. */
static const void *load_beside(const struct fgt_private_object *object,
			       struct fgt_why *why)
{
	static const char here; /* in this library */
	const void *ops;
	char folder[PATH_MAX];
	const char *slash;
	Dl_info info;
	int len;

	if (!dladdr(&here, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	if (!slash || slash - info.dli_fname >= PATH_MAX)
		return NULL;
	len = (int)(slash - info.dli_fname);
	if (snprintf(folder, sizeof(folder), "%.*s/fgtrace", len,
		     info.dli_fname) >= (int)sizeof(folder))
		return NULL;
	ops = load_from(object, folder, (int)strlen(folder), why);
	return ops ? ops : load_from(object, folder, len, why);
}

enum {
	HAS_LOADER = 1,
	HAS_NONE
};

/* The first one is the program. */
static int find_loader(struct dl_phdr_info *program, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < program->dlpi_phnum; i++)
		if (program->dlpi_phdr[i].p_type == PT_INTERP)
			return HAS_LOADER;
	return HAS_NONE;
}

/* A static program has no loader: dlopen() would load a second libc. The kernel
 * has no base of a loader that was run as the program (ld.so PROGRAM). */
static bool is_static(void)
{
	return !getauxval(AT_BASE) &&
	       dl_iterate_phdr(find_loader, NULL) == HAS_NONE;
}

const void *fgt_private_object_load(const struct fgt_private_object *object,
				    struct fgt_why *why)
{
	const void *ops = NULL;
	int is_secure = getauxval(AT_SECURE) != 0;

	if (is_static())
		return NULL;
	if (!is_secure)
		ops = load_beside(object, why);
	if (!ops)
		ops = load_from(object, FGT_PRIVATE_FOLDER,
				strlen(FGT_PRIVATE_FOLDER), why);
	return ops || is_secure ? ops : load(object, object->name, why);
}
