/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps lines for the program's log call. Runs in any thread; the call itself
 * runs without a lock on the library's worker, or in a fgt_start() that fails.
 */
#include "agent/lib/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/hash.h"

#define LINES_MAX  16
#define LINE_BYTES 256
#define CAUSES_MAX 128 /* logged since the start; further ones are dropped */
#define MUTE_NS	   UINT64_C(1000000000) /* limit of the wait for a call */

static struct {
	/* Protects all members. Innermost. */
	pthread_mutex_t lock;
	char lines[LINES_MAX][LINE_BYTES];
	unsigned int line_count;
	uint64_t causes[CAUSES_MAX];
	unsigned int cause_count;
	bool is_mute; /* log nothing */
	bool is_logging; /* the log call runs, on this thread: */
	pthread_t logger;
	pthread_cond_t logged; /* with CLOCK_MONOTONIC */
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER,
	   .logged = PTHREAD_COND_INITIALIZER };

static uint64_t hash(const char *text)
{
	return fgt_hash_bytes(text, strlen(text));
}

/* Under the lock. */
static bool is_new(uint64_t cause)
{
	for (unsigned int i = 0; i < kept.cause_count; i++)
		if (kept.causes[i] == cause)
			return false;
	if (kept.cause_count == CAUSES_MAX)
		return false;
	kept.causes[kept.cause_count++] = cause;
	return true;
}

/* cause 0: log each time. False: not kept. */
static bool keep(uint64_t cause, const char *line)
{
	bool is_kept;

	pthread_mutex_lock(&kept.lock);
	is_kept = !kept.is_mute && kept.line_count < LINES_MAX &&
		  (!cause || is_new(cause));
	if (is_kept)
		snprintf(kept.lines[kept.line_count++], LINE_BYTES, "%s", line);
	pthread_mutex_unlock(&kept.lock);
	return is_kept;
}

void fgt_report(const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	(void)keep(hash(format), line);
}

bool fgt_report_each(const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	return keep(0, line);
}

void fgt_report_line(void *context, const char *line)
{
	(void)context;
	(void)keep(hash(line), line);
}

/* False: no line is left. Called until then by the thread that logs. */
static bool take_first(char *ret_line, size_t size)
{
	bool is_anothers, has_line;

	pthread_mutex_lock(&kept.lock);
	is_anothers = kept.is_logging &&
		      !pthread_equal(kept.logger, pthread_self());
	has_line = kept.line_count > 0 && !kept.is_mute && !is_anothers;
	if (!has_line && kept.is_logging && !is_anothers)
		pthread_cond_broadcast(&kept.logged);
	if (!is_anothers) {
		kept.is_logging = has_line;
		kept.logger = pthread_self();
	}
	if (has_line) {
		memcpy(ret_line, kept.lines[0], size);
		kept.line_count--;
		memmove(kept.lines[0], kept.lines[1],
			kept.line_count * sizeof(kept.lines[0]));
	}
	pthread_mutex_unlock(&kept.lock);
	return has_line;
}

void fgt_report_all(const struct fgt_options *options)
{
	char line[sizeof(kept.lines[0])];

	while (take_first(line, sizeof(line)))
		if (options->log)
			options->log(options->context, line);
}

void fgt_report_mute(void)
{
	uint64_t until_ns = fgt_now() + MUTE_NS;
	const struct timespec until = fgt_timespec_of(until_ns);

	pthread_mutex_lock(&kept.lock);
	kept.is_mute = true;
	while (kept.is_logging && !pthread_equal(kept.logger, pthread_self()) &&
	       pthread_cond_clockwait(&kept.logged, &kept.lock, CLOCK_MONOTONIC,
				      &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&kept.lock);
}

void fgt_report_reset(void)
{
	pthread_mutex_lock(&kept.lock);
	kept.line_count = kept.cause_count = 0;
	pthread_mutex_unlock(&kept.lock);
}

void fgt_report_unmute(void)
{
	pthread_mutex_lock(&kept.lock);
	kept.cause_count = 0;
	kept.is_mute = false;
	pthread_mutex_unlock(&kept.lock);
}

void fgt_report_forked(void)
{
	pthread_mutex_init(&kept.lock, NULL);
	pthread_cond_init(&kept.logged, NULL);
	kept.line_count = kept.cause_count = 0;
	kept.is_logging = false;
}
