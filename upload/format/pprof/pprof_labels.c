/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of samples: thread, process, state, trace. Runs in any thread.
 */
#include <string.h>

#include "ringbuf/slice/processes.h"
#include "upload/format/pprof/pprof_parts.h"

uint32_t fgt_pprof_string(struct fgt_pprof *pprof, const char *text)
{
	uint32_t id = 0;
	int r = fgt_strings_intern(&pprof->strings, text, strlen(text), &id);

	if (r)
		pprof->error = r;
	return id;
}

void fgt_pprof_put_string(struct fgt_pprof *pprof, uint32_t field,
			  const char *text)
{
	fgt_protobuf_put_uint(&pprof->out, field,
			      fgt_pprof_string(pprof, text));
}

/* text: NULL for a number. */
static void put_label(struct fgt_pprof *pprof, const char *key,
		      const char *text, uint64_t number)
{
	uint32_t text_id = text ? fgt_pprof_string(pprof, text) : 0;

	fgt_protobuf_begin(&pprof->out, SAMPLE_LABEL);
	fgt_pprof_put_string(pprof, LABEL_KEY, key);
	fgt_protobuf_put_uint(&pprof->out, LABEL_STR, text_id);
	fgt_protobuf_put_uint(&pprof->out, LABEL_NUM, number);
	fgt_protobuf_end(&pprof->out);
}

/* What Grafana Pyroscope finds the profile of a span by. */
static void put_link(struct fgt_pprof *pprof, uint32_t link)
{
	char trace_id[FGT_TRACE_ID_LEN + 1] = "";
	const char *text;

	if (!link)
		return;
	text = fgt_trace_links_text(&pprof->samples.links, link);
	memcpy(trace_id, text, FGT_TRACE_ID_LEN);
	put_label(pprof, "trace_id", trace_id, 0);
	put_label(pprof, "span_id", text + FGT_TRACE_ID_LEN, 0);
}

/* Of several processes: which one. */
static void put_process(struct fgt_pprof *pprof)
{
	struct fgt_process_of of =
		fgt_slice_process_of(pprof->slice, pprof->samples.thread);

	if (fgt_slice_process_count(pprof->slice) == 1)
		return;
	put_label(pprof, "process", of.title, 0);
	if (of.pid > 0)
		put_label(pprof, "pid", NULL, (uint64_t)of.pid);
}

/* As far as it is known beyond the name of the process. */
static void put_service(struct fgt_pprof *pprof)
{
	const struct fgt_process_info *process = &pprof->slice->process;
	const struct fgt_service *service = &process->service;
	char name[FGT_SERVICE_TEXT_MAX];

	if (!fgt_service_count(service))
		return;
	fgt_service_name(service, process->name, name);
	put_label(pprof, "service", name, 0);
	if (*service->version)
		put_label(pprof, "version", service->version, 0);
	if (*service->environment)
		put_label(pprof, "environment", service->environment, 0);
}

static struct fgt_pprof_wait read_wait(const struct fgt_ring_slice *slice,
				       const struct fgt_slice_wait *wait)
{
	uint32_t owner = fgt_slice_find_thread(slice, wait->owner_tid);
	struct fgt_pprof_wait read = { .is_known = true, .kind = wait->kind };

	switch ((enum fgt_wait_kind)wait->kind) {
	case FGT_WAIT_MUTEX:
	case FGT_WAIT_RWLOCK:
	case FGT_WAIT_PI_LOCK:
		read.object = wait->object;
		if (owner < slice->thread_count)
			read.holder = slice->threads[owner].name;
		else if (wait->owner_tid) /* of another process */
			read.holder = wait->text;
		break;
	case FGT_WAIT_DESCRIPTOR:
		read.object = wait->object;
		/* A number is not that of all samples. */
		if (!wait->object &&
		    *fgt_slice_string(slice, wait->text) == '/')
			read.object = wait->text;
		break;
	default:
		break;
	}
	return read;
}

/* Runs of a state that shows its reason have that reason; others may have
 * several. */
void fgt_pprof_find_waits(struct fgt_pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		struct fgt_pprof_wait *known = &pprof->waits[run->state];
		struct fgt_pprof_wait read;

		if (!run->wait)
			continue;
		read = read_wait(slice, &slice->waits[run->wait - 1]);
		if (!known->is_known)
			*known = read;
		if (known->kind != read.kind)
			known->kind = 0;
		if (known->object != read.object)
			known->object = 0;
		if (known->holder != read.holder)
			known->holder = 0;
	}
}

static void put_text(struct fgt_pprof *pprof, const char *key, uint32_t text)
{
	if (text)
		put_label(pprof, key, fgt_slice_string(pprof->slice, text), 0);
}

/* What the thread waits for, as far as all samples of its state have it. */
static void put_wait(struct fgt_pprof *pprof, uint32_t state)
{
	const struct fgt_pprof_wait *wait = &pprof->waits[state];

	if (!wait->kind)
		return;
	put_label(pprof, "wait", fgt_wait_kind_name(wait->kind), 0);
	put_text(pprof,
		 wait->kind == FGT_WAIT_DESCRIPTOR ? "descriptor" : "lock",
		 wait->object);
	put_text(pprof, "held_by", wait->holder);
}

void fgt_pprof_put_labels(struct fgt_pprof *pprof, struct fgt_level state,
			  const struct fgt_sample *sample)
{
	const struct fgt_slice_thread *thread =
		&pprof->slice->threads[pprof->samples.thread];
	char buffer[FGT_LEVEL_NAME_MAX];

	put_service(pprof);
	put_process(pprof);
	put_label(pprof, "thread",
		  fgt_level_thread_name(pprof->slice, thread, buffer), 0);
	if (thread->tid > 0)
		put_label(pprof, "thread_id", NULL, (uint64_t)thread->tid);
	put_label(pprof, "state", fgt_level_name(pprof->slice, state, buffer),
		  0);
	put_wait(pprof, sample->state);
	put_link(pprof, sample->link);
}
