/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside, and columns of it. Pure, except for what it prints.
 */
#include <string.h>
#include <unistd.h>

#include "agent/cli/summary/summary.h"
#include "ringbuf/base/utf8.h"

#define COLUMN_MAX 40 /* of a terminal, whose lines are short */

/* Length of the character at text if it may go to a terminal as it is: valid
 * UTF-8 and no control character, C1 included. */
static size_t printable_len(const char *text, size_t len)
{
	unsigned char first = (unsigned char)text[0];

	if (first < 0x20 || first == 0x7f)
		return 0;
	if (first == 0xc2 && len > 1 && (unsigned char)text[1] < 0xa0)
		return 0;
	return fgt_utf8_len(text, len);
}

static size_t count_characters(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t at = 0; at < len; count++) {
		size_t part = fgt_utf8_len(text + at, len - at);

		at += part ? part : 1;
	}
	return count;
}

size_t fgt_print_text(FILE *file, const char *text, size_t columns)
{
	size_t len = strlen(text), count = count_characters(text, len), at = 0;
	size_t shown = count;

	if (count > columns && isatty(fileno(file)))
		shown = columns - 3;
	for (size_t i = 0; i < shown; i++) {
		size_t part = printable_len(text + at, len - at);
		size_t skipped = fgt_utf8_len(text + at, len - at);

		if (part)
			fwrite(text + at, 1, part, file);
		else
			fputc('?', file);
		at += skipped ? skipped : 1;
	}
	if (shown == count)
		return count;
	fputs("...", file);
	return columns;
}

void fgt_print_padded(FILE *file, const char *text, size_t columns)
{
	size_t printed = fgt_print_text(file, text, columns);

	if (printed < columns)
		fprintf(file, "%*s", (int)(columns - printed), "");
}

void fgt_column_fit(FILE *file, const char *text, size_t *columns)
{
	size_t count = count_characters(text, strlen(text));

	if (count > COLUMN_MAX && isatty(fileno(file)))
		count = COLUMN_MAX;
	if (count > *columns)
		*columns = count;
}
