/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libcurl. Any thread.
 */
#include "upload/deliver/curl_functions.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* The interface that curl.h describes has had this name since 2006. */
#define CURL_LIBRARY   "libcurl.so.4"
#define CRYPTO_LIBRARY "libcrypto.so.3"

struct fgt_curl_functions fgt_curl;

/* Written once, by load_once(), and only read afterwards. */
static pthread_once_t load_control = PTHREAD_ONCE_INIT;
static struct fgt_why load_why;
static int load_error;

static int load(void)
{
	static const struct {
		const char *name;
		void *place;
	} functions[] = {
#define FUNCTION(name) { "curl_" #name, &fgt_curl.name },
		FGT_CURL_FUNCTIONS(FUNCTION)
	};
	void *library = dlopen(CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return fgt_why_set(&load_why, -ENOSYS,
				   "%s; uploading needs libcurl, install "
				   "libcurl4",
				   dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return fgt_why_set(&load_why, -ENOSYS,
					   "%s has no %s; install a libcurl4 "
					   "that is complete",
					   CURL_LIBRARY, functions[i].name);
		memcpy(functions[i].place, &function, sizeof(function));
	}
	if (fgt_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return fgt_why_set(&load_why, -ENOMEM, FGT_NO_MEMORY);
	return 0;
}

static void load_sha256(void)
{
	void *library = dlopen(CRYPTO_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	void *function = library ? dlsym(library, "SHA256") : NULL;

	memcpy(&fgt_curl.sha256, &function, sizeof(function));
}

static void load_once(void)
{
	load_error = load();
	if (load_error == 0)
		load_sha256();
}

int fgt_curl_load(struct fgt_why *why)
{
	pthread_once(&load_control, load_once);
	if (load_error)
		return fgt_why_set(why, load_error, "%s", load_why.text);
	return 0;
}
