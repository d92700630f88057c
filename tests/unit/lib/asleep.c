/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of the thread in procfs. Runs in the thread of the tests.
 */
#include "tests/unit/lib/asleep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static bool is_asleep(int tid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	(void)!fscanf(file, "%*d (%*[^)]) %c", &state);
	(void)fclose(file);
	return state == 'S';
}

void wait_until_asleep(const atomic_int *tid)
{
	for (int i = 0; i < 10000; i++) {
		if (*tid && is_asleep(*tid))
			return;
		usleep(1000);
	}
	fail_msg("the thread did not sleep within 10 s");
}
