/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and writes what was discarded. Any thread.
 */
#include "upload/deliver/sentry_report.h"

#define REASON_TEXT(id, name) name,
static const char *const REASONS[] = { FGT_DISCARD_REASONS(REASON_TEXT) };

bool fgt_sentry_discards_are_any(const struct fgt_sentry_discards *discards)
{
	for (int reason = 0; reason < FGT_DISCARD_COUNT; reason++)
		for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
			if (discards->counts[reason][i])
				return true;
	return false;
}

void fgt_sentry_discards_add(struct fgt_sentry_discards *discards,
			     const struct fgt_sentry_discards *more)
{
	for (int reason = 0; reason < FGT_DISCARD_COUNT; reason++)
		for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
			discards->counts[reason][i] += more->counts[reason][i];
}

static void put_count(struct fgt_json *json, const char *reason,
		      const char *category, uint32_t count)
{
	if (!count)
		return;
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "reason", reason);
	fgt_json_put_string(json, "category", category);
	fgt_json_put_uint(json, "quantity", count);
	fgt_json_end_object(json);
}

int fgt_sentry_report_put(void *context, struct fgt_json *json)
{
	const struct fgt_sentry_report *report = context;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_time(json, "timestamp", report->wall_ns);
	fgt_json_begin_array(json, "discarded_events");
	for (int reason = 0; reason < FGT_DISCARD_COUNT; reason++)
		for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
			put_count(
				json, REASONS[reason],
				fgt_category_name((enum fgt_sentry_category)i),
				report->discards->counts[reason][i]);
	fgt_json_end_array(json);
	fgt_json_end_object(json);
	return 0;
}
