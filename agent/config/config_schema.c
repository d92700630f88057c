/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys, and lookups in it. Plain data, any thread; must not use
 * libconfig.
 */
#include "agent/config/config_schema.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/nearest.h"
#include "upload/deliver/trusted_file.h"
#include "upload/format/format_list.h"

#define PATH_BYTES	  4095
#define NAME_BYTES	  255
#define SOCKET_BYTES	  107 /* sun_path without its NUL */
#define PID_LIMIT	  4194304 /* the kernel's PID_MAX_LIMIT */
#define TARGETS_MAX	  1024
#define DIRS_MAX	  64
#define HTTP_NAMES_MAX	  8 /* FGT_WEB_NAMES_MAX */
#define DESTINATIONS_MAX  64
#define DESTINATION_BYTES 63
#define URL_BYTES	  2047
#define WORD_BYTES	  50
#define TRANSACTIONS_MAX  8 /* deliveries of one transaction */
#define WORD_MAX	  64 /* longest word compared for hints */
#define TRIGGERS_MAX	  64
#define DELIVER_MAX	  8
#define HOUR_S		  3600

static const char *const SIGNALS[] = { "SIGUSR1", "SIGUSR2", NULL };
static const char *const STATE_FRAMES[] = { "auto", "root", "leaf", "no",
					    NULL };
/* The order is that of enum fgt_provider. */
static const char *const PROVIDERS[] = { "auto", "bpf", "schedstat", NULL };
static const char *const HTTP_TOKENS[] = { "auto", "off", NULL };
/* The order is that of enum fgt_sentry_version. */
static const char *const SENTRY_VERSIONS[] = { "v2", "v1", NULL };
static const char *const DEMANGLE[] = { "full", "name", "no", NULL };
static const char *const KINDS[] = { "http", "pyroscope", "pyroscope-push",
				     "otlp", NULL };
#define FORMAT_NAME(id, name, ...) name,
static const char *const FORMATS[] = { FGT_FORMAT_LIST(FORMAT_NAME) NULL };
static const char *const METHODS[] = { "PUT", "POST", NULL };
static const char *const SHAPES[] = { "timestamps", "sum", NULL };
static const char *const LOG_LEVELS[] = { "error", "warning", "info", "debug",
					  NULL };
static const char *const LOG_FORMATS[] = { "logfmt", "json", NULL };

/* clang-format off */
#define AT(member) .offset = offsetof(struct fgt_config, member)
#define COUNT_AT(member) .count_offset = offsetof(struct fgt_config, member)
#define TARGET_AT(member) .offset = offsetof(struct fgt_config_target, member)
#define DEST_AT(member) .offset = offsetof(struct fgt_destination_settings, member)
#define TRIGGER_AT(member) .offset = offsetof(struct fgt_config_trigger, member)

static const struct fgt_config_key TARGET_KEYS[] = {
	{ "pid", FGT_CONFIG_INT, TARGET_AT(pid), .min = 1, .max = PID_LIMIT },
	{ "name", FGT_CONFIG_STRING, TARGET_AT(name), .max = NAME_BYTES },
	{ "exe", FGT_CONFIG_STRING, TARGET_AT(exe), .max = PATH_BYTES },
	{ "cgroup", FGT_CONFIG_STRING, TARGET_AT(cgroup), .max = PATH_BYTES },
	{ "children", FGT_CONFIG_BOOL, TARGET_AT(is_with_children) },
	{ "continuous", FGT_CONFIG_BOOL, TARGET_AT(is_continuous) },
	{ "continuous_s", FGT_CONFIG_INT, TARGET_AT(continuous_s),
	  .min = 1, .max = 60, .default_number = 20 },
	{ "deliver", FGT_CONFIG_STRINGS, TARGET_AT(deliver),
	  .count_offset = offsetof(struct fgt_config_target, deliver_count),
	  .max = DELIVER_MAX, .may_be_one = true },
	{ .path = NULL },
};

#define DEST_TEXT(member, bytes) \
	{ #member, FGT_CONFIG_STRING, DEST_AT(member), .max = bytes }

static const struct fgt_config_key DESTINATION_KEYS[] = {
	DEST_TEXT(name, DESTINATION_BYTES),
	DEST_TEXT(dsn_file, PATH_BYTES),
	DEST_TEXT(url, URL_BYTES),
	DEST_TEXT(url_file, PATH_BYTES),
	DEST_TEXT(directory, PATH_BYTES),
	{ "kind", FGT_CONFIG_STRING, DEST_AT(kind), .max = NAME_BYTES,
	  .choices = KINDS },
	{ "format", FGT_CONFIG_STRING, DEST_AT(format), .max = NAME_BYTES,
	  .choices = FORMATS },
	{ "method", FGT_CONFIG_STRING, DEST_AT(method), .max = NAME_BYTES,
	  .choices = METHODS },
	{ "shape", FGT_CONFIG_STRING, DEST_AT(shape), .max = NAME_BYTES,
	  .choices = SHAPES },
	DEST_TEXT(headers_file, PATH_BYTES),
	DEST_TEXT(aws_keys_file, PATH_BYTES),
	DEST_TEXT(aws_region, WORD_BYTES),
	DEST_TEXT(aws_service, WORD_BYTES),
	DEST_TEXT(client_cert_file, PATH_BYTES),
	DEST_TEXT(client_key_file, PATH_BYTES),
	DEST_TEXT(ca_file, PATH_BYTES),
	DEST_TEXT(proxy, URL_BYTES),
	{ "max_files", FGT_CONFIG_INT, DEST_AT(max_files),
	  .min = 1, .max = 65536 },
	{ "max_mb", FGT_CONFIG_INT, DEST_AT(max_mb),
	  .min = 1, .max = 1048576 },
	{ .path = NULL },
};

static const struct fgt_config_key TRIGGER_KEYS[] = {
	{ "name", FGT_CONFIG_STRING, TRIGGER_AT(name),
	  .max = FGT_TRIGGER_NAME_MAX },
	{ "target", FGT_CONFIG_STRING, TRIGGER_AT(target), .max = NAME_BYTES },
	{ "exe", FGT_CONFIG_STRING, TRIGGER_AT(exe), .max = PATH_BYTES },
	{ "cgroup", FGT_CONFIG_STRING, TRIGGER_AT(cgroup), .max = PATH_BYTES },
	{ "pid", FGT_CONFIG_INT, TRIGGER_AT(pid), .min = 1, .max = PID_LIMIT },
	{ "when.cpu_percent", FGT_CONFIG_TENTHS, TRIGGER_AT(when.cpu_percent),
	  .min = 1, .max = 1000000 },
	{ "when.for_s", FGT_CONFIG_TENTHS, TRIGGER_AT(when.for_s),
	  .min = 10, .max = 10 * HOUR_S, .default_number = 50 },
	{ "when.asleep_s", FGT_CONFIG_TENTHS, TRIGGER_AT(when.asleep_s),
	  .min = 10, .max = 10 * HOUR_S },
	{ "when.state", FGT_CONFIG_STRING, TRIGGER_AT(when.state),
	  .max = NAME_BYTES },
	{ "when.longer_s", FGT_CONFIG_TENTHS, TRIGGER_AT(when.longer_s),
	  .min = 1, .max = 10 * HOUR_S },
	{ "when.thread", FGT_CONFIG_STRING, TRIGGER_AT(when.thread),
	  .max = NAME_BYTES },
	{ "when.starved_s", FGT_CONFIG_TENTHS, TRIGGER_AT(when.starved_s),
	  .min = 1, .max = 10 * HOUR_S },
	{ "when.signal", FGT_CONFIG_STRING, TRIGGER_AT(when.signal),
	  .max = NAME_BYTES, .choices = SIGNALS },
	{ "when.file", FGT_CONFIG_STRING, TRIGGER_AT(when.file),
	  .max = PATH_BYTES },
	{ "when.transaction_ms", FGT_CONFIG_INT,
	  TRIGGER_AT(when.transaction_ms), .min = 1, .max = 1000 * HOUR_S },
	{ "when.transaction", FGT_CONFIG_STRING, TRIGGER_AT(when.transaction),
	  .max = NAME_BYTES },
	{ "when.killed", FGT_CONFIG_BOOL, TRIGGER_AT(when.is_killed) },
	{ "when.deadlock", FGT_CONFIG_BOOL, TRIGGER_AT(when.is_deadlocked) },
	{ "window_s", FGT_CONFIG_TENTHS, TRIGGER_AT(window_s),
	  .min = 1, .max = 10 * HOUR_S, .default_number = 100 },
	{ "after_s", FGT_CONFIG_TENTHS, TRIGGER_AT(after_s),
	  .min = 1, .max = 600, .default_number = 10 },
	{ "deliver", FGT_CONFIG_STRINGS, TRIGGER_AT(deliver),
	  .count_offset = offsetof(struct fgt_config_trigger, deliver_count),
	  .max = DELIVER_MAX, .may_be_one = true },
	{ "min_gap_s", FGT_CONFIG_INT, TRIGGER_AT(min_gap_s),
	  .min = 1, .max = 24 * HOUR_S, .default_number = 600 },
	{ "max_per_hour", FGT_CONFIG_INT, TRIGGER_AT(max_per_hour),
	  .min = 1, .max = FGT_TRIGGER_PER_HOUR_MAX, .default_number = 6 },
	{ .path = NULL },
};

const struct fgt_config_key fgt_config_keys[] = {
	{ "sampling.hz", FGT_CONFIG_INT, AT(sampling.hz),
	  .min = 1, .max = 1000, .default_number = 101 },
	{ "sampling.max_depth", FGT_CONFIG_INT, AT(sampling.max_depth),
	  .min = 8, .max = 1024, .default_number = 256 },
	{ "sampling.max_cpu_percent", FGT_CONFIG_TENTHS,
	  AT(sampling.max_cpu_percent),
	  .min = 1, .max = 1000, .default_number = 20 },
	{ "sampling.state_frames", FGT_CONFIG_CHOICE, AT(sampling.state_frames),
	  .choices = STATE_FRAMES, .default_number = FGT_STATE_FRAMES_AUTO },
	{ "sampling.who_ran", FGT_CONFIG_CHOICE, AT(sampling.provider),
	  .choices = PROVIDERS, .default_number = FGT_PROVIDER_AUTO },
	{ "sampling.include_self", FGT_CONFIG_BOOL, AT(sampling.is_self_included) },
	{ "ring.seconds", FGT_CONFIG_INT, AT(ring.seconds),
	  .min = 1, .max = 3600, .default_number = 30 },
	{ "ring.memory_mb", FGT_CONFIG_INT, AT(ring.memory_mb),
	  .min = 1, .max = 4096, .default_number = 64 },
	{ "ring.total_mb", FGT_CONFIG_INT, AT(ring.total_mb),
	  .min = 0, .max = 1048576 },
	{ "ring.per_user", FGT_CONFIG_INT, AT(ring.per_user),
	  .min = 0, .max = 512, .default_number = 16 },
	{ "targets", FGT_CONFIG_ENTRIES, AT(targets), COUNT_AT(target_count),
	  .max = TARGETS_MAX, .entries = TARGET_KEYS,
	  .entry_size = sizeof(struct fgt_config_target) },
	{ "triggers", FGT_CONFIG_ENTRIES, AT(triggers), COUNT_AT(trigger_count),
	  .max = TRIGGERS_MAX, .entries = TRIGGER_KEYS,
	  .entry_size = sizeof(struct fgt_config_trigger) },
	{ "socket", FGT_CONFIG_STRING, AT(socket), .max = SOCKET_BYTES },
	{ "http.listen", FGT_CONFIG_STRING, AT(http.listen), .max = NAME_BYTES },
	{ "http.token", FGT_CONFIG_CHOICE, AT(http.token),
	  .choices = HTTP_TOKENS, .default_number = FGT_WEB_TOKEN_AUTO },
	{ "http.token_file", FGT_CONFIG_STRING, AT(http.token_file),
	  .max = PATH_BYTES },
	{ "http.allow_remote", FGT_CONFIG_BOOL, AT(http.is_remote_allowed) },
	{ "http.names", FGT_CONFIG_STRINGS, AT(http.names),
	  COUNT_AT(http.name_count), .max = HTTP_NAMES_MAX },
	{ "upload.release", FGT_CONFIG_STRING, AT(upload.release),
	  .max = NAME_BYTES },
	{ "upload.environment", FGT_CONFIG_STRING, AT(upload.environment),
	  .max = NAME_BYTES },
	{ "upload.spool_dir", FGT_CONFIG_STRING, AT(upload.spool_dir),
	  .max = PATH_BYTES },
	{ "upload.spool_mb", FGT_CONFIG_INT, AT(upload.spool_mb),
	  .min = 1, .max = 1048576, .default_number = 256 },
	{ "upload.spool_files", FGT_CONFIG_INT, AT(upload.spool_files),
	  .min = 1, .max = 100000, .default_number = 10000 },
	{ "upload.spool_days", FGT_CONFIG_INT, AT(upload.spool_days),
	  .min = 1, .max = 365, .default_number = 7 },
	{ "upload.ca_file", FGT_CONFIG_STRING, AT(upload.ca_file),
	  .max = PATH_BYTES },
	{ "upload.allow_http", FGT_CONFIG_BOOL, AT(upload.is_http_allowed) },
	{ "upload.destinations", FGT_CONFIG_ENTRIES, AT(upload.destinations),
	  COUNT_AT(upload.destination_count), .max = DESTINATIONS_MAX,
	  .entries = DESTINATION_KEYS,
	  .entry_size = sizeof(struct fgt_destination_settings) },
	{ "upload.transactions", FGT_CONFIG_STRINGS, AT(upload.transactions),
	  COUNT_AT(upload.transaction_count), .max = TRANSACTIONS_MAX },
	{ "sentry.profile", FGT_CONFIG_CHOICE, AT(sentry.profile),
	  .choices = SENTRY_VERSIONS, .default_number = FGT_SENTRY_V2 },
	{ "symbols.demangle", FGT_CONFIG_CHOICE, AT(symbols.demangle),
	  .choices = DEMANGLE, .default_number = FGT_DEMANGLE_FULL },
	{ "symbols.debug_dirs", FGT_CONFIG_STRINGS, AT(symbols.debug_dirs),
	  COUNT_AT(symbols.debug_dir_count), .max = DIRS_MAX,
	  .default_text = "/usr/lib/debug" },
	{ "log.level", FGT_CONFIG_STRING, AT(log.level), .max = NAME_BYTES,
	  .choices = LOG_LEVELS, .default_text = "info" },
	{ "log.format", FGT_CONFIG_STRING, AT(log.format), .max = NAME_BYTES,
	  .choices = LOG_FORMATS, .default_text = "logfmt" },
	{ .path = NULL },
};
/* clang-format on */

_Static_assert(sizeof(fgt_config_keys) / sizeof(fgt_config_keys[0]) <=
		       FGT_CONFIG_KEYS_MAX,
	       "a line for each key");

const struct fgt_config_key *
fgt_config_key_find(const struct fgt_config_key *keys, const char *path)
{
	for (; keys->path; keys++)
		if (!strcmp(keys->path, path))
			return keys;
	return NULL;
}

/* sampling.hz → FGTRACE_SAMPLING_HZ */
void fgt_config_name_variable(const char *path, char *ret_name, size_t size)
{
	snprintf(ret_name, size, "FGTRACE_%s", path);
	for (char *c = ret_name; *c; c++)
		*c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
}

void fgt_config_where(const struct fgt_config *config, const char *path,
		      const char *file_name,
		      char ret_where[FGT_CONFIG_WHERE_MAX])
{
	const struct fgt_config_key *key =
		fgt_config_key_find(fgt_config_keys, path);
	unsigned int line = config->lines[key - fgt_config_keys];

	if (line == FGT_CONFIG_OF_ENVIRONMENT)
		fgt_config_name_variable(path, ret_where, FGT_CONFIG_WHERE_MAX);
	else
		snprintf(ret_where, FGT_CONFIG_WHERE_MAX, "%s:%u",
			 fgt_trusted_file_name(file_name), line);
}

bool fgt_config_is_group(const struct fgt_config_key *keys, const char *path)
{
	size_t len = strlen(path);

	for (; keys->path; keys++)
		if (!strncmp(keys->path, path, len) && keys->path[len] == '.')
			return true;
	return false;
}

void fgt_config_key_nearest(const struct fgt_config_key *keys, const char *path,
			    char *ret_name, size_t size)
{
	const char *dot = strrchr(path, '.');
	const char *last = dot ? dot + 1 : path;
	size_t prefix_len = (size_t)(last - path);
	const char *name = "";
	size_t name_len = 0;
	size_t best = SIZE_MAX;

	for (; keys->path; keys++) {
		const char *inner = strrchr(keys->path, '.');
		bool is_here = !strncmp(keys->path, path, prefix_len);
		/* Here the next component is written. */
		const char *local = keys->path + (is_here ? prefix_len : 0);
		size_t local_len = strcspn(local, ".");
		size_t edits =
			fgt_nearest_edits(last, strlen(last), local, local_len);

		if (is_here && edits < best && edits <= (local_len + 2) / 3) {
			best = edits;
			name = local;
			name_len = local_len;
		}
		/* The right word in the wrong group: name it in full. */
		if (inner && !strcmp(inner + 1, last) && best > 0) {
			best = 0;
			name = keys->path;
			name_len = strlen(name);
		}
	}
	snprintf(ret_name, size, "%.*s", (int)name_len, name);
}

static void list_choices(const struct fgt_config_key *key, char *ret_text,
			 size_t size)
{
	size_t used = (size_t)snprintf(ret_text, size, "one of");

	for (size_t i = 0; key->choices[i] && used < size; i++)
		used += (size_t)snprintf(ret_text + used, size - used,
					 "%s \"%s\"", i ? "," : "",
					 key->choices[i]);
}

void fgt_config_key_wants(const struct fgt_config_key *key, char *ret_text,
			  size_t size)
{
	if (key->choices) {
		list_choices(key, ret_text, size);
		return;
	}
	switch (key->type) {
	case FGT_CONFIG_INT:
		snprintf(ret_text, size, "an integer from %d to %d", key->min,
			 key->max);
		break;
	case FGT_CONFIG_TENTHS:
		snprintf(ret_text, size, "0 or a number from %g to %g",
			 key->min / 10.0, key->max / 10.0);
		break;
	case FGT_CONFIG_BOOL:
		snprintf(ret_text, size, "true or false");
		break;
	case FGT_CONFIG_STRING:
	case FGT_CONFIG_CHOICE:
		snprintf(ret_text, size, "a string of 1 to %d bytes", key->max);
		break;
	case FGT_CONFIG_STRINGS:
		snprintf(ret_text, size,
			 "a list of at most %d strings, [ \"…\" ]", key->max);
		break;
	case FGT_CONFIG_ENTRIES:
		snprintf(ret_text, size,
			 "a list of at most %d groups, ( { … } )", key->max);
		break;
	}
}
