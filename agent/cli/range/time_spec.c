/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time grammar of --from and --to, and durations.
 * Pure: clocks are passed in; only the time zone is read from outside.
 * Every sum saturates: no text makes an instant wrap around.
 */
#include "agent/cli/range/time_spec.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define SECOND_NS      1000000000ull
#define TEXT_MAX       64
#define DAYS_TO_SEARCH 8 /* back, for an hour that a DST change left out */
/* A bare number below this (1973) is taken for a forgotten '-'. */
#define EPOCH_SMALL_S 100000000ull
/* A bare number from here on (the year 10000) is not in seconds. */
#define EPOCH_LARGE_S 253402300800ull

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "", SECOND_NS },
	{ "s", SECOND_NS },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
	{ "m", 60 * SECOND_NS },
	{ "h", 3600 * SECOND_NS },
};

struct clock_face {
	unsigned int hour, minute, second;
	uint64_t fraction_ns;
};

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t subtract_to_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t multiply_saturated(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static int bad_time(const char *text, struct fgt_why *why)
{
	return fgt_why_set(why, -EINVAL,
			   "'%.*s' is not a time; write -10s, now, +5s, "
			   "14:03, 14:03:07.5, \"2026-11-21 14:03:07\", "
			   "2026-11-21T14:03:07Z, 1763719200.25 or "
			   "m:NANOSECONDS",
			   TEXT_MAX, text);
}

static int bad_duration(const char *text, struct fgt_why *why)
{
	return fgt_why_set(why, -EINVAL,
			   "'%.*s' is not a duration; write 5s, 1500ms, 2m, "
			   "0.5s or 10 (seconds; units ns us ms s m h)",
			   TEXT_MAX, text);
}

static bool skip_one_of(const char **cursor, const char *set)
{
	if (**cursor == '\0' || !strchr(set, **cursor))
		return false;
	++*cursor;
	return true;
}

/* Digits after a point, as a share of unit_ns; what is finer is cut off. */
static uint64_t read_fraction(const char **cursor, uint64_t unit_ns)
{
	uint64_t ns = 0;

	for (; isdigit((unsigned char)**cursor); ++*cursor) {
		unit_ns /= 10;
		ns += unit_ns * (uint64_t)(**cursor - '0');
	}
	return ns;
}

/* "12.5" or "12" or ".5" × unit_ns; false if there is no number. */
static bool read_number(const char **cursor, uint64_t unit_ns, uint64_t *ret_ns)
{
	const char *start = *cursor;
	uint64_t whole = 0;

	for (; isdigit((unsigned char)**cursor); ++*cursor)
		whole = add_saturated(multiply_saturated(whole, 10),
				      (uint64_t)(**cursor - '0'));
	whole = multiply_saturated(whole, unit_ns);
	if (skip_one_of(cursor, ".")) {
		if (!isdigit((unsigned char)**cursor))
			return false;
		whole = add_saturated(whole, read_fraction(cursor, unit_ns));
	}
	*ret_ns = whole;
	return *cursor != start;
}

/* A number with one of the units, to the end of the text. */
static bool read_amount(const char *text, uint64_t *ret_ns)
{
	const char *unit = text + strspn(text, "0123456789.");

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].name) == 0)
			return read_number(&text, units[i].ns, ret_ns) &&
			       text == unit;
	}
	return false;
}

/* Exactly `digits` digits, at most max. */
static bool read_field(const char **cursor, int digits, unsigned int max,
		       unsigned int *ret_value)
{
	unsigned int value = 0;

	for (int i = 0; i < digits; i++, ++*cursor) {
		if (!isdigit((unsigned char)**cursor))
			return false;
		value = value * 10 + (unsigned int)(**cursor - '0');
	}
	*ret_value = value;
	return value <= max;
}

/* "HH:MM[:SS[.fff]]", the fraction behind a point or a comma, as logs have it.
 * second_max is 60 where leap seconds may be written. */
static bool read_clock_face(const char **cursor, unsigned int second_max,
			    struct clock_face *ret_face)
{
	struct clock_face face = { 0 };

	if (!read_field(cursor, 2, 23, &face.hour) ||
	    !skip_one_of(cursor, ":") ||
	    !read_field(cursor, 2, 59, &face.minute))
		return false;
	if (!skip_one_of(cursor, ":")) {
		*ret_face = face;
		return true;
	}
	if (!read_field(cursor, 2, second_max, &face.second))
		return false;
	if (skip_one_of(cursor, ".,")) {
		if (!isdigit((unsigned char)**cursor))
			return false;
		face.fraction_ns = read_fraction(cursor, SECOND_NS);
	}
	*ret_face = face;
	return true;
}

/* "YYYY-MM-DD", of the proleptic Gregorian calendar. */
static bool read_date(const char **cursor, struct tm *ret_date)
{
	unsigned int year, month, day;
	struct tm date;

	if (!read_field(cursor, 4, 9999, &year) || !skip_one_of(cursor, "-") ||
	    !read_field(cursor, 2, 12, &month) || !skip_one_of(cursor, "-") ||
	    !read_field(cursor, 2, 31, &day))
		return false;
	date = (struct tm){ .tm_year = (int)year - 1900,
			    .tm_mon = (int)month - 1,
			    .tm_mday = (int)day };
	*ret_date = date;
	/* timegm() turns a day that does not exist into another month's. */
	(void)timegm(&date);
	return date.tm_mon == ret_date->tm_mon;
}

/* "Z", "+02:00" or "+0200" to the end of the text → seconds east of
 * Greenwich. */
static bool read_offset(const char *cursor, int64_t *ret_offset_s)
{
	unsigned int hours, minutes;
	int64_t sign = *cursor == '-' ? -1 : 1;

	if ((*cursor == 'Z' || *cursor == 'z') && cursor[1] == '\0') {
		*ret_offset_s = 0;
		return true;
	}
	if (!skip_one_of(&cursor, "+-") || !read_field(&cursor, 2, 23, &hours))
		return false;
	(void)skip_one_of(&cursor, ":");
	if (!read_field(&cursor, 2, 59, &minutes) || *cursor != '\0')
		return false;
	*ret_offset_s = sign * (int64_t)(hours * 3600 + minutes * 60);
	return true;
}

static uint64_t to_ns(int64_t seconds, uint64_t fraction_ns)
{
	if (seconds < 0)
		return 0;
	return add_saturated(multiply_saturated((uint64_t)seconds, SECOND_NS),
			     fraction_ns);
}

static void set_face(struct tm *day, const struct clock_face *face)
{
	day->tm_hour = (int)face->hour;
	day->tm_min = (int)face->minute;
	day->tm_sec = (int)face->second;
}

/*
 * The last instant at or before limit_s when local clocks of that day showed
 * the face: twice a year there are two such instants in a day, or none.
 */
static bool find_on_day(const struct tm *day, const struct clock_face *face,
			time_t limit_s, time_t *ret_s)
{
	bool is_found = false;

	for (int is_dst = -1; is_dst <= 1; is_dst++) {
		struct tm broken = *day, check;
		time_t candidate;

		set_face(&broken, face);
		broken.tm_isdst = is_dst;
		candidate = mktime(&broken);
		if (!localtime_r(&candidate, &check) ||
		    check.tm_hour != (int)face->hour ||
		    check.tm_min != (int)face->minute ||
		    check.tm_sec != (int)face->second || candidate > limit_s)
			continue;
		if (!is_found || candidate > *ret_s)
			*ret_s = candidate;
		is_found = true;
	}
	return is_found;
}

/*
 * "2026-11-21T14:03:07.5Z", or a blank instead of T and one before the zone;
 * with the first blank also without zone, as logs write it: local time.
 */
static int read_dated(const char *text, const struct fgt_now *now,
		      struct fgt_time *time, struct fgt_why *why)
{
	time_t now_s = (time_t)(now->wall_ns / SECOND_NS), local_s;
	const char *cursor = text;
	struct clock_face face;
	struct tm date;
	int64_t offset_s;
	bool is_spaced;

	if (!read_date(&cursor, &date))
		return bad_time(text, why);
	is_spaced = *cursor == ' ';
	if (!skip_one_of(&cursor, "Tt ") ||
	    !read_clock_face(&cursor, 60, &face))
		return bad_time(text, why);
	if (*cursor == '\0' && !is_spaced)
		return fgt_why_set(why, -EINVAL,
				   "'%s' has no time zone; append Z or an "
				   "offset such as +02:00",
				   text);
	if (*cursor == '\0') {
		if (!find_on_day(&date, &face, now_s, &local_s) &&
		    !find_on_day(&date, &face, INT64_MAX, &local_s))
			return fgt_why_set(why, -EINVAL,
					   "'%s' was skipped by local clocks; "
					   "append Z or an offset such as "
					   "+02:00",
					   text);
		time->form = FGT_TIME_LOCAL;
		time->ns = to_ns(local_s, face.fraction_ns);
		return 0;
	}
	(void)skip_one_of(&cursor, " ");
	if (!read_offset(cursor, &offset_s))
		return bad_time(text, why);
	set_face(&date, &face);
	time->form = FGT_TIME_ZONED;
	time->ns = to_ns(timegm(&date) - offset_s, face.fraction_ns);
	return 0;
}

static int read_local(const char *text, const struct fgt_now *now,
		      uint64_t *ret_wall_ns, struct fgt_why *why)
{
	const char *cursor = text;
	uint64_t now_in_second_ns = now->wall_ns % SECOND_NS;
	time_t now_s = (time_t)(now->wall_ns / SECOND_NS), found_s;
	struct clock_face face;
	struct tm today;

	if (!read_clock_face(&cursor, 59, &face) || *cursor != '\0' ||
	    !localtime_r(&now_s, &today))
		return bad_time(text, why);
	/* A fraction still to come in this very second was a day ago. */
	if (face.fraction_ns > now_in_second_ns)
		now_s--;
	for (int back = 0; back < DAYS_TO_SEARCH; back++) {
		struct tm day = today;

		day.tm_mday -= back;
		day.tm_hour = 12; /* exists on every day */
		day.tm_isdst = -1;
		mktime(&day);
		if (!find_on_day(&day, &face, now_s, &found_s))
			continue;
		*ret_wall_ns = to_ns(found_s, face.fraction_ns);
		return 0;
	}
	return bad_time(text, why);
}

static int read_epoch(const char *text, const struct fgt_now *now,
		      uint64_t *ret_wall_ns, struct fgt_why *why)
{
	const char *cursor = text;
	uint64_t ns, whole_s;

	if (!read_number(&cursor, SECOND_NS, &ns) || *cursor != '\0')
		return bad_time(text, why);
	whole_s = ns / SECOND_NS;
	if (ns == UINT64_MAX || whole_s >= EPOCH_LARGE_S)
		return fgt_why_set(why, -EINVAL,
				   "'%s' is beyond the year 2500; write epoch "
				   "times in seconds, such as 1763719200.25",
				   text);
	if (whole_s < EPOCH_SMALL_S &&
	    now->wall_ns / SECOND_NS > 10 * EPOCH_SMALL_S)
		return fgt_why_set(why, -EINVAL,
				   "'%s' is a time of 1970 to 1973; write -%s "
				   "for seconds ago",
				   text, text);
	*ret_wall_ns = ns;
	return 0;
}

static int read_monotonic(const char *text, uint64_t *ret_ns,
			  struct fgt_why *why)
{
	const char *cursor = text + strlen("m:");

	if (strspn(cursor, "0123456789") != strlen(cursor) ||
	    !read_number(&cursor, 1, ret_ns))
		return bad_time(text, why);
	return 0;
}

static int read_relative(const char *text, const struct fgt_now *now,
			 uint64_t *ret_ns, struct fgt_why *why)
{
	uint64_t amount_ns;

	if (!read_amount(text + 1, &amount_ns))
		return bad_time(text, why);
	*ret_ns = *text == '-' ? subtract_to_zero(now->mono_ns, amount_ns)
			       : add_saturated(now->mono_ns, amount_ns);
	return 0;
}

int fgt_time_read(const char *text, const struct fgt_now *now,
		  struct fgt_time *ret_time, struct fgt_why *why)
{
	struct fgt_time time = { .form = FGT_TIME_RELATIVE,
				 .ns = now->mono_ns };
	int r = 0;

	if (strlen(text) > TEXT_MAX)
		return bad_time(text, why);
	if (*text == '-' || *text == '+') {
		r = read_relative(text, now, &time.ns, why);
	} else if (strncmp(text, "m:", 2) == 0) {
		time.form = FGT_TIME_MONOTONIC;
		r = read_monotonic(text, &time.ns, why);
	} else if (strspn(text, "0123456789") == 4 && text[4] == '-') {
		r = read_dated(text, now, &time, why);
	} else if (strchr(text, ':')) {
		time.form = FGT_TIME_LOCAL;
		r = read_local(text, now, &time.ns, why);
	} else if (strcmp(text, "now") != 0) {
		time.form = FGT_TIME_EPOCH;
		r = read_epoch(text, now, &time.ns, why);
	}
	if (r == 0)
		*ret_time = time;
	return r;
}

bool fgt_time_is_wall(const struct fgt_time *time)
{
	return time->form != FGT_TIME_RELATIVE &&
	       time->form != FGT_TIME_MONOTONIC;
}

int fgt_duration_parse(const char *text, uint64_t *ret_ns, struct fgt_why *why)
{
	uint64_t ns;

	if (strlen(text) > TEXT_MAX || !read_amount(text, &ns))
		return bad_duration(text, why);
	if (ns == 0)
		return fgt_why_set(why, -EINVAL,
				   "'%s' is too short; give more than 0", text);
	if (ns == UINT64_MAX)
		return fgt_why_set(why, -ERANGE,
				   "'%s' is longer than 584 years; give less",
				   text);
	*ret_ns = ns;
	return 0;
}
