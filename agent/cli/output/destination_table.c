/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destinations of a status. Runs in the command line's main thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/cli/output/target_table.h"
#include "agent/cli/summary/summary.h"

#define NAME_COLUMNS 16
#define TIME_SIZE    32

static const char *text(const struct fgt_message *message, const char *key)
{
	const char *found = "";

	(void)fgt_message_get_string(message, key, &found);
	return found;
}

static uint64_t number(const struct fgt_message *message, const char *key)
{
	uint64_t found = 0;

	(void)fgt_message_get_uint(message, key, &found);
	return found;
}

/* Local time; "never" for 0. */
static const char *moment(uint64_t wall_ns, char ret_text[TIME_SIZE])
{
	const time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm local;

	strcpy(ret_text, "never");
	if (wall_ns && localtime_r(&seconds, &local))
		strftime(ret_text, TIME_SIZE, "%Y-%m-%d %H:%M:%S", &local);
	return ret_text;
}

/* "; dropped: 3 unreachable, 1 queue_full", or nothing. The keys are the prefix
 * and a reason. */
static void print_dropped(const struct fgt_message *message, const char *prefix,
			  const char *const *reasons, size_t reason_count)
{
	const char *before = "; dropped: ";
	char key[64];

	for (size_t i = 0; i < reason_count; i++) {
		uint64_t count;

		snprintf(key, sizeof(key), "%s%s", prefix, reasons[i]);
		count = number(message, key);
		if (!count)
			continue;
		printf("%s%" PRIu64 " %s", before, count, reasons[i]);
		before = ", ";
	}
}

/* True if it prints a reason. */
static bool print_unusable(const char *why)
{
	if (!*why)
		return false;
	fputs("    cannot be used: ", stdout);
	fgt_print_text(stdout, why, 300);
	putchar('\n');
	return true;
}

static void print_last_error(uint64_t wall_ns, const char *why)
{
	char when[TIME_SIZE];

	if (!wall_ns)
		return;
	printf("    last error %s: ", moment(wall_ns, when));
	fgt_print_text(stdout, why, 300);
	putchar('\n');
}

static void print_error(const struct fgt_message *destination)
{
	uint64_t next_ns = number(destination, "next_try_in_ns");

	if (print_unusable(text(destination, "unusable")))
		puts("    nothing is sent to it until the configuration is "
		     "reloaded");
	else
		print_last_error(number(destination, "last_error_ns"),
				 text(destination, "last_error"));
	if (next_ns)
		printf("    next try in %.0f s\n", (double)next_ns / 1e9);
}

static void print_destination(const struct fgt_message *destination)
{
	static const char *const reasons[] = { "refused",      "too_large",
					       "rejected",     "unreachable",
					       "rate_limited", "queue_full",
					       "no_data",      "leaving" };
	char when[TIME_SIZE];

	fputs("  ", stdout);
	fgt_print_padded(stdout, text(destination, "name"), NAME_COLUMNS);
	putchar(' ');
	fgt_print_text(stdout, text(destination, "where"), 120);
	printf("\n    %" PRIu64
	       " delivered by the agent, the last one %s; %" PRIu64 " queued",
	       number(destination, "delivered"),
	       moment(number(destination, "last_success_ns"), when),
	       number(destination, "queued"));
	if (number(destination, "spooled"))
		printf("; %" PRIu64 " in the spool, %" PRIu64 " bytes",
		       number(destination, "spooled"),
		       number(destination, "spooled_bytes"));
	print_dropped(destination, "dropped_", reasons,
		      sizeof(reasons) / sizeof(reasons[0]));
	putchar('\n');
	print_error(destination);
}

static void print_spool(const struct fgt_message *reply)
{
	static const char *const reasons[] = { "full",	  "disk_full",
					       "old",	  "damaged",
					       "removed", "unwritten" };
	uint64_t unwritten = number(reply, "spool_unwritten");

	fputs("spool      ", stdout);
	fgt_print_text(stdout, text(reply, "spool_dir"), 200);
	printf(": %" PRIu64 " wait, %" PRIu64 " bytes",
	       number(reply, "spool_entries"), number(reply, "spool_bytes"));
	if (number(reply, "spool_entries"))
		printf(", the oldest for %.0f s",
		       (double)number(reply, "spool_oldest_ns") / 1e9);
	if (unwritten)
		printf("; %" PRIu64 " not on the disk yet", unwritten);
	print_dropped(reply, "spool_dropped_", reasons,
		      sizeof(reasons) / sizeof(reasons[0]));
	putchar('\n');
	if (!print_unusable(text(reply, "spool_unusable")))
		print_last_error(number(reply, "spool_last_error_ns"),
				 text(reply, "spool_last_error"));
}

void fgt_print_destinations(const struct fgt_message *reply)
{
	struct fgt_message_array all = { .count = 0 };
	struct fgt_message destination;

	(void)fgt_message_get_array(reply, "destinations", &all);
	if (all.count)
		puts("destinations");
	while (fgt_message_next(&all, &destination) == 0)
		print_destination(&destination);
	if (*text(reply, "spool_dir"))
		print_spool(reply);
}
