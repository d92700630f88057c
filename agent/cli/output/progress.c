/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one line that record keeps up to date on a terminal. Must not stop a
 * background job by writing (SIGTTOU), nor move the cursor by a name.
 */
#include "agent/cli/output/progress.h"

#include <unistd.h>

#include "agent/cli/output/summary.h"
#include "agent/cli/output/summary_print.h"

#define CLEAR_LINE "\r\033[K"

bool fgt_progress_is_wanted(int fd)
{
	return isatty(fd) && tcgetpgrp(fd) == getpgrp();
}

void fgt_progress_print(FILE *file, const struct fgt_target_status *status,
			double elapsed_s)
{
	fprintf(file, CLEAR_LINE "recording %u thread%s of ", status->threads,
		status->threads == 1 ? "" : "s");
	fgt_print_text(file, status->name, 24);
	fprintf(file, " (%d): %.1f s, ", status->pid, elapsed_s);
	if (status->unwind.stacks)
		fprintf(file, "%.0f %% complete stacks",
			fgt_percent(status->unwind.complete,
				    status->unwind.stacks));
	else
		fputs("no stacks yet", file);
	fputs("  ^C to stop", file);
	fflush(file);
}

void fgt_progress_clear(FILE *file)
{
	fputs(CLEAR_LINE, file);
	fflush(file);
}
