/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations from text, their secrets, and the heads of their payloads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/deliver/destination.h"
#include "upload/deliver/settings/credentials.h"

#define KEY "0123456789abcdef0123456789abcdef"

static void kind_and_format_follow_the_text(void **state)
{
	static const struct {
		const char *text;
		enum fgt_destination_kind kind;
		enum fgt_format_kind format;
		bool is_gzip;
		const char *where;
	} rows[] = {
		{ "https://" KEY "@h/1", FGT_DESTINATION_SENTRY,
		  FGT_KIND_SENTRY, false, "https://***@h/1" },
		{ "/var/d", FGT_DESTINATION_DIRECTORY, FGT_KIND_SENTRY, false,
		  "/var/d" },
		{ "https://h/{pid}.trace.json.gz", FGT_DESTINATION_HTTP,
		  FGT_KIND_CHROME, true, "https://h/{pid}.trace.json.gz" },
		{ "https://h/x.pb.gz?sig=s3cret", FGT_DESTINATION_HTTP,
		  FGT_KIND_PPROF, false, "https://h/x.pb.gz?***" },
		{ "https://h/x", FGT_DESTINATION_HTTP, FGT_KIND_CHROME, false,
		  "https://h/x" },
		{ "https://h/a/ingest", FGT_DESTINATION_PYROSCOPE,
		  FGT_KIND_PPROF, false, "https://h/a/ingest" },
		{ "https://h/push.v1.PusherService/Push",
		  FGT_DESTINATION_PYROSCOPE_PUSH, FGT_KIND_PPROF, false,
		  "https://h/push.v1.PusherService/Push" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char where[FGT_DESTINATION_WHERE_MAX];
		struct fgt_destination *destination;
		struct fgt_why why = { "" };

		if (fgt_destination_parse(rows[i].text, false, &destination,
					  &why))
			fail_msg("%s: %s", rows[i].text, why.text);
		assert_int_equal(destination->kind, rows[i].kind);
		assert_int_equal(destination->format, rows[i].format);
		assert_int_equal(destination->is_gzip, rows[i].is_gzip);
		fgt_destination_where(destination, where);
		assert_null(strstr(where, KEY));
		if (rows[i].kind != FGT_DESTINATION_SENTRY)
			assert_string_equal(where, rows[i].where);
		fgt_destination_free(destination);
	}
}

static int keep_head(void *context, const struct fgt_payload *payload,
		     struct fgt_why *why)
{
	(void)why;
	*(struct fgt_payload_head *)context = payload->head;
	return 0;
}

static void stored_head_reads_back_unless_it_is_damaged(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_payload_head head, again;
	const struct fgt_payload_taker taker = { .take = keep_head,
						 .context = &head };
	struct fgt_destination *destination;

	(void)state;
	assert_int_equal(fgt_destination_parse("https://h/{pid}.folded", false,
					       &destination, NULL),
			 0);
	destination->sequence = 9;
	assert_int_equal(
		fgt_destination_encode(destination, slice, NULL, &taker, NULL),
		0);
	assert_string_equal(head.format, "folded");
	assert_string_equal(head.ending, ".folded");
	assert_string_equal(head.name, slice->process.name);
	assert_int_equal(head.sequence, 9);
	assert_int_equal(strlen(head.id), 32);
	assert_true(head.to_wall_ns > head.from_wall_ns);
	assert_int_equal(fgt_payload_head_read(&head, sizeof(head), &again), 0);
	assert_memory_equal(&head, &again, sizeof(head));
	assert_int_equal(fgt_payload_head_read(&head, sizeof(head) - 1, &again),
			 -EBADMSG);
	memset(head.id, 'x', sizeof(head.id));
	assert_int_equal(fgt_payload_head_read(&head, sizeof(head), &again),
			 -EBADMSG);
	fgt_destination_free(destination);
	fgt_ring_slice_free(slice);
}

/* ---- Files of secrets ----------------------------------------------------- */

static char path[64];

static void write_secret(const char *text)
{
	FILE *file;

	strcpy(path, "/tmp/fgt-secret-XXXXXX");
	file = fdopen(mkstemp(path), "w"); /* mode 0600 */
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void headers_are_checked_and_cleaned(void **state)
{
	static const char *const bad[] = {
		"no colon\n",	     "Content-Length: 1\n",
		"content-type: x\n", "X: \x01\n",
		"X y: z\n",	     "X: \xc3\xa4\n",
	};
	struct fgt_why why;
	char *lines;

	(void)state;
	write_secret("# comment\r\n\n  A: 1\r\nB-c: 2 3\n");
	assert_int_equal(fgt_credentials_read_headers(path, &lines, &why), 0);
	assert_string_equal(lines, "A: 1\nB-c: 2 3\n");
	free(lines);
	unlink(path);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_secret(bad[i]);
		assert_int_equal(
			fgt_credentials_read_headers(path, &lines, &why),
			-EINVAL);
		assert_non_null(strstr(why.text, ":1: not a header"));
		unlink(path);
	}
}

static void aws_keys_of_one_profile_are_read(void **state)
{
	struct fgt_why why;
	char *keys, *token;

	(void)state;
	write_secret("[default]\naws_access_key_id=AK\n"
		     "aws_secret_access_key = s/e+c=\nregion = x\n");
	assert_int_equal(fgt_credentials_read_aws(path, &keys, &token, &why),
			 0);
	assert_string_equal(keys, "AK:s/e+c=");
	assert_null(token);
	free(keys);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(fgt_credentials_read_aws(path, &keys, &token, &why),
			 -EACCES);
	unlink(path);
	write_secret("[a]\naws_access_key_id=AK\n[b]\naws_access_key_id=BK\n");
	assert_int_equal(fgt_credentials_read_aws(path, &keys, &token, &why),
			 -EINVAL);
	assert_null(strstr(why.text, "AK"));
	unlink(path);
	write_secret("aws_access_key_id=AK\n");
	assert_int_equal(fgt_credentials_read_aws(path, &keys, &token, &why),
			 -EINVAL);
	unlink(path);
}

static void a_key_with_a_passphrase_is_refused(void **state)
{
	static const char *const keys[] = {
		"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n",
		"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
	};
	struct fgt_why why;
	char *pem;

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text),
			 "-----BEGIN CERTIFICATE-----\nMII=\n%s", keys[i]);
		write_secret(text);
		assert_int_equal(
			fgt_credentials_read_pem(path, NULL, &pem, &why),
			-EINVAL);
		assert_non_null(strstr(why.text, "passphrase"));
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kind_and_format_follow_the_text),
		cmocka_unit_test(stored_head_reads_back_unless_it_is_damaged),
		cmocka_unit_test(headers_are_checked_and_cleaned),
		cmocka_unit_test(aws_keys_of_one_profile_are_read),
		cmocka_unit_test(a_key_with_a_passphrase_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
