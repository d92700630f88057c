/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs and unpacks the names of one address. Runs in the symbolizer and in
 * its helper; must not trust packed bytes.
 *
 * A pack: count (1 byte), then for each symbol line (4), length of function
 * and of file (2 each), both texts with their NUL. Of a function that has no
 * name, but a start: count 0, and the start (8). Host byte order: a pack never
 * leaves the machine.
 */
#include "agent/symbols/names/names.h"

#include <errno.h>
#include <string.h>

struct pack_head {
	uint32_t line;
	uint16_t function_len, file_len;
};

static int write_text(const struct fgt_sink *sink, const char *text, size_t len)
{
	int error = fgt_sink_write(sink, text, len);

	return error ? error : fgt_sink_write(sink, "", 1);
}

int fgt_names_pack(const struct fgt_names *names, const struct fgt_sink *sink)
{
	uint8_t count = (uint8_t)names->count;
	int error = fgt_sink_write(sink, &count, 1);

	if (!error && !count && names->start)
		error = fgt_sink_write(sink, &names->start,
				       sizeof(names->start));
	for (size_t i = 0; i < count && !error; i++) {
		const struct fgt_symbol_text *symbol = &names->symbols[i];
		const char *file = symbol->file ? symbol->file : "";
		struct pack_head head = {
			.line = symbol->line,
			.function_len = (uint16_t)strnlen(symbol->function,
							  FGT_NAMES_TEXT_MAX),
			.file_len = (uint16_t)strnlen(file, FGT_NAMES_TEXT_MAX),
		};

		error = fgt_sink_write(sink, &head, sizeof(head));
		if (!error)
			error = write_text(sink, symbol->function,
					   head.function_len);
		if (!error)
			error = write_text(sink, file, head.file_len);
	}
	return error;
}

/* The text of len bytes at *position, NULL if it is not one. */
static const char *take_text(const uint8_t *packed, size_t len, size_t text_len,
			     size_t *position)
{
	const char *text = (const char *)packed + *position;

	if (text_len > FGT_NAMES_TEXT_MAX || text_len + 1 > len - *position)
		return NULL;
	if (strnlen(text, text_len + 1) != text_len)
		return NULL;
	*position += text_len + 1;
	return text;
}

int fgt_names_unpack(const uint8_t *packed, size_t len,
		     struct fgt_names *ret_names)
{
	size_t position = 1;

	if (!len || packed[0] > FGT_NAMES_MAX)
		return -EBADMSG;
	ret_names->start = 0;
	if (!packed[0] && len == position + sizeof(ret_names->start)) {
		memcpy(&ret_names->start, packed + position,
		       sizeof(ret_names->start));
		position = len;
	}
	for (size_t i = 0; i < packed[0]; i++) {
		struct fgt_symbol_text *symbol = &ret_names->symbols[i];
		struct pack_head head;

		if (len - position < sizeof(head))
			return -EBADMSG;
		memcpy(&head, packed + position, sizeof(head));
		position += sizeof(head);
		symbol->function =
			take_text(packed, len, head.function_len, &position);
		if (!symbol->function || !head.function_len)
			return -EBADMSG;
		symbol->file = take_text(packed, len, head.file_len, &position);
		if (!symbol->file)
			return -EBADMSG;
		if (!head.file_len)
			symbol->file = NULL;
		symbol->line = head.line;
		symbol->reason = FGT_SYMBOL_FOUND;
	}
	if (position != len)
		return -EBADMSG;
	ret_names->count = packed[0];
	return 0;
}
