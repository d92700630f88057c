/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile frames of the control socket through the decoder, every getter and
 * the JSON writer.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static int swallow(void *context, const void *bytes, size_t len)
{
	size_t *total = context;

	(void)bytes;
	*total += len;
	return 0;
}

static void read_all(const struct fgt_message *message, const char *key)
{
	const struct fgt_message *element;
	const uint8_t *bytes;
	const char *text;
	int64_t number;
	uint64_t big;
	double real;
	size_t len;
	bool flag;

	(void)fgt_message_get_int(message, key, &number);
	(void)fgt_message_get_uint(message, key, &big);
	(void)fgt_message_get_double(message, key, &real);
	(void)fgt_message_get_bool(message, key, &flag);
	(void)fgt_message_get_bin(message, key, &bytes, &len);
	if (fgt_message_get_string(message, key, &text) == 0 &&
	    strlen(text) > FGT_PROTOCOL_REQUEST_MAX)
		abort();
	if (fgt_message_get_array(message, key, &len) == 0)
		for (size_t i = 0; i < len; i++)
			if (fgt_message_get_array_map(message, key, i,
						      &element) == 0)
				(void)fgt_message_get_int(element, "pid",
							  &number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	size_t total = 0;
	const struct fgt_sink sink = { swallow, &total };

	if (fgt_message_decode(bytes, len, &message) < 0)
		return 0;
	read_all(message, "v");
	read_all(message, "verb");
	read_all(message, "pid");
	read_all(message, "targets");
	if (fgt_message_to_json(message, &sink) < 0 || total < 2)
		abort();
	return 0;
}
