/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What text a configuration may hold. Any thread; bytes may be anything.
 */
#include "agent/daemon/config_text.h"

#include <string.h>

#define FILE_NAME_SHOWN 120 /* bytes of its end */

const char *fgt_config_short_name(const char *file_name)
{
	size_t len = strlen(file_name);

	if (len <= FILE_NAME_SHOWN)
		return file_name;
	file_name += len - FILE_NAME_SHOWN;
	while (((unsigned char)*file_name & 0xc0) == 0x80)
		file_name++;
	return file_name;
}

size_t fgt_config_utf8_length(const char *text, size_t len)
{
	const unsigned char *u = (const unsigned char *)text;
	size_t need = u[0] < 0x80	      ? 1
		      : (u[0] & 0xe0) == 0xc0 ? 2
		      : (u[0] & 0xf0) == 0xe0 ? 3
		      : (u[0] & 0xf8) == 0xf0 ? 4
					      : 0;

	if (!need || need > len)
		return 0;
	for (size_t i = 1; i < need; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	/* Over-long forms, surrogates, beyond U+10FFFF. */
	if ((need == 2 && u[0] < 0xc2) || (u[0] == 0xe0 && u[1] < 0xa0) ||
	    (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
	    (u[0] == 0xf4 && u[1] > 0x8f) || u[0] > 0xf4)
		return 0;
	return need;
}

bool fgt_config_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

bool fgt_config_is_plain_text(const char *text, size_t len)
{
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		step = fgt_config_utf8_length(text + i, len - i);
		if (!step || fgt_config_is_control(text[i]))
			return false;
	}
	return true;
}
