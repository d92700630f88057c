/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a backend: it samples this process from outside. cut and the
 * getters run in any thread, the rest on the worker.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/agent/registrar.h"
#include "agent/lib/worker.h"

#define MS_NS UINT64_C(1000000)

struct agent_link {
	struct fgt_registrar registrar;
};

int fgt_agent_link_open(const struct fgt_backend_options *options,
			bool is_needed, void **ret_state)
{
	struct agent_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	fgt_registrar_init(&link->registrar, options, -1);
	link->registrar.is_optional = is_needed; /* else: another way */
	r = fgt_registrar_register(&link->registrar);
	link->registrar.is_optional = false;
	if (r < 0 && is_needed) {
		fgt_registrar_done(&link->registrar);
		free(link);
		return r;
	}
	*ret_state = link;
	return 0;
}

static void close_link(void *state)
{
	struct agent_link *link = state;

	fgt_registrar_done(&link->registrar);
	free(link);
}

static void forked(void *state)
{
	struct agent_link *link = state;

	fgt_registrar_forked(&link->registrar);
}

static int cut(void *state, uint64_t from_ns, uint64_t to_ns,
	       unsigned int timeout_ms, struct fgt_slice **ret_slice)
{
	struct agent_link *link = state;
	int r = -ENOTCONN, way;

	if (fgt_registrar_is_registered(&link->registrar)) {
		r = fgt_agent_cut(link->registrar.options.options, from_ns,
				  to_ns, fgt_now() + timeout_ms * MS_NS, &way,
				  ret_slice);
		fgt_registrar_set_way(&link->registrar, way);
	}
	if (r == -ENOTCONN)
		fgt_worker_wake(); /* to look whether it is there */
	return r;
}

static void refresh(void *state)
{
	struct agent_link *link = state;

	fgt_registrar_refresh(&link->registrar);
}

static bool is_recording(void *state)
{
	const struct agent_link *link = state;

	return fgt_registrar_is_registered(&link->registrar);
}

static double hz(void *state)
{
	struct agent_link *link = state;

	return fgt_registrar_hz(&link->registrar);
}

static void get_limitation(void *state, char *ret_text, size_t len)
{
	struct agent_link *link = state;

	fgt_registrar_get_limitation(&link->registrar, ret_text, len);
}

/* ---- Deliveries -------------------------------------------------------- */

static void write_lists(struct fgt_wire *wire,
			const struct fgt_transaction_facts *facts)
{
	fgt_wire_array(wire, "tags", (uint32_t)facts->tag_count);
	for (size_t i = 0; i < facts->tag_count; i++) {
		fgt_wire_map(wire, 2);
		fgt_wire_text(wire, "key", facts->tags[i].key);
		fgt_wire_text(wire, "value", facts->tags[i].value);
	}
	fgt_wire_array(wire, "tids", (uint32_t)facts->thread_run_count);
	for (size_t i = 0; i < facts->thread_run_count; i++) {
		fgt_wire_map(wire, 3);
		fgt_wire_int(wire, "tid", facts->thread_runs[i].tid);
		fgt_wire_uint(wire, "from_ns", facts->thread_runs[i].from_ns);
		fgt_wire_uint(wire, "to_ns", facts->thread_runs[i].to_ns);
	}
}

static void write_facts(struct fgt_wire *wire,
			const struct fgt_transaction_facts *facts)
{
	fgt_wire_text(wire, "release", facts->release);
	fgt_wire_text(wire, "environment", facts->environment);
	if (!fgt_facts_of_transaction(facts))
		return;
	fgt_wire_text(wire, "name", facts->name);
	fgt_wire_text(wire, "op", facts->op);
	fgt_wire_text(wire, "status", facts->status);
	fgt_wire_text(wire, "event_id", facts->event_id);
	fgt_wire_text(wire, "trace_id", facts->trace_id);
	fgt_wire_text(wire, "span_id", facts->span_id);
	fgt_wire_text(wire, "parent_span_id", facts->parent_span_id);
	fgt_wire_uint(wire, "begin_ns", facts->begin_ns);
	fgt_wire_uint(wire, "end_ns", facts->end_ns);
	fgt_wire_int(wire, "active_tid", facts->active_tid);
	fgt_wire_bool(wire, "all_threads", facts->all_threads);
	write_lists(wire, facts);
}

static void write_delivery(struct fgt_wire *wire,
			   const struct fgt_delivery *delivery)
{
	const struct fgt_transaction_facts *facts = delivery->facts;

	fgt_wire_init(wire, "deliver");
	fgt_wire_text(wire, "destination", delivery->destination);
	if (delivery->slice) {
		fgt_wire_bin(wire, "data", delivery->slice->bytes,
			     delivery->slice->len_bytes);
	} else if (facts) {
		fgt_wire_uint(wire, "from_ns", facts->begin_ns);
		fgt_wire_uint(wire, "to_ns", facts->end_ns);
	}
	if (facts)
		write_facts(wire, facts);
}

static int deliver(void *state, const struct fgt_delivery *delivery,
		   char *ret_why)
{
	struct agent_link *link = state;
	struct fgt_answer answer;
	struct fgt_wire request;
	int r;

	if (!delivery->slice && !delivery->facts)
		return -EINVAL;
	write_delivery(&request, delivery);
	r = fgt_registrar_call(&link->registrar, &request, &answer);
	fgt_wire_done(&request);
	if (r == 0)
		return 0;
	if (r == -EMSGSIZE && !answer.has_ok) {
		snprintf(ret_why, sizeof(answer.why),
			 "a slice is larger than the 16 MiB that an agent "
			 "takes: upload a shorter range");
		return r;
	}
	/* Why it is away the registrar tells. */
	snprintf(ret_why, sizeof(answer.why), "%s",
		 answer.why[0] ? answer.why
			       : "the agent does not take what was kept: it is "
				 "tried again, a few times");
	/* The agent is full, or away: it may be there again in a while. */
	return r == -EBUSY || r == -ESHUTDOWN || r == -ENOTCONN ||
			       !answer.has_ok
		       ? -EAGAIN
		       : r;
}

const struct fgt_backend fgt_agent_link = {
	.mode = FGT_AGENT,
	.cut = cut,
	.deliver = deliver,
	.refresh = refresh,
	.is_recording = is_recording,
	.hz = hz,
	.get_limitation = get_limitation,
	.forked = forked,
	.close = close_link,
};
