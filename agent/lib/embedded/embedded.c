/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording inside this process, by libfgtrace-embed.so. Runs in the program's
 * threads and in the worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/lib/embedded/embed_load.h"
#include "agent/lib/embedded/spooling.h"
#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/spans/journal.h"
#include "upload/deliver/sentry_upload.h"

#define SECOND_NS   UINT64_C(1000000000)
#define FILES_LEAST 64u

static const struct fgt_embed_ops *ops;
static void *recorder;

static int cut_range(uint64_t from_ns, uint64_t to_ns, bool is_transaction,
		     struct fgt_slice **ret_slice)
{
	struct fgt_slice *slice = calloc(1, sizeof(*slice));
	int rc = slice ? ops->cut(recorder, from_ns, to_ns, is_transaction,
				  &slice->file)
		       : -ENOMEM;

	if (rc == 0)
		*ret_slice = slice;
	else
		free(slice);
	return rc;
}

static int cut(uint64_t from_ns, uint64_t to_ns, struct fgt_slice **ret_slice)
{
	return cut_range(from_ns, to_ns, false, ret_slice);
}

static int cut_transaction(uint64_t from_ns, uint64_t to_ns,
			   struct fgt_slice **ret_slice)
{
	return cut_range(from_ns, to_ns, true, ret_slice);
}

static struct fgt_upload_limits limits_of(const struct fgt_options *options)
{
	return (struct fgt_upload_limits){
		.ca_file = options->ca_file,
		.is_http_allowed = options->allow_http != 0,
	};
}

static int deliver(const struct fgt_delivery *delivery, struct fgt_why *why)
{
	const struct fgt_upload_limits limits =
		limits_of(&fgt_library.settings.options);
	unsigned int wait_s = 0;
	struct fgt_why own = { "" };
	int rc = fgt_spooling_deliver(delivery, &limits, &own);

	if (own.text[0])
		fgt_report_line(NULL, own.text);
	if (rc == 0)
		return 0;
	rc = ops->deliver(
		delivery->slice->file.bytes, delivery->slice->file.len_bytes,
		delivery->destination, &limits, delivery->facts, why, &wait_s);
	if (wait_s > 0)
		*delivery->ret_not_before_ns = fgt_now() + wait_s * SECOND_NS;
	return rc;
}

static void lost(const char *destination, enum fgt_discard_reason reason,
		 uint32_t count)
{
	ops->lost(destination, reason, count);
}

/* Other descriptors that the program closes are reopened by the recorder. */
static void refresh(void)
{
	const struct fgt_upload_limits limits =
		limits_of(&fgt_library.settings.options);
	int spans_fd = fgt_journal_fd();

	if (spans_fd >= 0)
		(void)ops->set_spans(recorder, spans_fd);
	fgt_spooling_tend(&limits);
}

static bool is_recording(void)
{
	return true;
}

static double hz(void)
{
	return ops->hz(recorder);
}

static void get_limitation(char *ret_text, size_t len)
{
	ops->get_limitation(recorder, ret_text, len);
}

static int ring_fd(void)
{
	return ops->ring_fd(recorder);
}

static void forked(void)
{
	ops->forked(recorder);
}

static void close_embedded(void)
{
	fgt_spooling_stop();
	ops->stop(recorder);
}

/* The library's, one for each ELF file, and those of a small program. */
static int check_file_limit(struct fgt_why *why)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= FILES_LEAST)
		return 0;
	return fgt_why_set(why, -EMFILE,
			   "this program may open %llu files only, and "
			   "recording would leave it too few: raise the limit "
			   "(ulimit -n) to %u or more, or let an agent sample "
			   "it",
			   (unsigned long long)limit.rlim_cur, FILES_LEAST);
}

/* The sender first: its thread is not sampled. */
static int open_recorder(const struct fgt_own_threads *own,
			 struct fgt_embed_options *embed_options,
			 struct fgt_why *why)
{
	const struct fgt_options *options = &fgt_library.settings.options;
	int rc = fgt_spooling_start(ops, own, options->spool_dir,
				    options->destination,
				    &embed_options->own_tids[2]);

	if (rc < 0)
		return rc;
	rc = ops->start(embed_options, &recorder, why);
	if (rc < 0)
		fgt_spooling_stop();
	return rc;
}

int fgt_embedded_open(const struct fgt_own_threads *own)
{
	const struct fgt_options *options = &fgt_library.settings.options;
	struct fgt_embed_options embed_options = {
		.hz = options->hz,
		.ring_seconds = options->ring_seconds,
		.ring_bytes = options->ring_bytes,
		.spans_fd = fgt_journal_fd(),
		.own_tids = { own->worker_tid, own->activity_tid },
		.log = fgt_report_line,
	};
	struct fgt_why why = { "" };
	int rc = check_file_limit(&why);

	if (rc == 0)
		rc = fgt_embed_load(&ops, &why);
	if (rc == 0)
		rc = open_recorder(own, &embed_options, &why);
	if (rc < 0 && why.text[0])
		fgt_report_line(NULL, why.text);
	return rc == -EACCES ? -EPERM : rc;
}

const struct fgt_backend fgt_embedded = {
	.mode = FGT_EMBEDDED,
	.cut = cut,
	.cut_transaction = cut_transaction,
	.deliver = deliver,
	.lost = lost,
	.refresh = refresh,
	.is_idle = fgt_spooling_is_idle,
	.is_recording = is_recording,
	.hz = hz,
	.get_limitation = get_limitation,
	.ring_fd = ring_fd,
	.forked = forked,
	.close = close_embedded,
};
