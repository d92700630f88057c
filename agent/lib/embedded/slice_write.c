/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes slices: a .fgt file as it is, all other formats with the encoders of
 * libfgtrace-embed.so. Runs in the program's threads.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "agent/lib/backend.h"
#include "agent/lib/embedded/embed_load.h"
#include "agent/lib/report.h"
#include "ringbuf/base/sink.h"
#include "upload/format/format_list.h"

/* Programs are compiled with the numbers of fgtrace.h, encoders with those of
 * the list. */
#define CHECK_NUMBER(id, ...)                                                  \
	_Static_assert((int)FGT_FORMAT_##id == (int)FGT_KIND_##id,             \
		       "a format has one number on both sides");
FGT_FORMAT_LIST(CHECK_NUMBER)

static int write_as(const struct fgt_slice *slice, enum fgt_format format,
		    int fd)
{
	/* No name: the slice does not belong to a transaction. */
	const struct fgt_transaction_facts facts = {
		.release = slice->release,
		.environment = slice->environment,
	};
	const struct fgt_embed_ops *embed;
	struct fgt_why why;
	int r;

	if (format == FGT_FORMAT_FGT)
		return fgt_fd_write(fd, slice->file.bytes,
				    slice->file.len_bytes);
	r = fgt_embed_load(&embed, &why);
	if (r < 0) {
		fgt_report("slices can be written as FGT_FORMAT_FGT only: %s",
			   why.text);
		return r;
	}
	return embed->write(slice->file.bytes, slice->file.len_bytes,
			    (int)format, &facts, fd);
}

/* Writing to a pipe without a reader raises SIGPIPE, and beyond the limit of a
 * file's size SIGXFSZ, which end programs. The signal of this call is removed,
 * one that was pending before stays. */
int fgt_slice_write(const struct fgt_slice *slice, enum fgt_format format,
		    int fd)
{
	const struct timespec at_once = { .tv_sec = 0 };
	sigset_t ends, raised, before, pending;
	int r;

	if (!slice || (unsigned int)format >= FGT_KIND_COUNT)
		return -EINVAL;
	sigemptyset(&ends);
	sigaddset(&ends, SIGPIPE);
	sigaddset(&ends, SIGXFSZ);
	sigemptyset(&pending);
	(void)pthread_sigmask(SIG_BLOCK, &ends, &before);
	(void)sigpending(&pending);
	r = write_as(slice, format, fd);
	sigemptyset(&raised);
	if (r == -EPIPE && !sigismember(&pending, SIGPIPE))
		sigaddset(&raised, SIGPIPE);
	if (r == -EFBIG && !sigismember(&pending, SIGXFSZ))
		sigaddset(&raised, SIGXFSZ);
	while (!sigisemptyset(&raised) &&
	       sigtimedwait(&raised, NULL, &at_once) < 0 && errno == EINTR)
		;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}
