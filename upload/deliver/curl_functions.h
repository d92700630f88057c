/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's functions, with the types of its header. The first request loads
 * it: it brings twenty libraries and five megabytes, which a daemon without
 * uploads does not need. It stays loaded.
 */
#ifndef FGT_UPLOAD_DELIVER_CURL_FUNCTIONS_H
#define FGT_UPLOAD_DELIVER_CURL_FUNCTIONS_H

#include <curl/curl.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

#define FGT_CURL_FUNCTIONS(X)                                                  \
	X(global_init)                                                         \
	X(easy_init)                                                           \
	X(easy_cleanup)                                                        \
	X(easy_setopt)                                                         \
	X(easy_perform)                                                        \
	X(easy_getinfo)                                                        \
	X(easy_strerror)                                                       \
	X(slist_append)                                                        \
	X(slist_free_all)

struct fgt_curl_functions {
#define FGT_CURL_FUNCTION(name) __typeof__(curl_##name) *name;
	FGT_CURL_FUNCTIONS(FGT_CURL_FUNCTION)
	/* libcrypto's, which Debian's libcurl brings; NULL: it has another TLS
	 * library. */
	unsigned char *(*sha256)(const unsigned char *bytes, size_t len,
				 unsigned char ret_digest[32]);
};

/* Written once, by the first fgt_curl_load(), and only read afterwards. */
extern struct fgt_curl_functions fgt_curl;

/*
 * Loads them. -ENOSYS: no libcurl, or an incomplete one, -ENOMEM; why is set.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_curl_load(struct fgt_why *why);

/* NULL: libcurl, and so the function, may be absent. */
static inline void fgt_curl_handle_free(CURL *handle)
{
	if (handle)
		fgt_curl.easy_cleanup(handle);
}
FGT_DEFINE_AUTO(CURL *, fgt_curl_handle_free);

static inline void fgt_curl_list_free(struct curl_slist *list)
{
	fgt_curl.slist_free_all(list);
}
FGT_DEFINE_AUTO(struct curl_slist *, fgt_curl_list_free);

#endif
