/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: bad files are refused with line and hint, good ones are
 * loaded, and what is shown reads back equal.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/config/config.h"
#include "tests/unit/daemon/config_cases.h"

struct text {
	char bytes[65536];
	size_t len;
};

static int append(void *context, const void *bytes, size_t len)
{
	struct text *text = context;

	if (len >= sizeof(text->bytes) - text->len)
		return -ENOSPC;
	memcpy(text->bytes + text->len, bytes, len);
	text->len += len;
	text->bytes[text->len] = 0;
	return 0;
}

static void show(const struct fgt_config *config, struct text *text)
{
	const struct fgt_sink sink = { .write = append, .context = text };

	*text = (struct text){ .len = 0 };
	assert_int_equal(fgt_config_show(config, &sink), 0);
}

static struct fgt_config *load_text(const char *text)
{
	struct fgt_config *config = NULL;
	struct fgt_why why = { .text = "" };

	if (fgt_config_load_bytes(text, strlen(text), "t.conf", &config, &why))
		fail_msg("%s", why.text);
	return config;
}

static void each_case_is_accepted_or_refused(void **state)
{
	const size_t count = sizeof(CASES) / sizeof(*CASES);
	int failed = 0;

	(void)state;
	assert_true(count >= 60);
	for (size_t i = 0; i < count; i++) {
		const struct config_case *one = &CASES[i];
		struct fgt_config *config = NULL;
		struct fgt_why why = { .text = "" };
		int error = fgt_config_load_bytes(one->text, one->len, "t.conf",
						  &config, &why);
		bool is_right =
			one->complaint
				? error == -EINVAL && !config &&
					  !strncmp(why.text, "t.conf:", 7) &&
					  isdigit((unsigned char)why.text[7]) &&
					  strstr(why.text, one->complaint)
				: error == 0;

		if (!is_right) {
			print_error("%s\n -> %d \"%s\", not \"%s\"\n",
				    one->text, error, why.text,
				    one->complaint ? one->complaint : "");
			failed++;
		}
		fgt_config_free(config);
	}
	assert_int_equal(failed, 0);
}

static void line_comes_first_in_a_message(void **state)
{
	const size_t count = sizeof(CASES) / sizeof(*CASES);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		const struct config_case *one = &CASES[i];
		struct fgt_config *config = NULL;
		struct fgt_why why = { .text = "" };

		if (!one->complaint || *one->complaint < '0' ||
		    *one->complaint > '9')
			continue;
		fgt_config_load_bytes(one->text, one->len, "t.conf", &config,
				      &why);
		assert_int_equal(strncmp(why.text + strlen("t.conf:"),
					 one->complaint,
					 strlen(one->complaint)),
				 0);
	}
}

static void empty_file_gives_the_defaults(void **state)
{
	struct fgt_config *config = load_text("");

	(void)state;
	assert_int_equal(config->sampling.hz, 101);
	assert_int_equal(config->sampling.max_depth, 256);
	assert_true(config->sampling.max_cpu_percent == 2);
	assert_int_equal(config->sampling.state_frames, FGT_STATE_FRAMES_AUTO);
	assert_false(config->sampling.is_self_included);
	assert_int_equal(config->ring.seconds, 30);
	assert_int_equal(config->ring.memory_mb, 64);
	assert_int_equal(config->ring.total_mb, 0);
	assert_int_equal(config->ring.per_user, 16);
	assert_int_equal(config->target_count, 0);
	assert_non_null(config->socket);
	assert_false(config->upload.is_http_allowed);
	assert_int_equal(config->symbols.debug_dir_count, 1);
	assert_string_equal(config->symbols.debug_dirs[0], "/usr/lib/debug");
	assert_string_equal(config->log.level, "info");
	assert_string_equal(config->log.format, "logfmt");
	fgt_config_free(config);
}

static void a_path_is_made_absolute(void **state)
{
	int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct fgt_config *config;

	(void)state;
	assert_int_equal(chdir("/usr/lib"), 0);
	config = load_text("upload: { ca_file = \"a/b.pem\"; };"
			   "symbols: { debug_dirs = [ \"debug\" ]; };");
	assert_int_equal(fchdir(before) | close(before), 0);
	assert_string_equal(config->upload.ca_file, "/usr/lib/a/b.pem");
	assert_string_equal(config->symbols.debug_dirs[0], "/usr/lib/debug");
	fgt_config_free(config);
}

static void each_key_sets_its_member(void **state)
{
	struct fgt_config *config = load_text(FULL);

	(void)state;
	assert_int_equal(config->sampling.hz, 99);
	assert_int_equal(config->sampling.max_depth, 64);
	assert_int_equal(config->sampling.state_frames, FGT_STATE_FRAMES_LEAF);
	assert_true(config->sampling.is_self_included);
	assert_int_equal(config->ring.seconds, 10);
	assert_int_equal(config->ring.memory_mb, 32);
	assert_int_equal(config->ring.total_mb, 128);
	assert_int_equal(config->ring.per_user, 4);
	assert_int_equal(config->target_count, 4);
	assert_int_equal(config->targets[0].pid, 1234);
	assert_string_equal(config->targets[1].name, "redis");
	assert_true(config->targets[1].is_with_children);
	assert_string_equal(config->targets[2].exe, "/usr/sbin/a \"b\\");
	assert_string_equal(config->targets[3].cgroup, "a.slice");
	assert_false(config->targets[3].is_with_children);
	assert_string_equal(config->socket, "/run/x.sock");
	assert_string_equal(config->upload.release, "app@1.0");
	assert_string_equal(config->upload.environment, "lab");
	assert_string_equal(config->upload.ca_file, "/etc/ca");
	assert_true(config->upload.is_http_allowed);
	assert_int_equal(config->upload.destination_count, 4);
	assert_string_equal(config->upload.destinations[0].dsn_file,
			    "/etc/dsn");
	assert_string_equal(config->upload.destinations[1].name, "2");
	assert_string_equal(config->upload.destinations[1].dsn_file,
			    "/etc/lab");
	assert_string_equal(config->upload.destinations[2].aws_keys_file,
			    "/etc/keys");
	assert_int_equal(config->upload.destinations[3].max_files, 9);
	assert_int_equal(config->upload.transaction_count, 2);
	assert_string_equal(config->upload.transactions[1], "d");
	assert_int_equal(config->symbols.demangle, FGT_DEMANGLE_NO);
	assert_int_equal(config->symbols.debug_dir_count, 2);
	assert_string_equal(config->symbols.debug_dirs[1], "/b");
	assert_string_equal(config->log.level, "debug");
	assert_string_equal(config->log.format, "json");
	fgt_config_free(config);
}

static void shown_configuration_reads_back_equal(void **state)
{
	static const char *const TEXTS[] = { "", FULL };
	static struct text first, second;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fgt_config *config = load_text(TEXTS[i]);
		struct fgt_config *again;

		show(config, &first);
		assert_int_equal(
			!strstr(first.bytes, "# upload.release is not set\n"),
			i == 1);
		again = load_text(first.bytes);
		show(again, &second);
		assert_string_equal(first.bytes, second.bytes);
		fgt_config_free(config);
		fgt_config_free(again);
	}
	/* Equal, and complete. */
	assert_non_null(strstr(second.bytes, "hz = 99;"));
	assert_non_null(strstr(second.bytes, "\"/usr/sbin/a \\\"b\\\\\""));
}

static void json_has_the_same_values(void **state)
{
	static struct text text;
	const struct fgt_sink sink = { .write = append, .context = &text };
	struct fgt_config *config = load_text(FULL);

	(void)state;
	text.len = 0;
	assert_int_equal(fgt_config_show_json(config, &sink), 0);
	assert_non_null(strstr(text.bytes, "\"sampling\":{\n\"hz\":99,"));
	assert_non_null(
		strstr(text.bytes, "{\"pid\":1234,\"children\":false,"));
	assert_non_null(strstr(text.bytes, "\"debug_dirs\":[\"/a\",\"/b\"]"));
	assert_int_equal(text.bytes[0], '{');
	assert_string_equal(text.bytes + text.len - 3, "\n}\n");
	fgt_config_free(config);
}

static void refused_values_are_not_shown(void **state)
{
	static const char *const TEXTS[] = {
		"upload:{destinations=({url=\"https://h/x?sig=s3cret\"})}",
		"upload:{destinations=({url=\"https://user:s3cret@h/\"})}",
		"upload:{destinations=({dsn=\"https://s3cret@h/1\"})}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
		struct fgt_config *config = NULL;
		struct fgt_why why = { .text = "" };

		assert_int_equal(fgt_config_load_bytes(TEXTS[i],
						       strlen(TEXTS[i]),
						       "t.conf", &config, &why),
				 -EINVAL);
		assert_null(strstr(why.text, "s3cret"));
	}
}

static int refuse_write(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return -ENOSPC;
}

static void full_sink_ends_show(void **state)
{
	const struct fgt_sink sink = { .write = refuse_write };
	struct fgt_config *config = load_text("");

	(void)state;
	assert_int_equal(fgt_config_show(config, &sink), -ENOSPC);
	assert_int_equal(fgt_config_show_json(config, &sink), -ENOSPC);
	fgt_config_free(config);
}

/* A file of the test's own, removed by the caller. */
static char *make_file(const char *bytes, mode_t mode)
{
	static char path[64];
	int fd;

	strcpy(path, "/tmp/fgtrace-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static int load_path(const char *path, struct fgt_why *why)
{
	struct fgt_config *config = NULL;
	int error = fgt_config_load(path, &config, why);

	fgt_config_free(config);
	return error;
}

/* Fault K4. */
static void file_writable_by_other_users_is_refused(void **state)
{
	struct fgt_why why = { .text = "" };
	const char *path = make_file("ring = {};", 0644);

	(void)state;
	assert_int_equal(load_path(path, &why), 0);
	assert_int_equal(chmod(path, 0646), 0);
	assert_int_equal(load_path(path, &why), -EACCES);
	assert_non_null(strstr(why.text, "chmod o-w"));
	assert_int_equal(chmod(path, 0644), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(load_path(path, &why), -EACCES);
		assert_non_null(strstr(why.text, "owned by uid 12345"));
	}
	unlink(path);
}

/* Fault K4. */
static void path_that_is_no_file_is_refused_at_once(void **state)
{
	struct fgt_why why = { .text = "" };
	const char *fifo = make_file("", 0600);

	(void)state;
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(load_path(fifo, &why), -EINVAL);
	assert_non_null(strstr(why.text, "not a regular file"));
	unlink(fifo);
	assert_int_equal(load_path("/tmp", &why), -EINVAL);
	assert_int_equal(load_path("/dev/zero", &why), -EINVAL);
	assert_int_equal(load_path("/nonexistent/x", &why), -ENOENT);
	assert_non_null(strstr(why.text, "cannot open"));
}

static void file_beyond_a_mebibyte_is_refused(void **state)
{
	struct fgt_why why = { .text = "" };
	const char *path = make_file("", 0600);

	(void)state;
	assert_int_equal(truncate(path, (1 << 20) + 1), 0);
	assert_int_equal(load_path(path, &why), -EINVAL);
	assert_non_null(strstr(why.text, "larger than 1 MiB"));
	unlink(path);
}

static void too_many_keys_are_refused(void **state)
{
	const size_t len = 1 << 20;
	char *text = malloc(len);
	struct fgt_config *config = NULL;
	struct fgt_why why = { .text = "" };

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i + 8 <= len; i += 8)
		memcpy(text + i, "abcd=1;\n", 8);
	assert_int_equal(
		fgt_config_load_bytes(text, len, "t.conf", &config, &why),
		-EINVAL);
	assert_non_null(strstr(why.text, "more than 8192 keys"));
	free(text);
}

static void environment_takes_precedence_over_the_file(void **state)
{
	const char *path =
		make_file("sampling = { hz = 7; max_depth = 9; };", 0600);
	struct fgt_config *config = NULL;
	struct fgt_why why = { .text = "" };

	(void)state;
	setenv("FGTRACE_SAMPLING_HZ", "55", 1);
	setenv("FGTRACE_SAMPLING_MAX_CPU_PERCENT", "0.5", 1);
	setenv("FGTRACE_SAMPLING_INCLUDE_SELF", "true", 1);
	setenv("FGTRACE_SAMPLING_STATE_FRAMES", "no", 1);
	setenv("FGTRACE_SOCKET", "/tmp/env.sock", 1);
	setenv("FGTRACE_UPLOAD_RELEASE", "", 1);
	assert_int_equal(fgt_config_load(path, &config, &why), 0);
	assert_int_equal(config->sampling.hz, 55);
	assert_int_equal(config->sampling.max_depth, 9);
	assert_true(config->sampling.max_cpu_percent == 0.5);
	assert_true(config->sampling.is_self_included);
	assert_int_equal(config->sampling.state_frames, FGT_STATE_FRAMES_NO);
	assert_string_equal(config->socket, "/tmp/env.sock");
	assert_null(config->upload.release);
	assert_string_equal(config->path, path);
	fgt_config_free(config);
	unlink(path);
	setenv("FGTRACE_SAMPLING_HZ", "1e3", 1);
	assert_int_equal(load_path(NULL, &why), -EINVAL);
	assert_string_equal(why.text,
			    "FGTRACE_SAMPLING_HZ: `sampling.hz` must be an "
			    "integer from 1 to 1000");
	unsetenv("FGTRACE_SAMPLING_HZ");
	setenv("FGTRACE_LOG_LEVEL", "loud", 1);
	assert_int_equal(load_path(NULL, &why), -EINVAL);
	unsetenv("FGTRACE_LOG_LEVEL");
	setenv("FGTRACE_UPLOAD_RELEASE", "a\nb", 1);
	assert_int_equal(load_path(NULL, &why), -EINVAL);
	unsetenv("FGTRACE_UPLOAD_RELEASE");
	setenv("FGTRACE_HTTP_LISTEN", "127.0.0.1", 1);
	assert_int_equal(load_path(NULL, &why), -EINVAL);
	assert_string_equal(
		why.text,
		"FGTRACE_HTTP_LISTEN: `http.listen`: '127.0.0.1' is no "
		"address to listen on: give ADDRESS:PORT, such as "
		"127.0.0.1:7071 or [::1]:7071");
	unsetenv("FGTRACE_HTTP_LISTEN");
	setenv("FGTRACE_SAMPLING_MAX_CPU_PERCENT", "2%", 1);
	assert_int_equal(load_path(NULL, &why), -EINVAL);
	unsetenv("FGTRACE_SAMPLING_MAX_CPU_PERCENT");
	unsetenv("FGTRACE_SAMPLING_INCLUDE_SELF");
	unsetenv("FGTRACE_SAMPLING_STATE_FRAMES");
	unsetenv("FGTRACE_SOCKET");
}

static void default_socket_follows_the_user(void **state)
{
	char path[108], expected[64], longest[109];
	char small[8];

	(void)state;
	unsetenv("FGTRACE_SOCKET");
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_int_equal(fgt_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, geteuid() == 0
					  ? "/run/fgtrace/agent.sock"
					  : "/run/user/7/fgtrace/agent.sock");
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(expected, sizeof(expected), "/tmp/fgtrace-%u/agent.sock",
		 geteuid());
	assert_int_equal(fgt_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, geteuid() == 0 ? "/run/fgtrace/agent.sock"
						 : expected);
	assert_int_equal(fgt_default_socket(small, sizeof(small)),
			 -ENAMETOOLONG);
	setenv("FGTRACE_SOCKET", "/tmp/x", 1);
	assert_int_equal(fgt_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, "/tmp/x");
	memset(longest, 'a', 108);
	longest[108] = 0;
	setenv("FGTRACE_SOCKET", longest, 1);
	assert_int_equal(fgt_default_socket(path, sizeof(path)), -ENAMETOOLONG);
	setenv("FGTRACE_SOCKET", longest + 1, 1);
	assert_int_equal(fgt_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, longest + 1);
	unsetenv("FGTRACE_SOCKET");
}

static void sample_file_has_the_defaults(void **state)
{
	static struct text sample, defaults;
	struct fgt_config *config = NULL;
	struct fgt_why why = { .text = "" };

	(void)state;
	if (fgt_config_load(FGT_SAMPLE_CONFIG, &config, &why))
		fail_msg("%s", why.text);
	show(config, &sample);
	fgt_config_free(config);
	config = load_text("");
	show(config, &defaults);
	fgt_config_free(config);
	assert_string_equal(sample.bytes, defaults.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_is_accepted_or_refused),
		cmocka_unit_test(line_comes_first_in_a_message),
		cmocka_unit_test(empty_file_gives_the_defaults),
		cmocka_unit_test(a_path_is_made_absolute),
		cmocka_unit_test(each_key_sets_its_member),
		cmocka_unit_test(shown_configuration_reads_back_equal),
		cmocka_unit_test(json_has_the_same_values),
		cmocka_unit_test(refused_values_are_not_shown),
		cmocka_unit_test(full_sink_ends_show),
		cmocka_unit_test(file_writable_by_other_users_is_refused),
		cmocka_unit_test(path_that_is_no_file_is_refused_at_once),
		cmocka_unit_test(file_beyond_a_mebibyte_is_refused),
		cmocka_unit_test(too_many_keys_are_refused),
		cmocka_unit_test(environment_takes_precedence_over_the_file),
		cmocka_unit_test(default_socket_follows_the_user),
		cmocka_unit_test(sample_file_has_the_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
