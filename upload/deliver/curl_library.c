/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds libcurl and its functions. Runs once, in the first thread that uploads.
 */
#include "upload/deliver/curl_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The interface that curl.h describes has had this name since 2006. */
#define CURL_LIBRARY "libcurl.so.4"

#define FUNCTION(member)                                                       \
	{                                                                      \
		"curl_" #member, offsetof(struct fgt_curl, member)             \
	}

static const struct {
	const char *name;
	size_t offset;
} functions[] = {
	FUNCTION(global_init),	  FUNCTION(easy_init),
	FUNCTION(easy_cleanup),	  FUNCTION(easy_setopt),
	FUNCTION(easy_perform),	  FUNCTION(easy_getinfo),
	FUNCTION(easy_strerror),  FUNCTION(slist_append),
	FUNCTION(slist_free_all),
};

int fgt_curl_load(struct fgt_curl *ret_curl, struct fgt_why *why)
{
	void *library = dlopen(CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	struct fgt_curl curl;

	if (!library)
		return fgt_why_set(why, -ENOSYS,
				   "%s; uploading needs libcurl, install "
				   "libcurl4",
				   dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return fgt_why_set(why, -ENOSYS,
					   "%s has no %s; install a libcurl4 "
					   "that is complete",
					   CURL_LIBRARY, functions[i].name);
		memcpy((char *)&curl + functions[i].offset, &function,
		       sizeof(function));
	}
	*ret_curl = curl;
	return 0;
}
