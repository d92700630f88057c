/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What verbs ask of a daemon: slices and status, over the control socket.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_VERBS_FETCH_H
#define FGT_AGENT_CLI_VERBS_FETCH_H

#include <stdint.h>

#include "agent/cli/options.h"
#include "agent/cli/range/range.h"
#include "agent/cli/range/several.h"
#include "agent/protocol/channel.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

#define FGT_SOCKET_PATH_SIZE 108 /* of sockaddr_un, NUL included */

/* Rows of a verb's table of flags: which targets. */
#define FGT_FETCH_TARGET_OPTIONS                                               \
	{ "pid", 'p', "PID", "the target's process id", "name all " },         \
		{ "name", 'n', "NAME",                                         \
		  "the targets of that name (default: the only target)",       \
		  "pid all " },                                                \
		{ "children", 0, NULL,                                         \
		  "with -p: and the targets that came with it", NULL },        \
	{                                                                      \
		"all", 0, NULL, "all targets", "pid name "                     \
	}

/* Which slice. */
struct fgt_fetch {
	const char *socket_path;
	struct fgt_target_choice choice;
	struct fgt_range range; /* resolved by the agent, whose ring knows */
	int32_t tid; /* 0: all threads */
	bool is_moment; /* what all threads do at the range's end */
};

/* --socket, its environment variable, or the default path. -ENAMETOOLONG. */
int fgt_fetch_socket(const struct fgt_arguments *arguments, char *ret_path,
		     size_t size, struct fgt_why *why);

/* Connects. -EHOSTDOWN: no agent; else as fgt_channel_open(). */
int fgt_fetch_open(const char *socket_path, struct fgt_channel *ret_channel,
		   struct fgt_why *why);

/*
 * One request without further arguments than the builder holds already.
 * -EHOSTDOWN: no agent; other errors: as fgt_channel_call().
 */
int fgt_fetch_reply(const char *socket_path, struct fgt_builder *request,
		    struct fgt_message **ret_reply, struct fgt_why *why);

/*
 * The slice, checked, by one request; waits as long as the range's end lies in
 * the future. ret_is_clock_set: the wall clock was set within the ring's time.
 * As fgt_channel_call(), -EBADMSG, -E2BIG.
 */
int fgt_fetch_slice(const struct fgt_fetch *fetch,
		    const struct fgt_channel *channel,
		    struct fgt_ring_slice **ret_slice, bool *ret_is_clock_set,
		    struct fgt_why *why);

/*
 * The slice of the targets that fit, as one slice of several processes; of a
 * single one as fgt_fetch_slice(), with its errors. Processes without data in
 * that time are left out; a note names the reason if others had to be.
 */
int fgt_fetch_slices(const struct fgt_fetch *fetch,
		     struct fgt_ring_slice **ret_slice, bool *ret_is_clock_set,
		     struct fgt_why *why);

/* Reads the flags of FGT_FETCH_TARGET_OPTIONS. -EINVAL. */
int fgt_fetch_read_target(const struct fgt_arguments *arguments,
			  struct fgt_fetch *fetch, struct fgt_why *why);

/* The same flags beside a file: -EINVAL if one is given. */
int fgt_fetch_refuse_target(const struct fgt_arguments *arguments,
			    struct fgt_why *why);

/*
 * Sets the target of a request: "1234" is a pid, anything else a name.
 * -EINVAL.
 */
int fgt_fetch_put_target(struct fgt_builder *request, const char *text,
			 struct fgt_why *why);

/* Exit status for an error of the above: no agent, not permitted, … */
enum fgt_exit fgt_fetch_exit(int error);

/* now, read before a request without an end: of a target that has ended it
 * becomes its end, with a note. */
void fgt_fetch_now(const char *verb, const struct fgt_ring_slice *slice,
		   struct fgt_now *now);

/* Everything that the rings of the targets hold that the flags choose. The
 * errors of fgt_fetch_slices(). */
int fgt_fetch_ring(const struct fgt_arguments *arguments,
		   struct fgt_ring_slice **ret_slice, struct fgt_why *why);

#endif
