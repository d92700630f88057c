/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a slice, as slice, record and convert plan it.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_EXPORT_WRITE_H
#define FGT_AGENT_CLI_OUTPUT_EXPORT_WRITE_H

#include "agent/cli/output/export.h"
#include "agent/cli/summary/summary.h"

/* What encoders of this slice heed; borrowed. */
struct fgt_format_options
fgt_export_options(const struct fgt_export *plan,
		   const struct fgt_ring_slice *slice);

/* To fate->path; an error is printed, and the slice then kept elsewhere. */
enum fgt_exit fgt_export_write(const struct fgt_export *plan,
			       const struct fgt_ring_slice *slice,
			       struct fgt_summary_fate *fate);

/*
 * The ring overwrites its past: a slice that could be neither sent nor written
 * is kept as .fgt in the current directory, $TMPDIR, /var/tmp or /tmp. Prints
 * text, and what became of the slice.
 */
void fgt_export_keep(const struct fgt_export *plan,
		     const struct fgt_ring_slice *slice,
		     struct fgt_summary_fate *fate, const char *text);

#endif
