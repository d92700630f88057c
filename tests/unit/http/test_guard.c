/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask: Host, Origin, methods, framing, tokens (faults H2 to H6, H13).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/guard.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static const struct fgt_web_guard guard = {
	.token = TOKEN,
	.port = 7071,
	.name_count = 1,
	.names = { "lab.example" },
};

static struct fgt_web_headers good(void)
{
	return (struct fgt_web_headers){
		.method = "GET",
		.version = "HTTP/1.1",
		.host = "127.0.0.1:7071",
		.host_count = 1,
	};
}

static unsigned int check(const struct fgt_web_headers *headers)
{
	struct fgt_why why = { "" };
	unsigned int status = fgt_web_guard_check(&guard, headers, &why);

	assert_int_equal(status != 0, why.text[0] != '\0');
	return status;
}

static unsigned int check_host(const char *host)
{
	struct fgt_web_headers headers = good();

	headers.host = host;
	return check(&headers);
}

static void hosts_of_this_machine_are_answered(void **state)
{
	(void)state;
	assert_int_equal(check_host("127.0.0.1:7071"), 0);
	assert_int_equal(check_host("127.8.9.1:7071"), 0);
	assert_int_equal(check_host("localhost:7071"), 0);
	assert_int_equal(check_host("LocalHost:7071"), 0);
	assert_int_equal(check_host("[::1]:7071"), 0);
	assert_int_equal(check_host("lab.example"), 0);
	assert_int_equal(check_host("lab.example:443"), 0);
}

static void other_hosts_are_refused(void **state)
{
	static const char *const hosts[] = {
		"",
		"127.0.0.1",
		"127.0.0.1:7072",
		"127.0.0.1:",
		"127.0.0.1:7071x",
		"127.0.0.1:070710",
		"evil.example",
		"evil.example:7071",
		"10.0.0.1:7071",
		"[::1",
		"[::1]",
		"[::2]:7071",
		"::1:7071",
		"[127.0.0.1:7071",
		"localhost.:7071",
		"localhost:7071 ",
		"a@127.0.0.1:7071",
		"[::1]7071",
		"lab.example.org",
		"xlab.example",
		"127.1:7071",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
		if (check_host(hosts[i]) != 403)
			fail_msg("%s", hosts[i]);
}

static void server_of_other_machines_takes_their_numbers(void **state)
{
	struct fgt_web_guard remote = guard;
	struct fgt_web_headers headers = good();
	struct fgt_why why;

	(void)state;
	remote.is_remote = 1;
	headers.host = "10.0.0.1:7071";
	assert_int_equal(fgt_web_guard_check(&remote, &headers, &why), 0);
	headers.host = "evil.example:7071";
	assert_int_equal(fgt_web_guard_check(&remote, &headers, &why), 403);
}

static void pages_of_other_origins_are_refused(void **state)
{
	struct fgt_web_headers headers = good();

	(void)state;
	headers.origin = "http://127.0.0.1:7071";
	assert_int_equal(check(&headers), 0);
	headers.fetch_site = "same-origin";
	assert_int_equal(check(&headers), 0);
	headers.fetch_site = "none";
	assert_int_equal(check(&headers), 0);
	headers.fetch_site = "same-site";
	assert_int_equal(check(&headers), 403);
	headers.fetch_site = "cross-site";
	assert_int_equal(check(&headers), 403);
	headers.fetch_site = NULL;
	headers.origin = "null";
	assert_int_equal(check(&headers), 403);
	headers.origin = "https://127.0.0.1:7071";
	assert_int_equal(check(&headers), 403);
	headers.origin = "http://127.0.0.1:8080";
	assert_int_equal(check(&headers), 403);
	headers.origin = "http://127.0.0.1:7071.evil.example";
	assert_int_equal(check(&headers), 403);
}

static void framing_and_methods_are_strict(void **state)
{
	struct fgt_web_headers headers = good();

	(void)state;
	headers.method = "POST";
	assert_int_equal(check(&headers), 405);
	headers.method = "get";
	assert_int_equal(check(&headers), 405);
	headers.method = "HEAD";
	assert_int_equal(check(&headers), 0);
	headers.content_length = "0";
	assert_int_equal(check(&headers), 0);
	headers.content_length = "5";
	assert_int_equal(check(&headers), 400);
	headers.content_length = "-1";
	assert_int_equal(check(&headers), 400);
	headers.content_length = NULL;
	headers.transfer_encoding = "chunked";
	assert_int_equal(check(&headers), 400);
	headers.transfer_encoding = NULL;
	headers.host_count = 2;
	assert_int_equal(check(&headers), 400);
	headers.host_count = 0;
	headers.host = NULL;
	assert_int_equal(check(&headers), 400);
	headers = good();
	headers.version = "HTTP/1.2";
	assert_int_equal(check(&headers), 505);
	headers.version = "";
	assert_int_equal(check(&headers), 505);
}

static bool knows(const char *authorization, const char *parameter)
{
	struct fgt_web_headers headers = good();

	headers.authorization = authorization;
	return fgt_web_guard_knows(&guard, &headers, parameter);
}

static void token_comes_in_the_header_or_the_query(void **state)
{
	(void)state;
	assert_true(knows("Bearer " TOKEN, NULL));
	assert_true(knows("bearer " TOKEN, NULL));
	assert_true(knows(NULL, TOKEN));
	assert_false(knows(NULL, NULL));
	assert_false(knows(NULL, ""));
	assert_false(knows(NULL, "1123456789abcdef0123456789abcdef"));
	assert_false(knows(NULL, "0123456789abcdef0123456789abcdeF"));
	assert_false(knows(NULL, TOKEN "0"));
	assert_false(knows("Basic " TOKEN, NULL));
	assert_false(knows("Bearer", NULL));
	assert_false(knows("Bearer " TOKEN " ", NULL));
	/* A wrong header is not mended by the query. */
	assert_false(knows("Bearer x", TOKEN));
}

static void without_token_all_are_known(void **state)
{
	const struct fgt_web_guard open = { .port = 7071 };
	struct fgt_web_headers headers = good();

	(void)state;
	assert_true(fgt_web_guard_knows(&open, &headers, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_this_machine_are_answered),
		cmocka_unit_test(other_hosts_are_refused),
		cmocka_unit_test(server_of_other_machines_takes_their_numbers),
		cmocka_unit_test(pages_of_other_origins_are_refused),
		cmocka_unit_test(framing_and_methods_are_strict),
		cmocka_unit_test(token_comes_in_the_header_or_the_query),
		cmocka_unit_test(without_token_all_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
