/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON strings out of hostile text (FAULTS Z9). Runs in any thread; must not
 * allocate.
 */
#include "agent/daemon/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t utf8_len(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	if (first >= 0xf0 && first < 0xf5)
		return 4;
	return 0;
}

/* Length of the well-formed character at text, 0 if there is none. */
static size_t character_len(const unsigned char *text, size_t len)
{
	size_t need = utf8_len(text[0]);

	if (need == 0 || need > len)
		return 0;
	for (size_t i = 1; i < need; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, beyond U+10FFFF. */
	if ((text[0] == 0xe0 && text[1] < 0xa0) ||
	    (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) ||
	    (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return need;
}

/* What replaces the character at text; NULL if it stands for itself. */
static const char *replacement(const unsigned char *text, size_t len,
			       char buffer[8])
{
	if (text[0] == '"')
		return "\\\"";
	if (text[0] == '\\')
		return "\\\\";
	if (text[0] == '\n')
		return "\\n";
	if (text[0] == '\t')
		return "\\t";
	if (text[0] < 0x20 || text[0] == 0x7f) {
		snprintf(buffer, 8, "\\u%04x", text[0]);
		return buffer;
	}
	return character_len(text, len) == 0 ? "\\ufffd" : NULL;
}

int fgt_escape_json(const struct fgt_sink *sink, const char *text, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t plain = 0; /* start of what is not written yet */
	size_t i = 0;
	int r = fgt_sink_write(sink, "\"", 1);

	while (r == 0 && i < len) {
		char buffer[8];
		const char *other = replacement(bytes + i, len - i, buffer);

		if (!other) {
			i += character_len(bytes + i, len - i);
			continue;
		}
		if (i > plain)
			r = fgt_sink_write(sink, text + plain, i - plain);
		if (r == 0)
			r = fgt_sink_write(sink, other, strlen(other));
		plain = ++i;
	}
	if (r == 0 && len > plain)
		r = fgt_sink_write(sink, text + plain, len - plain);
	return r == 0 ? fgt_sink_write(sink, "\"", 1) : r;
}
