/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the daemon's log. Runs in any thread of the daemon, the sampler's
 * included; must not block on stderr, must not allocate.
 */
#include "agent/daemon/loop/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/hash.h"
#include "ringbuf/base/json.h"
#include "ringbuf/base/utf8.h"

#define BURST	     50 /* lines */
#define LINES_PER_S  10
#define MESSAGE_MAX  600 /* times 6 still fits a line */
#define BUCKETS	     61
#define LINE_MAX_LEN 4000 /* below PIPE_BUF: lines never mix */

static const char *const level_names[FGT_LOG_LEVEL_COUNT] = { "error",
							      "warning", "info",
							      "debug" };

/* The lock protects everything below; nothing nests inside it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum fgt_log_level threshold = FGT_LOG_INFO;
static bool is_json;
static int log_fd = STDERR_FILENO;

/* A token bucket for each event, so that chatter of one never hides another;
 * events are few words of this program, some may share one. */
static struct bucket {
	double tokens;
	double refilled_s; /* CLOCK_MONOTONIC */
	uint64_t left_out;
} buckets[BUCKETS];

struct log_line {
	char text[LINE_MAX_LEN];
	size_t len;
};

static int append(void *context, const void *bytes, size_t len)
{
	struct log_line *line = context;

	if (len > sizeof(line->text) - line->len)
		return -ENOSPC;
	memcpy(line->text + line->len, bytes, len);
	line->len += len;
	return 0;
}

static void append_text(struct log_line *line, const char *text)
{
	(void)append(line, text, strlen(text));
}

void fgt_log_set(const char *level, const char *format)
{
	pthread_mutex_lock(&lock);
	threshold = FGT_LOG_INFO;
	for (int i = 0; level && i < FGT_LOG_LEVEL_COUNT; i++)
		if (strcmp(level, level_names[i]) == 0)
			threshold = (enum fgt_log_level)i;
	is_json = format && strcmp(format, "json") == 0;
	pthread_mutex_unlock(&lock);
}

void fgt_log_set_fd(int fd)
{
	pthread_mutex_lock(&lock);
	log_fd = fd;
	memset(buckets, 0, sizeof(buckets));
	pthread_mutex_unlock(&lock);
}

static bool take_token(struct bucket *bucket)
{
	double now_s = 1e-9 * (double)fgt_clock_ns(CLOCK_MONOTONIC);

	if (bucket->refilled_s == 0)
		bucket->tokens = BURST;
	else
		bucket->tokens += (now_s - bucket->refilled_s) * LINES_PER_S;
	if (bucket->tokens > BURST)
		bucket->tokens = BURST;
	bucket->refilled_s = now_s;
	if (bucket->tokens < 1)
		return false;
	bucket->tokens -= 1;
	return true;
}

static void format_time(char text[40])
{
	struct timespec now;
	struct tm utc;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + len, 40 - len, ".%03ldZ", now.tv_nsec / 1000000);
}

static void append_json(struct log_line *line, const char *when,
			const char *level, const char *event,
			const char *message, uint64_t left_out)
{
	const struct fgt_sink sink = { append, line };
	struct fgt_json json;

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_string(&json, "time", when);
	fgt_json_put_string(&json, "level", level);
	fgt_json_put_string(&json, "event", event);
	fgt_json_put_string(&json, "message", message);
	if (left_out > 0)
		fgt_json_put_uint(&json, "left_out", left_out);
	fgt_json_end_object(&json);
	/* Cannot fail: MESSAGE_MAX bytes become six times as many at most. */
	(void)fgt_json_finish(&json);
}

/* A quoted value of logfmt: escapes quotes, backslashes and controls, and
 * replaces what is not UTF-8. */
static void append_quoted(struct log_line *line, const char *text)
{
	size_t len = strlen(text), wide;
	char escape[8];

	append_text(line, "\"");
	for (; len > 0; text += wide, len -= wide) {
		unsigned char c = (unsigned char)*text;

		wide = c < 0x80 ? 1 : fgt_utf8_len(text, len);
		if (wide == 0) {
			append_text(line, FGT_UTF8_REPLACEMENT);
			wide = 1;
		} else if (c < 0x20 || c == 0x7f) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			append_text(line, escape);
		} else {
			if (c == '"' || c == '\\')
				append_text(line, "\\");
			(void)append(line, text, wide);
		}
	}
	append_text(line, "\"");
}

static void append_logfmt(struct log_line *line, const char *when,
			  const char *level, const char *event,
			  const char *message, uint64_t left_out)
{
	char text[160];

	snprintf(text, sizeof(text), "time=%s level=%s event=%s message=", when,
		 level, event);
	append_text(line, text);
	append_quoted(line, message);
	if (left_out == 0)
		return;
	snprintf(text, sizeof(text), " left_out=%llu",
		 (unsigned long long)left_out);
	append_text(line, text);
}

/* False: stderr has no room now. */
static bool write_line(const char *level, const char *event,
		       const char *message, uint64_t left_out)
{
	struct pollfd poll_fd = { .fd = log_fd, .events = POLLOUT };
	struct log_line line;
	char when[40];

	line.len = 0;
	format_time(when);
	if (is_json)
		append_json(&line, when, level, event, message, left_out);
	else
		append_logfmt(&line, when, level, event, message, left_out);
	append_text(&line, "\n");
	if (poll(&poll_fd, 1, 0) != 1 || !(poll_fd.revents & POLLOUT))
		return false;
	return write(log_fd, line.text, line.len) == (ssize_t)line.len;
}

void fgt_log(enum fgt_log_level level, const char *event, const char *format,
	     ...)
{
	struct bucket *bucket =
		&buckets[fgt_hash_bytes(event, strlen(event)) % BUCKETS];
	int saved_errno = errno;
	char message[MESSAGE_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	pthread_mutex_lock(&lock);
	if (level <= threshold) {
		bool is_written = take_token(bucket) &&
				  write_line(level_names[level], event, message,
					     bucket->left_out);

		bucket->left_out = is_written ? 0 : bucket->left_out + 1;
	}
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}
