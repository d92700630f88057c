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

/*
 * Names of categories in limits. A chunk costs time of profiles, too; what a
 * server counts by itself (transaction_processed, profile_indexed) does not
 * concern clients.
 */
static const struct {
	const char *name;
	enum fgt_sentry_category category;
} NAMES[] = {
	{ "transaction", FGT_CATEGORY_TRANSACTION },
	{ "profile", FGT_CATEGORY_PROFILE },
	{ "profile_backend", FGT_CATEGORY_PROFILE },
	{ "profile_chunk", FGT_CATEGORY_CHUNK },
	{ "profile_chunk_ui", FGT_CATEGORY_CHUNK },
	{ "profile_duration", FGT_CATEGORY_CHUNK },
	{ "profile_duration_ui", FGT_CATEGORY_CHUNK },
};

#define CATEGORY_TEXT(id, name) name,
static const char *const TEXTS[] = { FGT_SENTRY_CATEGORIES(CATEGORY_TEXT) };

enum fgt_sentry_category fgt_category_of(const char *name)
{
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (strcmp(name, TEXTS[i]) == 0)
			return (enum fgt_sentry_category)i;
	return FGT_CATEGORY_TRANSACTION;
}

const char *fgt_category_name(enum fgt_sentry_category category)
{
	return TEXTS[category];
}

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

static uint32_t mask_of_name(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++)
		if (strlen(NAMES[i].name) == len &&
		    !strncmp(NAMES[i].name, name, len))
			return 1u << NAMES[i].category;
	return 0;
}

/* category;category…, up to the next : or , */
static uint32_t read_categories(const char *at)
{
	uint32_t mask = 0;
	bool is_any = false;

	for (;;) {
		size_t len;

		at = skip_blanks(at);
		len = strcspn(at, ";:, \t");
		is_any |= len > 0;
		mask |= mask_of_name(at, len);
		at = skip_blanks(at + len);
		if (*at != ';')
			return is_any ? mask : ~0u;
		at++;
	}
}

static void extend(struct fgt_ratelimits *limits, uint32_t mask,
		   uint32_t seconds)
{
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (mask & 1u << i && limits->seconds[i] < seconds)
			limits->seconds[i] = seconds;
}

void fgt_ratelimits_read(struct fgt_ratelimits *limits, const char *header)
{
	uint64_t seconds;
	const char *end;

	while (*header) {
		if (read_seconds(header, &seconds, &end) && *end == ':' &&
		    seconds)
			extend(limits, read_categories(end + 1),
			       clamp(seconds));
		header += strcspn(header, ",");
		header += *header == ',';
	}
}

void fgt_ratelimits_merge(struct fgt_ratelimits *limits,
			  const struct fgt_ratelimits *other)
{
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		extend(limits, 1u << i, other->seconds[i]);
}

void fgt_ratelimits_merge_all(struct fgt_ratelimits *limits, uint32_t seconds)
{
	extend(limits, ~0u, seconds);
}

uint32_t fgt_ratelimits_mask(const struct fgt_ratelimits *limits)
{
	uint32_t mask = 0;

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		mask |= limits->seconds[i] ? 1u << i : 0;
	return mask;
}

void fgt_pauses_extend(struct fgt_pauses *pauses,
		       const struct fgt_ratelimits *limits, uint64_t now_ns)
{
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++) {
		uint64_t until_ns =
			now_ns + limits->seconds[i] * UINT64_C(1000000000);

		if (limits->seconds[i] && until_ns > pauses->until_ns[i])
			pauses->until_ns[i] = until_ns;
	}
}

uint32_t fgt_pauses_mask(const struct fgt_pauses *pauses, uint64_t now_ns)
{
	uint32_t mask = 0;

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		mask |= pauses->until_ns[i] > now_ns ? 1u << i : 0;
	return mask;
}
