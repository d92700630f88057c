/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile frames of the control socket, of a client or of an agent, through
 * the decoder, every getter, the check of replies and the JSON writer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/message.h"
#include "agent/protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static int swallow(void *context, const void *bytes, size_t len)
{
	size_t *total = context;

	(void)bytes;
	*total += len;
	return 0;
}

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static bool is_inside(const struct fgt_message *message, const void *bytes,
		      size_t len)
{
	return (const uint8_t *)bytes >= message->bytes &&
	       (const uint8_t *)bytes + len <= message->bytes + message->len;
}

static void read_all(const struct fgt_message *message, const char *key)
{
	struct fgt_message_array array;
	struct fgt_message element;
	const uint8_t *bytes;
	const char *text;
	int64_t number;
	uint64_t big;
	double real;
	size_t len;
	bool flag;
	int r;

	(void)fgt_message_get_int(message, key, &number);
	(void)fgt_message_get_uint(message, key, &big);
	(void)fgt_message_get_double(message, key, &real);
	(void)fgt_message_get_bool(message, key, &flag);
	if (fgt_message_get_bin(message, key, &bytes, &len) == 0)
		must(is_inside(message, bytes, len));
	if (fgt_message_get_string(message, key, &text) == 0)
		must(is_inside(message, text, strlen(text) + 1));
	if (fgt_message_get_array(message, key, &array) < 0)
		return;
	len = array.count;
	while ((r = fgt_message_next(&array, &element)) != -ENOENT) {
		len--;
		if (r < 0)
			continue;
		must(is_inside(message, element.bytes, element.len));
		(void)fgt_message_get_int(&element, "pid", &number);
		(void)fgt_message_get_string(&element, "name", &text);
	}
	must(len == 0);
}

static void check_reply(const struct fgt_message *message)
{
	struct fgt_why why = { "" };
	int r = fgt_message_check_reply(message, &why);

	must(r <= 0 && r >= -4095 && (r == 0) == (why.text[0] == 0));
	must(strnlen(why.text, sizeof(why.text)) < sizeof(why.text));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const char *const keys[] = {
		"v",	"verb", "pid", "targets", "ok", "error", "why",
		"data", "end",	"len", "ticks",	  "hz", "tags",	 "limitation",
	};
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	size_t total = 0;
	const struct fgt_sink sink = { swallow, &total };

	if (fgt_message_decode(bytes, len, &message) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		read_all(message, keys[i]);
	check_reply(message);
	must(fgt_message_to_json(message, &sink) == 0 && total >= 2);
	return 0;
}
