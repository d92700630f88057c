/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a daemon's replies. Nothing in a reply is trusted: what is missing
 * shows as 0 or "?", and no text moves the cursor.
 */
#include "agent/cli/output/target_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/cli/complaint.h"
#include "agent/cli/summary/summary.h"
#include "agent/protocol/message.h"
#include "ringbuf/base/clock.h"

static uint64_t number(const struct fgt_message *message, const char *key)
{
	uint64_t value = 0;

	(void)fgt_message_get_uint(message, key, &value);
	return value;
}

static double fraction(const struct fgt_message *message, const char *key)
{
	double value = 0;

	(void)fgt_message_get_double(message, key, &value);
	return value;
}

static bool truth(const struct fgt_message *message, const char *key)
{
	bool value = false;

	(void)fgt_message_get_bool(message, key, &value);
	return value;
}

static const char *text(const struct fgt_message *message, const char *key)
{
	const char *value = "?";

	(void)fgt_message_get_string(message, key, &value);
	return value;
}

void fgt_print_target_names(const struct fgt_message *reply, const char *what)
{
	struct fgt_message_array targets = { .count = 0 }, rules = targets;
	struct fgt_message target, rule;

	(void)fgt_message_get_array(reply, "targets", &targets);
	while (fgt_message_next(&targets, &target) == 0) {
		printf("%s %" PRIu64 " ", what, number(&target, "pid"));
		fgt_print_text(stdout, text(&target, "name"), 64);
		putchar('\n');
	}
	(void)fgt_message_get_array(reply, "rules", &rules);
	while (fgt_message_next(&rules, &rule) == 0) {
		printf("%s processes that start later, named ", what);
		fgt_print_text(stdout, text(&rule, "name"), 64);
		putchar('\n');
	}
}

static void print_rules(const struct fgt_message *reply)
{
	struct fgt_message_array rules = { .count = 0 };
	struct fgt_message rule;

	(void)fgt_message_get_array(reply, "rules", &rules);
	while (fgt_message_next(&rules, &rule) == 0) {
		fputs("attached when it starts: ", stdout);
		fgt_print_text(stdout, text(&rule, "name"), 64);
		printf("%s (by user %" PRIu64 ")\n",
		       truth(&rule, "with_children") ? " with children" : "",
		       number(&rule, "uid"));
	}
}

/* What the ring holds of its 30 s, as time. */
static double held_seconds(const struct fgt_message *target)
{
	uint64_t oldest_ns = number(target, "oldest_ns");
	uint64_t newest_ns = number(target, "newest_ns");

	return newest_ns > oldest_ns ? (double)(newest_ns - oldest_ns) / 1e9
				     : 0;
}

/* "?": an agent that does not know of it. */
static void print_note(const char *note)
{
	if (!note[0] || note[0] == '?')
		return;
	fputs("          ", stdout);
	fgt_print_text(stdout, note, 300);
	putchar('\n');
}

static void print_brief(const struct fgt_message *target)
{
	char note[FGT_BRIEF_TEXT_MAX];

	print_note(fgt_brief_text(number(target, "brief_threads"),
				  number(target, "brief_cpu_ns"), note));
}

/* A second may pass before a child is found. */
static void print_children(const struct fgt_message *target)
{
	uint64_t count = number(target, "unsampled_children");
	char note[160];

	if (!count)
		return;
	snprintf(note, sizeof(note),
		 "%" PRIu64 " child process%s ended without being sampled: %s",
		 count, count == 1 ? "" : "es",
		 truth(target, "with_children")
			 ? "they lived for less than a second, or there was "
			   "no room for them"
			 : "attach it with --children to have those that live "
			   "for a second or more");
	print_note(note);
}

static void print_missed(const struct fgt_message *target)
{
	char note[FGT_MISSED_TEXT_MAX];

	print_note(fgt_missed_text(number(target, "ticks"),
				   number(target, "missed_ticks"), note));
}

/* Of the day, as --from takes it; the date where that is not today. */
static void print_instant(uint64_t mono_ns)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	uint64_t ago_ns = now_ns > mono_ns ? now_ns - mono_ns : 0;
	time_t now_s = time(NULL);
	time_t at_s = now_s - (time_t)(ago_ns / 1000000000u);
	struct tm at, today;
	char instant[40] = "?";

	if (localtime_r(&at_s, &at) && localtime_r(&now_s, &today))
		strftime(instant, sizeof(instant),
			 at.tm_year == today.tm_year &&
					 at.tm_yday == today.tm_yday
				 ? "%H:%M:%S"
				 : "%Y-%m-%d %H:%M:%S",
			 &at);
	fputs(instant, stdout);
}

/* "since 14:03:07", "14:03:07 to 14:05:00, ended by SIGSEGV" */
static void print_times(const struct fgt_message *target)
{
	uint64_t ended_ns = number(target, "ended_ns");
	const char *ended_by = text(target, "ended_by");

	if (number(target, "attached_ns")) {
		fputs(ended_ns ? "" : "since ", stdout);
		print_instant(number(target, "attached_ns"));
	}
	if (ended_ns) {
		fputs(" to ", stdout);
		print_instant(ended_ns);
	}
	fputs(truth(target, "alive") ? "" : ", ended", stdout);
	if (ended_by[0] != '?') {
		fputs(" by ", stdout);
		fgt_print_text(stdout, ended_by, FGT_ENDED_BY_MAX);
	}
	putchar('\n');
}

/* As deliveries name it; "?": an agent that does not know of it. */
static const char *service_name(const struct fgt_message *target)
{
	struct fgt_message service;

	return fgt_message_get_map(target, "service", &service) == 0
		       ? text(&service, "name")
		       : "?";
}

/* At least 16. */
struct target_columns {
	size_t name, service;
};

static struct target_columns
fit_columns(const struct fgt_message_array *targets)
{
	struct fgt_message_array left = *targets;
	struct target_columns columns = { 16, 16 };
	struct fgt_message target;

	while (fgt_message_next(&left, &target) == 0) {
		fgt_column_fit(stdout, text(&target, "name"), &columns.name);
		fgt_column_fit(stdout, service_name(&target), &columns.service);
	}
	return columns;
}

static void print_target(const struct fgt_message *target,
			 const struct target_columns *columns)
{
	const char *limitation = text(target, "limitation");
	const char *rate_note = text(target, "rate_note");

	printf("%8" PRIu64 "  ", number(target, "pid"));
	fgt_print_padded(stdout, text(target, "name"), columns->name);
	putchar(' ');
	fgt_print_padded(stdout, service_name(target), columns->service);
	printf(" %7" PRIu64 " %7.1f %5.2f %% %7" PRIu64 " %6.1f s %5.1f MiB ",
	       number(target, "threads"), fraction(target, "effective_hz"),
	       fraction(target, "cpu_percent"), number(target, "missed_ticks"),
	       held_seconds(target),
	       (double)number(target, "ring_log_used_bytes") / 1048576);
	if (number(target, "stacks"))
		printf(" %5.1f %%",
		       fgt_percent(number(target, "stacks_complete"),
				   number(target, "stacks")));
	else
		printf("       -");
	fputs("  ", stdout);
	print_times(target);
	print_note(text(target, "title"));
	print_note(limitation);
	print_note(rate_note);
	print_missed(target);
	print_brief(target);
	print_children(target);
}

void fgt_print_target_table(const struct fgt_message *reply)
{
	struct fgt_message_array targets = { .count = 0 };
	struct target_columns columns;
	struct fgt_message target;

	(void)fgt_message_get_array(reply, "targets", &targets);
	columns = fit_columns(&targets);
	if (targets.count == 0)
		puts("no targets: attach one with 'fgtrace-agent attach "
		     "PID|NAME'");
	else
		printf("     pid  %-*s %-*s threads"
		       "      Hz     cpu  missed     held       log  complete"
		       "  sampled\n",
		       (int)columns.name, "name", (int)columns.service,
		       "service");
	while (fgt_message_next(&targets, &target) == 0)
		print_target(&target, &columns);
	print_rules(reply);
}

static void print_capability(const struct fgt_message *reply, const char *label,
			     const char *has, const char *why)
{
	printf("  %-26s ", label);
	if (truth(reply, has))
		fputs("yes", stdout);
	else
		fgt_print_text(stdout, text(reply, why), 300);
	putchar('\n');
}

/* The address has the token where the user may know it. */
static void print_http(const struct fgt_message *reply)
{
	const char *address = text(reply, "http_address");
	const char *url = text(reply, "http_url");

	if (address[0] == '?')
		return;
	fputs("HTTP on ", stdout);
	fgt_print_text(stdout, url[0] != '?' ? url : address, 200);
	putchar('\n');
}

void fgt_print_status(const struct fgt_message *reply)
{
	const char *config = text(reply, "config");
	const char *reload_why = text(reply, "reload_why");

	printf("agent %" PRIu64 ", version ", number(reply, "pid"));
	fgt_print_text(stdout, text(reply, "version"), 40);
	printf(", up %.0f s, user %" PRIu64 ", socket ",
	       (double)number(reply, "uptime_ns") / 1e9, number(reply, "uid"));
	fgt_print_text(stdout, text(reply, "socket"), 120);
	printf("\n%" PRIu64 " Hz, the last %" PRIu64 " s in at most %" PRIu64
	       " MiB a target, %" PRIu64 " of %" PRIu64
	       " MiB in all; configuration ",
	       number(reply, "hz"), number(reply, "ring_seconds"),
	       number(reply, "ring_bytes") >> 20,
	       number(reply, "ring_used_bytes") >> 20,
	       number(reply, "ring_total_bytes") >> 20);
	fgt_print_text(stdout, config[0] ? config : "by default", 200);
	printf("\n%.1f MiB resident, %.1f s of CPU, %" PRIu64
	       " slices served\n",
	       (double)number(reply, "rss_bytes") / 1048576,
	       (double)number(reply, "cpu_ns") / 1e9,
	       number(reply, "slices_served"));
	print_http(reply);
	if (number(reply, "hung_ns")) {
		fgt_print_text(stdout, text(reply, "hung"), 160);
		putchar('\n');
	}
	if (number(reply, "image_rules_refused") ||
	    number(reply, "image_files_refused"))
		printf("no room for unwind rules %" PRIu64
		       " times, for open files %" PRIu64
		       " times: stacks were cut short\n",
		       number(reply, "image_rules_refused"),
		       number(reply, "image_files_refused"));
	if (number(reply, "reload_failed") && reload_why[0]) {
		fputs("the last reload failed: ", stdout);
		fgt_print_text(stdout, reload_why, 300);
		putchar('\n');
	}
	puts("may use");
	print_capability(reply, "BPF, context switches", "has_bpf", "bpf_why");
	print_capability(reply, "perf events, per CPU", "has_perf_cpu",
			 "perf_cpu_why");
	print_capability(reply, "perf events, per thread", "has_perf_thread",
			 "perf_thread_why");
	print_capability(reply, "ptrace", "has_ptrace", "ptrace_why");
	fgt_print_destinations(reply);
	fgt_print_target_table(reply);
}

int fgt_print_json(const char *verb, const struct fgt_message *reply)
{
	const struct fgt_sink sink = { fgt_file_write, stdout };

	(void)fgt_message_to_json(reply, &sink);
	putchar('\n');
	return fgt_finish_stdout(verb);
}
