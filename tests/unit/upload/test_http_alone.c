/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploading where libcurl cannot be loaded: in a program without descriptors
 * left. Apart from other tests, as it is loaded once in a process.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "upload/deliver/http.h"

static void missing_library_is_named(void **state)
{
	const struct fgt_http_request request = { .url = "http://127.0.0.1:1/",
						  .body = "",
						  .body_len = 0 };
	struct fgt_http_answer answer = { 0 };
	struct fgt_why why = { "" };
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	/* Each time: what could not be loaded is not called. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fgt_http_send(&request, &answer, &why),
				 -ENOSYS);
		assert_non_null(strstr(why.text, "libcurl"));
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_library_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
