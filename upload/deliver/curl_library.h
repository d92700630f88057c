/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded by the first upload: it loads twenty libraries and five
 * megabytes, which a daemon without uploads does not need. Includes curl.h; for
 * http.c only.
 */
#ifndef FGT_UPLOAD_DELIVER_CURL_LIBRARY_H
#define FGT_UPLOAD_DELIVER_CURL_LIBRARY_H

#include <curl/curl.h>

#include "ringbuf/base/why.h"

/* Its functions, with the types of its header. */
struct fgt_curl {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_perform) *easy_perform;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
};

/* -ENOSYS: not installed, or a function is missing; why has the package to
 * install. It stays loaded. */
int fgt_curl_load(struct fgt_curl *ret_curl, struct fgt_why *why);

#endif
