/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises and repairs UTF-8. Runs in any thread; must not read past len.
 */
#include "ringbuf/base/utf8.h"

#include <string.h>

size_t fgt_utf8_len(const char *bytes, size_t len)
{
	const unsigned char *text = (const unsigned char *)bytes;
	unsigned char first = len ? text[0] : 0xff, low = 0x80, high = 0xbf;
	size_t need;

	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		need = 2;
	else if (first >= 0xe0 && first <= 0xef)
		need = 3;
	else if (first >= 0xf0 && first <= 0xf4)
		need = 4;
	else
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	if (len < need || text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return need;
}

size_t fgt_utf8_clean(const char *text, size_t len, char *ret_text, size_t size)
{
	size_t at = 0, used = 0;

	while (at < len) {
		size_t wide = fgt_utf8_len(text + at, len - at);
		const char *from = wide ? text + at : FGT_UTF8_REPLACEMENT;
		size_t need = wide ? wide : strlen(FGT_UTF8_REPLACEMENT);

		if (need > size - used)
			break;
		memcpy(ret_text + used, from, need);
		used += need;
		at += wide ? wide : 1;
	}
	return used;
}
