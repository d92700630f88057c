/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing of Sentry's envelopes: each header is one line and has the length of
 * the body that follows. Runs in any thread; must not hold a body in memory: it
 * is written twice, first only to count its bytes.
 */
#include "upload/format/sentry/sentry_envelope.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "ringbuf/base/clock.h"

int fgt_sentry_make_id(char *ret_hex, size_t bytes)
{
	unsigned char random[16];

	if (bytes > sizeof(random))
		return -EINVAL;
	if (getrandom(random, bytes, 0) != (ssize_t)bytes)
		return errno ? -errno : -EIO;
	random[0] |= 1; /* ids of zeros are refused */
	for (size_t i = 0; i < bytes; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", random[i]);
	return 0;
}

int fgt_sentry_choose_id(const char *wanted, char ret_id[33])
{
	if (!fgt_sentry_given(wanted))
		return fgt_sentry_make_id(ret_id, 16);
	if (strlen(wanted) != 32 ||
	    strspn(wanted, "0123456789abcdefABCDEF") != 32 ||
	    strspn(wanted, "0") == 32)
		return -EINVAL;
	for (size_t i = 0; i <= 32; i++)
		ret_id[i] = (char)tolower((unsigned char)wanted[i]);
	return 0;
}

void fgt_sentry_put_sdk(struct fgt_json *json, const char *key)
{
	fgt_json_begin_object(json, key);
	fgt_json_put_string(json, "name", "fgtrace.native");
	fgt_json_put_string(json, "version", FGT_VERSION);
	fgt_json_end_object(json);
}

void fgt_sentry_put_header(struct fgt_json *json, const char *event_id,
			   const struct fgt_format_options *options)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "event_id", event_id);
	if (fgt_sentry_given(options->dsn) && !options->is_stored)
		fgt_json_put_string(json, "dsn", options->dsn);
	fgt_sentry_put_sdk(json, "sdk");
	if (!options->is_stored)
		fgt_json_put_time(json, "sent_at",
				  fgt_clock_ns(CLOCK_REALTIME));
	fgt_json_end_object(json);
	fgt_json_newline(json);
}

/*
 * Debug id of a little-endian ELF file: the build id's first 16 bytes as a UUID
 * whose first three fields have their bytes in reverse order.
 */
static void put_debug_id(struct fgt_json *json,
			 const struct fgt_slice_image *image)
{
	static const unsigned char order[16] = { 3, 2, 1,  0,  5,  4,  7,  6,
						 8, 9, 10, 11, 12, 13, 14, 15 };
	char text[40];
	size_t at = 0;

	for (size_t i = 0; i < 16; i++) {
		unsigned int byte = 0;

		if (order[i] < image->build_id_len)
			byte = image->build_id[order[i]];
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		snprintf(text + at, 3, "%02x", byte);
		at += 2;
	}
	fgt_json_put_string(json, "debug_id", text);
}

/* Type "symbolic" stands for any file; Relay refuses "elf" in a profile. */
void fgt_sentry_images_put(const struct fgt_ring_slice *slice,
			   struct fgt_json *json)
{
	fgt_json_begin_object(json, "debug_meta");
	fgt_json_begin_array(json, "images");
	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		if (!image->build_id_len || image->end <= image->start)
			continue;
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "type", "symbolic");
		put_debug_id(json, image);
		fgt_json_put_string(json, "code_file",
				    fgt_slice_string(slice, image->path));
		fgt_json_put_hex_string(json, "image_addr", image->start);
		fgt_json_put_hex_string(json, "image_vmaddr",
					image->start - image->bias);
		fgt_json_put_uint(json, "image_size",
				  image->end - image->start);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
	fgt_json_end_object(json);
}

static int discard(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return 0;
}

int fgt_sentry_count_body(const struct fgt_sentry_body *body, uint64_t *ret_len)
{
	const struct fgt_sink sink = { .write = discard, .context = NULL };
	struct fgt_json json;
	int r;

	fgt_json_init(&json, &sink);
	r = body->put(body->context, &json);
	if (!r)
		r = fgt_json_finish(&json);
	if (!r)
		*ret_len = json.out.total_bytes;
	return r;
}

int fgt_sentry_put_item(struct fgt_json *json, const char *type,
			const char *platform,
			const struct fgt_sentry_body *body, uint64_t len)
{
	int r;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", type);
	fgt_json_put_uint(json, "length", len);
	fgt_json_put_string(json, "content_type", "application/json");
	if (platform)
		fgt_json_put_string(json, "platform", platform);
	fgt_json_end_object(json);
	fgt_json_newline(json);
	r = body->put(body->context, json);
	fgt_json_newline(json);
	return r;
}

static bool is_first(const struct fgt_transaction_facts *facts, size_t tag)
{
	for (size_t i = 0; i < tag; i++)
		if (!strcmp(facts->tags[i].key, facts->tags[tag].key))
			return false;
	return true;
}

void fgt_sentry_put_tags(struct fgt_json *json,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_transaction_facts *facts)
{
	const char *trigger = fgt_slice_note(slice, FGT_NOTE_TRIGGER);
	size_t count = facts ? facts->tag_count : 0;

	if (trigger && strlen(trigger) > FGT_TAG_VALUE_MAX)
		trigger = NULL; /* a file may hold anything */
	if (!count && !trigger)
		return;
	fgt_json_begin_object(json, "tags");
	if (trigger)
		fgt_json_put_string(json, FGT_NOTE_TRIGGER, trigger);
	for (size_t i = 0; i < count; i++)
		if (is_first(facts, i) &&
		    !(trigger && !strcmp(facts->tags[i].key, FGT_NOTE_TRIGGER)))
			fgt_json_put_string(json, facts->tags[i].key,
					    facts->tags[i].value);
	fgt_json_end_object(json);
}
