/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/service/title.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TITLE(bytes, expected) assert_title(bytes, sizeof(bytes) - 1, expected)

static void assert_title(const char *bytes, size_t len, const char *expected)
{
	char title[FGT_TITLE_MAX];

	fgt_title_parse(bytes, len, title);
	assert_string_equal(title, expected);
}

static void words_behind_the_name_are_a_title(void **state)
{
	(void)state;
	TITLE("postgres: checkpointer \0\0\0PATH=/bin",
	      "postgres: checkpointer");
	TITLE("nginx: worker process", "nginx: worker process");
	TITLE("redis-server 127.0.0.1:6379      ",
	      "redis-server 127.0.0.1:6379");
}

static void command_lines_are_none(void **state)
{
	(void)state;
	TITLE("redis-server\0--save\0\0", "");
	TITLE("/opt/My Program/bin/server\0-v\0", "");
	TITLE("-bash\0", "");
	TITLE("a\0b c", "");
	TITLE("", "");
	TITLE("    ", "");
}

static void long_title_is_cut(void **state)
{
	char bytes[300], title[FGT_TITLE_MAX];

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	bytes[3] = ' ';
	fgt_title_parse(bytes, sizeof(bytes), title);
	assert_int_equal(strlen(title), FGT_TITLE_MAX - 1);
}

static void arguments_of_a_process_are_found(void **state)
{
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t address = fgt_title_address(fd);
	char name[16] = "", bytes[16] = "";
	int cmdline;

	(void)state;
	assert_int_not_equal(address, 0);
	memcpy(bytes, (const void *)(uintptr_t)address, sizeof(bytes) - 1);
	cmdline = openat(fd, "cmdline", O_RDONLY | O_CLOEXEC);
	assert_true(read(cmdline, name, sizeof(name) - 1) > 0);
	assert_string_equal(bytes, name);
	close(cmdline);
	close(fd);
	assert_int_equal(fgt_title_address(-1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_behind_the_name_are_a_title),
		cmocka_unit_test(command_lines_are_none),
		cmocka_unit_test(long_title_is_cut),
		cmocka_unit_test(arguments_of_a_process_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
