/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What text a configuration may hold. Any thread; bytes may be anything.
 */
#include "agent/config/config_text.h"

#include "ringbuf/base/utf8.h"

bool fgt_config_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

bool fgt_config_is_plain_text(const char *text, size_t len)
{
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		step = fgt_utf8_len(text + i, len - i);
		if (!step || fgt_config_is_control(text[i]))
			return false;
	}
	return true;
}
