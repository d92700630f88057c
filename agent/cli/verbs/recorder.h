/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler in this program for one process or several: recording without a
 * daemon.
 *
 * Runs in the main thread; the sampler has its thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_VERBS_RECORDER_H
#define FGT_AGENT_CLI_VERBS_RECORDER_H

#include "agent/capture/sampler.h"
#include "agent/capture/target.h"
#include "agent/cli/verbs/processes.h"
#include "agent/config/config.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

struct fgt_recorder;

/*
 * Samples from now on; sets explain and context of options. Of several
 * processes those that can be sampled; a note names the reason if others
 * cannot. As fgt_sampler_attach() where none can: -ESRCH, -EPERM and -EACCES
 * with a remedy in why, -ENOMEM.
 */
int fgt_recorder_new(struct fgt_sampler_options *options,
		     const struct fgt_processes *processes,
		     struct fgt_recorder **ret_recorder, struct fgt_why *why);
void fgt_recorder_free(struct fgt_recorder *recorder);
FGT_DEFINE_AUTO(struct fgt_recorder *, fgt_recorder_free);

/* Also samples the processes below them that are there by now. */
void fgt_recorder_follow(struct fgt_recorder *recorder);

/* Prints a note of children that were not sampled. */
void fgt_recorder_note_missing(const struct fgt_recorder *recorder);

/* Of the first process, but all threads are counted, and it is alive as long as
 * any of them is. Main thread; also prints the notes of the sampler since the
 * last call. */
void fgt_recorder_get_status(struct fgt_recorder *recorder,
			     struct fgt_target_status *ret_status);

/*
 * Of a command that was started for it: when its first tick may be, at or after
 * from_ns. The kernel ends the old program in several steps, and closes its
 * descriptors before it reports the new one.
 */
uint64_t fgt_recorder_since_exec(const struct fgt_recorder *recorder,
				 uint64_t from_ns);

/* Ends sampling and cuts what was recorded since from_ns, with names, as one
 * slice of all processes. -ENODATA, -ENOMEM, with why. */
int fgt_recorder_finish(struct fgt_recorder *recorder, uint64_t from_ns,
			uint64_t to_ns, const struct fgt_config *config,
			struct fgt_ring_slice **ret_slice, struct fgt_why *why);

#endif
