/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of thread names. Pure.
 */
#include "upload/why/group.h"

#include <stdbool.h>

static bool is_digit(char character)
{
	return character >= '0' && character <= '9';
}

const char *fgt_group_pattern(const char *name,
			      char ret_pattern[FGT_GROUP_NAME_MAX])
{
	size_t len = 0;

	for (; *name && len < FGT_GROUP_NAME_MAX - 1; name++) {
		if (!is_digit(*name))
			ret_pattern[len++] = *name;
		else if (!len || ret_pattern[len - 1] != '*')
			ret_pattern[len++] = '*';
	}
	ret_pattern[len] = '\0';
	return ret_pattern;
}
