/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the headers of rate limits. Any thread; must check each number: servers
 * send signs, overflows, fractions and other text.
 */
#include "upload/deliver/ratelimit.h"

#include <ctype.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* The categories of the envelopes here; "" stands for all. */
static const char *const OUR_CATEGORIES[] = {
	"",
	"transaction",
	"transaction_indexed",
	"profile",
	"profile_indexed",
	"profile_backend",
	"profile_duration",
};

static unsigned int clamp(uint64_t seconds)
{
	if (seconds < 1)
		return 1;
	return seconds < FGT_RATELIMIT_MAX_S ? (unsigned int)seconds
					     : FGT_RATELIMIT_MAX_S;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/*
 * A number of seconds, rounded up; negative is 0. *ret_end is behind it and
 * its blanks. False if there is none.
 */
static bool read_seconds(const char *text, uint64_t *ret_seconds,
			 const char **ret_end)
{
	bool is_negative;
	uint64_t seconds = 0;
	bool is_fraction = false;

	text = skip_blanks(text);
	is_negative = *text == '-';
	text += is_negative;
	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (seconds <= FGT_RATELIMIT_MAX_S)
			seconds = seconds * 10 + (uint64_t)(*text - '0');
	if (*text == '.')
		for (text++; isdigit((unsigned char)*text); text++)
			is_fraction |= *text != '0';
	*ret_seconds = is_negative ? 0 : seconds + is_fraction;
	*ret_end = skip_blanks(text);
	return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT"; 0 if it is not such a date. In English,
 * whatever the program's language is. */
static int64_t read_date(const char *text)
{
	locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	struct tm date = { .tm_mday = 0 };
	const char *end =
		strptime_l(text, " %a, %d %b %Y %H:%M:%S GMT ", &date, english);

	freelocale(english);
	return end && !*end ? timegm(&date) : 0;
}

unsigned int fgt_ratelimit_retry_after(const char *header, int64_t now_s)
{
	uint64_t seconds;
	const char *end;
	int64_t date;

	if (read_seconds(header, &seconds, &end) && !*end)
		return *skip_blanks(header) == '-' ? FGT_RATELIMIT_DEFAULT_S
						   : clamp(seconds);
	date = read_date(header);
	if (date > now_s)
		return clamp((uint64_t)(date - now_s));
	return FGT_RATELIMIT_DEFAULT_S;
}

static bool is_our_category(const char *name, size_t len)
{
	const size_t count = sizeof(OUR_CATEGORIES) / sizeof(*OUR_CATEGORIES);

	for (size_t i = 0; i < count; i++)
		if (strlen(OUR_CATEGORIES[i]) == len &&
		    !strncmp(OUR_CATEGORIES[i], name, len))
			return true;
	return false;
}

/* category;category…, up to the next : or , */
static bool is_for_us(const char *categories)
{
	for (;;) {
		size_t len;

		categories = skip_blanks(categories);
		len = strcspn(categories, ";:, \t");
		if (is_our_category(categories, len))
			return true;
		categories = skip_blanks(categories + len);
		if (*categories != ';')
			return false;
		categories++;
	}
}

unsigned int fgt_ratelimit_sentry(const char *header)
{
	unsigned int longest = 0;
	uint64_t seconds;
	const char *end;

	while (*header) {
		if (read_seconds(header, &seconds, &end) && *end == ':' &&
		    is_for_us(end + 1) && seconds && clamp(seconds) > longest)
			longest = clamp(seconds);
		header += strcspn(header, ",");
		header += *header == ',';
	}
	return longest;
}
