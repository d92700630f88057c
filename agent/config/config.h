/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration, from a libconfig file and the environment. A flag takes
 * precedence over the environment, which does over the file, which does over
 * the default.
 *
 * MT-Safe for different configurations | AS-Unsafe
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_H
#define FGT_AGENT_CONFIG_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/config/choices.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/settings/destination_settings.h"
#include "upload/format/parts/options.h"

/* One entry of targets; exactly one of pid, name, exe, cgroup is set. */
struct fgt_config_target {
	int pid;
	char *name, *exe, *cgroup;
	bool is_with_children;
	unsigned int line; /* in the file, for messages */
	bool is_continuous; /* its whole life is delivered, in chunks */
	int continuous_s; /* of a chunk */
	/* As in struct fgt_config_trigger. */
	char **deliver;
	size_t deliver_count;
};

#define FGT_TRIGGER_NAME_MAX	 64 /* bytes */
#define FGT_TRIGGER_PER_HOUR_MAX 60

/* One entry of triggers; exactly one condition of when is set, and at most one
 * of target, exe, cgroup and pid. Seconds that are 0 are not set. */
struct fgt_config_trigger {
	char *name; /* unique; letters, digits and ._- */
	unsigned int line; /* in the file, for messages */
	int pid;
	char *target, *exe, *cgroup; /* target: as the name of targets */
	struct {
		double cpu_percent, for_s; /* of one core */
		double asleep_s;
		char *state, *thread; /* patterns of fnmatch(3) */
		double longer_s; /* of state */
		double starved_s;
		char *signal; /* "SIGUSR1", "SIGUSR2" */
		char *file;
		int transaction_ms;
		char *transaction; /* a pattern */
		bool is_killed, is_deadlocked;
	} when;
	double window_s, after_s;
	/* Directories, and names of destinations; none: all destinations. */
	char **deliver;
	size_t deliver_count;
	int min_gap_s, max_per_hour;
};

#define FGT_CONFIG_KEYS_MAX	  64
#define FGT_CONFIG_OF_ENVIRONMENT UINT_MAX

struct fgt_config {
	char *path; /* of the file, NULL if none */
	/* Where the key of each row of fgt_config_keys was set, for messages: a
	 * line of the file, FGT_CONFIG_OF_ENVIRONMENT; 0: nowhere. */
	unsigned int lines[FGT_CONFIG_KEYS_MAX];
	struct {
		int hz, max_depth;
		double max_cpu_percent; /* of a core, a target; 0: no limit */
		enum fgt_state_frames state_frames;
		enum fgt_provider provider; /* sampling.who_ran */
		bool is_self_included;
	} sampling;
	struct {
		int seconds, memory_mb;
		int total_mb; /* of all rings; 0: half of the memory */
		int per_user; /* targets that one ordinary user may add */
	} ring;
	struct fgt_config_target *targets;
	size_t target_count;
	struct fgt_config_trigger *triggers;
	size_t trigger_count;
	struct {
		char *listen; /* NULL: no server */
		char *token_file; /* NULL: beside the socket */
		enum fgt_web_token token;
		bool is_remote_allowed;
		char **names; /* by which clients may call it */
		size_t name_count;
	} http;
	char *socket; /* never NULL: the default if the file has none */
	struct {
		char *release, *environment, *ca_file;
		bool is_http_allowed;
		char *spool_dir; /* absolute; NULL: no spool */
		int spool_mb, spool_files, spool_days;
		/* Names are unique; by default a number, from 1. */
		struct fgt_destination_settings *destinations;
		size_t destination_count;
		/* Names of those that each transaction goes to whose program
		 * names none. */
		char **transactions;
		size_t transaction_count;
	} upload;
	struct {
		enum fgt_sentry_version profile;
	} sentry;
	struct {
		enum fgt_demangle demangle;
		char **debug_dirs;
		size_t debug_dir_count;
	} symbols;
	struct {
		char *level; /* error warning info debug */
		char *format; /* logfmt json */
	} log;
};

/*
 * Loads path (NULL: defaults and environment only). Owner, size and bytes of
 * the file are checked before libconfig reads it (fgt_config_scan()).
 * Environment: FGTRACE_SAMPLING_HZ for sampling.hz, and so on for each key with
 * one value. -EINVAL: why is "FILE:LINE: cause; remedy"; errno of open.
 */
int fgt_config_load(const char *path, struct fgt_config **ret_config,
		    struct fgt_why *why);
/*
 * The same from memory and without the environment; file_name is for messages.
 * bytes may hold anything.
 */
int fgt_config_load_bytes(const char *bytes, size_t len, const char *file_name,
			  struct fgt_config **ret_config, struct fgt_why *why);
void fgt_config_free(struct fgt_config *config);
FGT_DEFINE_AUTO(struct fgt_config *, fgt_config_free);

/* Writes a complete libconfig file that reads back equal. It has no secrets,
 * only names of their files. */
int fgt_config_show(const struct fgt_config *config,
		    const struct fgt_sink *sink);
/* The same as one JSON object. */
int fgt_config_show_json(const struct fgt_config *config,
			 const struct fgt_sink *sink);

/* ca_file and is_http_allowed, borrowed. */
struct fgt_destination_defaults
fgt_config_destination_defaults(const struct fgt_config *config);

/* The destination of that name; NULL: the first one. -ENOENT; why names the
 * nearest one and the remedy. */
int fgt_config_find_destination(
	const struct fgt_config *config, const char *name,
	const struct fgt_destination_settings **ret_settings,
	struct fgt_why *why);

/* $FGTRACE_SOCKET; else for root /run/fgtrace/agent.sock, for other users
 * $XDG_RUNTIME_DIR/fgtrace/agent.sock, without XDG_RUNTIME_DIR
 * /tmp/fgtrace-UID/agent.sock. -ENAMETOOLONG beyond 107 bytes. */
int fgt_default_socket(char *ret_path, size_t size);

#endif
