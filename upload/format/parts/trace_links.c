/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns spans and transactions that know their ids into ranges of ticks that do
 * not overlap. Runs in any thread; must not trust ids or times: they come from
 * programs.
 */
#include "upload/format/parts/trace_links.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"

/* Ticks in which a span is active, with the spans inside of it. */
struct interval {
	struct fgt_trace_part part;
	uint32_t order; /* outer ones come first */
};

struct trace_building {
	struct fgt_trace_links *links;
	struct interval *items;
	uint32_t count, capacity;
	/* Of the thread at hand, in order of their beginnings; some may have
	 * ended. */
	uint32_t *active;
	uint32_t active_count;
	uint32_t tick; /* parts are complete up to it */
};

/* ---- Spans that have ids ------------------------------------------------ */

static bool read_id(const char *text, size_t digits, char *ret_id)
{
	bool is_zero = true;

	if (strlen(text) != digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (!isxdigit((unsigned char)text[i]))
			return false;
		is_zero &= text[i] == '0';
		ret_id[i] = (char)tolower((unsigned char)text[i]);
	}
	return !is_zero;
}

/* *ret_link: 0 if the ids are none. */
static int add_link(struct fgt_trace_links *links, const char *trace_id,
		    const char *span_id, uint32_t *ret_link)
{
	char text[FGT_TRACE_LINK_LEN];
	int r;

	*ret_link = 0;
	if (!read_id(trace_id, FGT_TRACE_ID_LEN, text) ||
	    !read_id(span_id, FGT_TRACE_SPAN_LEN, text + FGT_TRACE_ID_LEN))
		return 0;
	r = fgt_strings_intern(&links->ids, text, sizeof(text), ret_link);
	return !r && *ret_link > FGT_TRACE_LINK_MAX ? -EOVERFLOW : r;
}

/* end_ns 0: open. */
static int add_interval(struct trace_building *building, int32_t tid,
			uint64_t begin_ns, uint64_t end_ns, uint32_t link)
{
	const struct fgt_ring_slice *slice = building->links->slice;
	const uint64_t *tick_ns = slice->tick_ns;
	struct interval interval = { .part = { .tid = tid, .link = link },
				     .order = building->count };

	interval.part.first_tick = (uint32_t)FGT_ARRAY_BISECT(
		i, slice->tick_count, tick_ns[i] < begin_ns);
	interval.part.end_tick = (uint32_t)FGT_ARRAY_BISECT(
		i, slice->tick_count, !end_ns || tick_ns[i] <= end_ns);
	if (interval.part.first_tick >= interval.part.end_tick)
		return 0;
	if (FGT_ARRAY_GROW(building->items, building->count,
			   building->capacity))
		return -ENOMEM;
	building->items[building->count++] = interval;
	return 0;
}

/* What of a thread's work lies within the transaction. */
static int add_thread_run(struct trace_building *building,
			  const struct fgt_transaction_facts *facts,
			  const struct fgt_thread_run *run, uint32_t link)
{
	uint64_t from_ns = run->from_ns, to_ns = run->to_ns;

	if (from_ns < facts->begin_ns)
		from_ns = facts->begin_ns;
	if (!to_ns || (facts->end_ns && to_ns > facts->end_ns))
		to_ns = facts->end_ns;
	return add_interval(building, run->tid, from_ns, to_ns, link);
}

static int add_facts(struct trace_building *building,
		     const struct fgt_transaction_facts *facts)
{
	const struct fgt_ring_slice *slice = building->links->slice;
	uint32_t link;
	int r;

	facts = fgt_facts_of_transaction(facts);
	if (!facts)
		return 0;
	r = add_link(building->links, facts->trace_id, facts->span_id, &link);
	if (r || !link)
		return r;
	for (size_t i = 0; i < facts->thread_run_count && !r; i++)
		r = add_thread_run(building, facts, &facts->thread_runs[i],
				   link);
	for (uint32_t i = 0;
	     !facts->thread_run_count && i < slice->thread_count && !r; i++)
		r = add_interval(building, slice->threads[i].tid,
				 facts->begin_ns, facts->end_ns, link);
	return r;
}

static int link_of_labels(struct fgt_trace_links *links, uint32_t span,
			  uint32_t *ret_link)
{
	const char *trace_id = "", *span_id = "";
	const struct fgt_slice_label *labels;
	uint32_t count;

	labels = fgt_spans_labels(links->slice, span, &count);
	for (uint32_t i = 0; i < count; i++) {
		const char *key = fgt_slice_string(links->slice, labels[i].key);
		const char *value =
			fgt_slice_string(links->slice, labels[i].value);

		if (!strcmp(key, "trace_id"))
			trace_id = value;
		else if (!strcmp(key, "span_id"))
			span_id = value;
	}
	return add_link(links, trace_id, span_id, ret_link);
}

static int add_spans(struct trace_building *building)
{
	const struct fgt_ring_slice *slice = building->links->slice;
	uint32_t around[FGT_SPAN_DEPTH_MAX] = { 0 }; /* links, by depth */
	int r = 0;

	for (uint32_t i = 0; slice->label_count && i < slice->span_count && !r;
	     i++) {
		const struct fgt_slice_span *span = &slice->spans[i];
		uint32_t link;

		r = link_of_labels(building->links, i, &link);
		if (!link && span->depth)
			link = around[span->depth - 1];
		around[span->depth] = link;
		if (!r && link)
			r = add_interval(building, span->tid, span->begin_ns,
					 span->end_ns, link);
	}
	return r;
}

/* ---- Parts that do not overlap ------------------------------------------ */

static int by_thread_and_begin(const void *left, const void *right)
{
	const struct interval *a = left, *b = right;

	if (a->part.tid != b->part.tid)
		return a->part.tid < b->part.tid ? -1 : 1;
	if (a->part.first_tick != b->part.first_tick)
		return a->part.first_tick < b->part.first_tick ? -1 : 1;
	if (a->part.end_tick != b->part.end_tick)
		return a->part.end_tick > b->part.end_tick ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static int add_part(struct trace_building *building, struct fgt_trace_part part)
{
	struct fgt_trace_links *links = building->links;
	struct fgt_trace_part *last = NULL;

	building->tick = part.end_tick;
	if (links->part_count)
		last = &links->parts[links->part_count - 1];
	if (last && last->tid == part.tid && last->link == part.link &&
	    last->end_tick == part.first_tick) {
		last->end_tick = part.end_tick;
		return 0;
	}
	if (FGT_ARRAY_GROW(links->parts, links->part_count,
			   links->part_capacity))
		return -ENOMEM;
	links->parts[links->part_count++] = part;
	return 0;
}

/* Up to a tick, the last one of those that are active counts. */
static int complete(struct trace_building *building, uint32_t tick)
{
	int r = 0;

	while (!r && building->active_count && building->tick < tick) {
		uint32_t last = building->active[building->active_count - 1];
		struct fgt_trace_part part = building->items[last].part;

		if (part.end_tick <= tick)
			building->active_count--;
		else
			part.end_tick = tick;
		part.first_tick = building->tick;
		if (part.first_tick < part.end_tick)
			r = add_part(building, part);
	}
	return r;
}

static int build_parts(struct trace_building *building)
{
	struct interval *items = building->items;
	int r = 0;

	if (!FGT_ARRAY_NEW(building->active, building->count))
		return -ENOMEM;
	FGT_ARRAY_SORT(items, building->count, by_thread_and_begin);
	for (uint32_t i = 0; i < building->count && !r; i++) {
		const struct fgt_trace_part *part = &items[i].part;
		bool is_other = i && items[i - 1].part.tid != part->tid;

		r = complete(building,
			     is_other ? UINT32_MAX : part->first_tick);
		if (is_other)
			building->active_count = 0;
		building->tick = part->first_tick;
		building->active[building->active_count++] = i;
	}
	return r ? r : complete(building, UINT32_MAX);
}

int fgt_trace_links_init(struct fgt_trace_links *links,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_transaction_facts *facts)
{
	struct trace_building building = { .links = links };
	int r;

	*links = (struct fgt_trace_links){ .slice = slice };
	r = fgt_strings_init(&links->ids);
	if (!r)
		r = add_facts(&building, facts);
	if (!r)
		r = add_spans(&building);
	if (!r)
		r = build_parts(&building);
	free(building.items);
	free(building.active);
	return r;
}

void fgt_trace_links_done(struct fgt_trace_links *links)
{
	fgt_strings_done(&links->ids);
	free(links->parts);
	links->parts = NULL;
}

uint32_t fgt_trace_links_at(const struct fgt_trace_links *links, int32_t tid,
			    uint32_t tick, uint32_t end_tick,
			    uint32_t *ret_end_tick)
{
	const struct fgt_trace_part *parts = links->parts;
	size_t at = FGT_ARRAY_BISECT(
		i, links->part_count,
		parts[i].tid < tid ||
			(parts[i].tid == tid && parts[i].end_tick <= tick));

	*ret_end_tick = end_tick;
	if (at == links->part_count || parts[at].tid != tid ||
	    parts[at].first_tick >= end_tick)
		return 0;
	if (parts[at].first_tick > tick) {
		*ret_end_tick = parts[at].first_tick;
		return 0;
	}
	if (parts[at].end_tick < end_tick)
		*ret_end_tick = parts[at].end_tick;
	return parts[at].link;
}
