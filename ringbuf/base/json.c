/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming JSON. Runs in any thread; must not allocate, nor depend on the
 * locale, nor let a byte through that strict readers refuse.
 */
#include "ringbuf/base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ringbuf/base/utf8.h"

void fgt_json_init(struct fgt_json *json, const struct fgt_sink *sink)
{
	fgt_sink_buffer_init(&json->out, sink);
	json->depth = 0;
	json->has_members = 0;
	json->is_object = 0;
	json->is_misused = false;
	json->has_newline = false;
}

static void put(struct fgt_json *json, const char *bytes, size_t len)
{
	fgt_sink_buffer_put(&json->out, bytes, len);
}

static void put_char(struct fgt_json *json, char c)
{
	put(json, &c, 1);
}

static void put_newline(struct fgt_json *json)
{
	if (json->has_newline)
		put_char(json, '\n');
	json->has_newline = false;
}

int fgt_json_finish(struct fgt_json *json)
{
	int r;

	put_newline(json);
	r = fgt_sink_buffer_flush(&json->out);
	if (!r && (json->depth || json->is_misused))
		return -EINVAL;
	return r;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '<';
}

/* What is not plain: returns how many bytes of text it stands for. */
static size_t put_special(struct fgt_json *json, const unsigned char *text,
			  size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char escape[] = "\\u00xx";
	size_t wide;

	if (*text >= 0x80) {
		wide = fgt_utf8_len((const char *)text, len);
		if (wide)
			put(json, (const char *)text, wide);
		else
			put(json, FGT_UTF8_REPLACEMENT, 3);
		return wide ? wide : 1;
	}
	if (*text == '"' || *text == '\\') {
		put_char(json, '\\');
		put_char(json, (char)*text);
		return 1;
	}
	escape[4] = digits[*text >> 4];
	escape[5] = digits[*text & 15];
	put(json, escape, 6);
	return 1;
}

static void put_quoted(struct fgt_json *json, const char *text, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t at = 0;

	put_char(json, '"');
	while (at < len) {
		size_t end = at;

		while (end < len && is_plain(bytes[end]))
			end++;
		put(json, text + at, end - at);
		at = end;
		if (at < len)
			at += put_special(json, bytes + at, len - at);
	}
	put_char(json, '"');
}

/* Comma and key: everything that stands before a value. */
static void begin_value(struct fgt_json *json, const char *key)
{
	uint32_t bit = (uint32_t)1 << json->depth;

	if (json->depth && json->has_members & bit)
		put_char(json, ',');
	json->has_members |= bit;
	put_newline(json);
	/* Bit 0 of is_object stays clear: no key at the top. */
	if ((key != NULL) != !!(json->is_object & bit))
		json->is_misused = true;
	if (key) {
		put_quoted(json, key, strlen(key));
		put_char(json, ':');
	}
}

static void begin_container(struct fgt_json *json, const char *key,
			    bool is_object)
{
	uint32_t bit;

	begin_value(json, key);
	if (json->depth + 1 >= FGT_JSON_DEPTH_MAX) {
		json->is_misused = true;
		return;
	}
	bit = (uint32_t)1 << ++json->depth;
	json->has_members &= ~bit;
	json->is_object &= ~bit;
	if (is_object)
		json->is_object |= bit;
	put_char(json, is_object ? '{' : '[');
}

static void end_container(struct fgt_json *json, bool is_object)
{
	uint32_t bit = (uint32_t)1 << json->depth;

	if (!json->depth || is_object != !!(json->is_object & bit)) {
		json->is_misused = true;
		return;
	}
	json->depth--;
	put_newline(json);
	put_char(json, is_object ? '}' : ']');
}

void fgt_json_begin_object(struct fgt_json *json, const char *key)
{
	begin_container(json, key, true);
}

void fgt_json_end_object(struct fgt_json *json)
{
	end_container(json, true);
}

void fgt_json_begin_array(struct fgt_json *json, const char *key)
{
	begin_container(json, key, false);
}

void fgt_json_end_array(struct fgt_json *json)
{
	end_container(json, false);
}

void fgt_json_put_raw(struct fgt_json *json, const char *key, const char *bytes,
		      size_t len)
{
	begin_value(json, key);
	put(json, bytes, len);
}

void fgt_json_put_text(struct fgt_json *json, const char *key, const char *text,
		       size_t len)
{
	begin_value(json, key);
	put_quoted(json, text, len);
}

void fgt_json_put_string(struct fgt_json *json, const char *key,
			 const char *text)
{
	if (text)
		fgt_json_put_text(json, key, text, strlen(text));
	else
		fgt_json_put_raw(json, key, "null", 4);
}

size_t fgt_json_format_uint(char *digits, uint64_t value)
{
	char backward[20];
	size_t len = 0;

	do {
		backward[len++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < len; i++)
		digits[i] = backward[len - 1 - i];
	return len;
}

void fgt_json_put_uint(struct fgt_json *json, const char *key, uint64_t value)
{
	char digits[20];

	fgt_json_put_raw(json, key, digits,
			 fgt_json_format_uint(digits, value));
}

void fgt_json_put_int(struct fgt_json *json, const char *key, int64_t value)
{
	char text[21] = "-";

	if (value >= 0)
		fgt_json_put_uint(json, key, (uint64_t)value);
	else
		fgt_json_put_raw(
			json, key, text,
			1 + fgt_json_format_uint(text + 1, -(uint64_t)value));
}

void fgt_json_put_bool(struct fgt_json *json, const char *key, bool value)
{
	fgt_json_put_raw(json, key, value ? "true" : "false", value ? 4 : 5);
}

/* In place: the locale's decimal point, of one or more bytes, becomes '.'. */
static size_t unlocalise(char *text)
{
	size_t len = 0;
	bool has_point = false;

	for (const char *c = text; *c; c++) {
		if ((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' ||
		    *c == 'e') {
			text[len++] = *c;
		} else if (!has_point) {
			text[len++] = '.';
			has_point = true;
		}
	}
	return len;
}

void fgt_json_put_double(struct fgt_json *json, const char *key, double value)
{
	char text[40];

	if (!isfinite(value)) {
		fgt_json_put_raw(json, key, "null", 4);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fgt_json_put_raw(json, key, text, unlocalise(text));
}

void fgt_json_put_decimal(struct fgt_json *json, const char *key,
			  uint64_t value, unsigned int decimals)
{
	char text[32];
	uint64_t unit = 1;
	size_t len;

	if (decimals > 9)
		decimals = 9;
	for (unsigned int i = 0; i < decimals; i++)
		unit *= 10;
	len = fgt_json_format_uint(text, value / unit);
	value %= unit;
	if (decimals)
		text[len++] = '.';
	for (unsigned int i = 0; i < decimals; i++) {
		unit /= 10;
		text[len++] = (char)('0' + value / unit);
		value %= unit;
	}
	fgt_json_put_raw(json, key, text, len);
}

void fgt_json_put_uint_string(struct fgt_json *json, const char *key,
			      uint64_t value)
{
	char text[22] = "\"";
	size_t len = 1 + fgt_json_format_uint(text + 1, value);

	text[len++] = '"';
	fgt_json_put_raw(json, key, text, len);
}

void fgt_json_put_hex_string(struct fgt_json *json, const char *key,
			     uint64_t value)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "\"0x%llx\"",
			   (unsigned long long)value);

	fgt_json_put_raw(json, key, text, (size_t)len);
}

void fgt_json_put_handle(struct fgt_json *json, const char *key, char kind,
			 uint32_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "\"%c-%u\"", kind, number);

	fgt_json_put_raw(json, key, text, (size_t)len);
}

void fgt_json_put_base64(struct fgt_json *json, const char *key,
			 const uint8_t *bytes, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";

	begin_value(json, key);
	put_char(json, '"');
	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)bytes[i] << 16;
		char group[4];

		if (i + 1 < len)
			bits |= (uint32_t)bytes[i + 1] << 8;
		if (i + 2 < len)
			bits |= bytes[i + 2];
		group[0] = digits[bits >> 18];
		group[1] = digits[bits >> 12 & 63];
		group[2] = i + 1 < len ? digits[bits >> 6 & 63] : '=';
		group[3] = i + 2 < len ? digits[bits & 63] : '=';
		put(json, group, sizeof(group));
	}
	put_char(json, '"');
}

void fgt_json_put_time(struct fgt_json *json, const char *key, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[96];
	int len;

	gmtime_r(&seconds, &tm); /* 2^64 ns end in the year 2554 */
	len = snprintf(
		text, sizeof(text), "\"%04d-%02d-%02dT%02d:%02d:%02d.%09uZ\"",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
		tm.tm_min, tm.tm_sec, (unsigned int)(wall_ns % 1000000000));
	fgt_json_put_raw(json, key, text, (size_t)len);
}

void fgt_json_newline(struct fgt_json *json)
{
	json->has_newline = true;
}
