/* SPDX-License-Identifier: Apache-2.0 */
/* Slices that cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/lib/backend.h"

/* A signal would end the child. */
static int write_beyond(int fd)
{
	const struct rlimit limit = { .rlim_cur = 4096, .rlim_max = 4096 };
	uint8_t bytes[8192] = { 0 };
	const struct fgt_slice slice = {
		.file = { .bytes = bytes, .len_bytes = sizeof(bytes) }
	};
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(-fgt_slice_write(&slice, FGT_FORMAT_FGT, fd));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void slice_that_cannot_be_written_ends_no_program(void **state)
{
	FILE *file = tmpfile();
	int ends[2];

	(void)state;
	assert_non_null(file);
	assert_int_equal(write_beyond(fileno(file)), EFBIG);
	fclose(file);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	assert_int_equal(write_beyond(ends[1]), EPIPE);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_that_cannot_be_written_ends_no_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
