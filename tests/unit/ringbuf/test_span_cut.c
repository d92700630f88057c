/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a span log into a slice: spans that overlap its ticks, that are still
 * open, and records that contradict each other.
 */
#include "ringbuf/spans/span_cut.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static uint64_t at(int ms)
{
	return FIXTURE_START_NS + (uint64_t)((int64_t)ms * 1000000);
}

/* Serial numbers of one slot. */
static uint64_t task_number(uint64_t serial)
{
	return serial * FGT_NUMBER_SERIAL_ONE | 2;
}

static uint64_t span_number(uint64_t serial, uint64_t depth)
{
	return serial * FGT_NUMBER_SERIAL_ONE | depth << 15 | 3;
}

struct kit {
	struct fgt_span_log *log;
	struct fgt_span_writer writer;
	struct fgt_ring_slice *slice;
};

/* Ten ticks: 0 to 90 ms, the last one until 100 ms. */
static int set_up(void **state)
{
	struct kit *kit = calloc(1, sizeof(*kit));

	assert_non_null(kit);
	assert_int_equal(fgt_span_log_new(1 << 20, &kit->log), 0);
	kit->slice = fixture_new(10);
	*state = kit;
	return 0;
}

static int tear_down(void **state)
{
	struct kit *kit = *state;

	fgt_ring_slice_free(kit->slice);
	fgt_span_log_free(kit->log);
	free(kit);
	return 0;
}

static void put(struct kit *kit, const struct fgt_span_record *record)
{
	assert_int_equal(fgt_span_log_append(kit->log, &kit->writer, record),
			 0);
}

static void task(struct kit *kit, uint64_t serial, uint32_t track,
		 const char *name, uint64_t parent, int begin_ms, int end_ms)
{
	put(kit,
	    &(struct fgt_span_record){
		    .kind = end_ms ? FGT_SPAN_TASK_END : FGT_SPAN_TASK_BEGIN,
		    .tid = 4242,
		    .number = task_number(serial),
		    .owner = parent ? task_number(parent) : 0,
		    .track = track,
		    .begin_ns = at(begin_ms),
		    .end_ns = end_ms ? at(end_ms) : 0,
		    .text = name,
		    .text_len = (uint8_t)strlen(name),
	    });
}

static void span(struct kit *kit, uint64_t serial, uint64_t depth,
		 const char *name, uint64_t owner, int begin_ms, int end_ms)
{
	put(kit, &(struct fgt_span_record){
			 .kind = end_ms ? FGT_SPAN_END : FGT_SPAN_BEGIN,
			 .tid = 4243,
			 .number = span_number(serial, depth),
			 .owner = task_number(owner),
			 .track = 1,
			 .begin_ns = at(begin_ms),
			 .end_ns = end_ms ? at(end_ms) : 0,
			 .text = name,
			 .text_len = (uint8_t)strlen(name),
		 });
}

static void remark(struct kit *kit, enum fgt_span_kind kind, int at_ms,
		   const char *key, const char *text, uint64_t number,
		   double value)
{
	put(kit, &(struct fgt_span_record){
			 .kind = kind,
			 .tid = 4243,
			 .number = number,
			 .begin_ns = at(at_ms),
			 .value = value,
			 .key = key,
			 .key_len = (uint8_t)strlen(key),
			 .text = text,
			 .text_len = (uint8_t)strlen(text),
		 });
}

static void cut(struct kit *kit)
{
	assert_int_equal(fgt_span_log_cut(kit->log, kit->slice), 0);
	assert_true(fgt_slice_is_valid(kit->slice));
}

static const char *name_of(const struct kit *kit, uint32_t id)
{
	return fgt_slice_string(kit->slice, id);
}

static void assert_span(const struct kit *kit, uint32_t index, const char *name,
			uint32_t depth, int begin_ms, int end_ms)
{
	const struct fgt_slice_span *found = &kit->slice->spans[index];

	assert_true(index < kit->slice->span_count);
	assert_string_equal(name_of(kit, found->name), name);
	assert_int_equal(found->depth, depth);
	assert_int_equal(found->begin_ns, at(begin_ms));
	assert_int_equal(found->end_ns, end_ms ? at(end_ms) : 0);
}

static void begins_and_ends_make_one(void **state)
{
	struct kit *kit = *state;

	task(kit, 1, 1, "t#0", 0, 5, 0);
	span(kit, 2, 0, "a", 1, 10, 0);
	span(kit, 3, 1, "b", 1, 20, 0);
	span(kit, 3, 1, "b", 1, 20, 30);
	span(kit, 4, 1, "c", 1, 40, 50);
	span(kit, 2, 0, "a", 1, 10, 60);
	task(kit, 1, 1, "t#0", 0, 5, 70);
	cut(kit);
	assert_int_equal(kit->slice->task_count, 1);
	assert_string_equal(name_of(kit, kit->slice->tasks[0].name), "t#0");
	assert_int_equal(kit->slice->tasks[0].end_ns, at(70));
	assert_int_equal(kit->slice->span_count, 3);
	assert_span(kit, 0, "a", 0, 10, 60);
	assert_span(kit, 1, "b", 1, 20, 30);
	assert_span(kit, 2, "c", 1, 40, 50);
}

static void open_and_overlapping_spans_are_kept(void **state)
{
	struct kit *kit = *state;

	task(kit, 1, 1, "old#0", 0, -500, -10); /* over before */
	task(kit, 2, 2, "open#0", 0, -400, 0);
	span(kit, 3, 0, "across", 2, -300, 15);
	span(kit, 4, 0, "around", 2, 20, 400);
	span(kit, 5, 0, "late", 2, 410, 0); /* after the last tick */
	task(kit, 6, 3, "later#0", 2, 150, 0);
	cut(kit);
	assert_int_equal(kit->slice->task_count, 1);
	assert_string_equal(name_of(kit, kit->slice->tasks[0].name), "open#0");
	assert_int_equal(kit->slice->tasks[0].end_ns, 0);
	assert_int_equal(kit->slice->span_count, 2);
	assert_span(kit, 0, "across", 0, -300, 15);
	assert_span(kit, 1, "around", 0, 20, 400);
}

static void parents_are_found(void **state)
{
	struct kit *kit = *state;

	task(kit, 3, 9, "child#0", 2, 30, 40);
	task(kit, 2, 5, "parent#0", 1, 20, 50);
	task(kit, 4, 9, "child#0", 2, 41, 45);
	cut(kit);
	assert_int_equal(kit->slice->task_count, 3);
	/* The order is by track; the parent's own parent is unknown. */
	assert_int_equal(kit->slice->tasks[0].track, 5);
	assert_int_equal(kit->slice->tasks[0].parent, 0);
	assert_int_equal(kit->slice->tasks[1].parent, 1);
	assert_int_equal(kit->slice->tasks[2].parent, 1);
}

static void a_lost_end_is_put_where_it_must_have_been(void **state)
{
	struct kit *kit = *state;

	task(kit, 1, 1, "t#0", 0, 0, 80);
	span(kit, 2, 0, "lost", 1, 10, 0);
	span(kit, 3, 1, "inner, lost", 1, 12, 0);
	span(kit, 4, 0, "next", 1, 20, 0);
	task(kit, 5, 1, "t#0", 0, 90,
	     0); /* of the same name: the first is over */
	cut(kit);
	assert_int_equal(kit->slice->span_count, 3);
	assert_span(kit, 0, "lost", 0, 10, 20);
	assert_span(kit, 1, "inner, lost", 1, 12, 20);
	assert_span(kit, 2, "next", 0, 20, 80);
}

static void a_lost_task_is_made_up_for_its_spans(void **state)
{
	struct kit *kit = *state;

	span(kit, 7, 0, "a", 1, 10, 20);
	span(kit, 9, 2, "deep", 1, 30, 40);
	cut(kit);
	assert_int_equal(kit->slice->task_count, 1);
	assert_string_equal(name_of(kit, kit->slice->tasks[0].name), "");
	assert_int_equal(kit->slice->tasks[0].begin_ns, at(10));
	assert_int_equal(kit->slice->span_count, 2);
	assert_span(kit, 0, "a", 0, 10, 20);
	assert_span(kit, 1, "deep", 0, 30, 40);
}

static void marks_counters_and_labels_are_kept(void **state)
{
	struct kit *kit = *state;

	task(kit, 1, 1, "t#0", 0, 0, 90);
	span(kit, 2, 0, "a", 1, 10, 20);
	remark(kit, FGT_SPAN_MARK, 50, "", "second", 0, 0);
	remark(kit, FGT_SPAN_MARK, 40, "", "first", 0, 0);
	remark(kit, FGT_SPAN_MARK, 500, "", "too late", 0, 0);
	remark(kit, FGT_SPAN_COUNTER, 30, "", "queue", 0, 2.5);
	remark(kit, FGT_SPAN_COUNTER, 20, "", "queue", 0, 1);
	remark(kit, FGT_SPAN_COUNTER, 25, "", "queue", 0, (double)NAN);
	remark(kit, FGT_SPAN_LABEL, 11, "user", "ann", span_number(2, 0), 0);
	remark(kit, FGT_SPAN_LABEL, 12, "user", "eve", span_number(2, 0), 0);
	remark(kit, FGT_SPAN_LABEL, 12, "user", "bob", span_number(8, 0), 0);
	cut(kit);
	assert_int_equal(kit->slice->mark_count, 2);
	assert_string_equal(name_of(kit, kit->slice->marks[0].name), "first");
	assert_int_equal(kit->slice->counter_count, 2);
	assert_true(kit->slice->counters[1].value == 2.5);
	assert_int_equal(kit->slice->label_count, 1);
	assert_string_equal(name_of(kit, kit->slice->labels[0].value), "eve");
}

/* A counter is known where it did not change. */
static void counter_keeps_its_value_until_the_next_one(void **state)
{
	struct kit *kit = *state;
	const struct fgt_slice_counter *counters;

	remark(kit, FGT_SPAN_COUNTER, -900, "", "rare", 0, 1);
	remark(kit, FGT_SPAN_COUNTER, -500, "", "rare", 0, 2);
	remark(kit, FGT_SPAN_COUNTER, -100, "", "often", 0, 3);
	remark(kit, FGT_SPAN_COUNTER, 0, "", "often", 0, 4);
	remark(kit, FGT_SPAN_COUNTER, 40, "", "often", 0, 5);
	remark(kit, FGT_SPAN_COUNTER, 9000, "", "often", 0, 6);
	cut(kit);
	counters = kit->slice->counters;
	assert_int_equal(kit->slice->counter_count, 3);
	assert_true(counters[0].at_ns == at(0) && counters[0].value == 2);
	assert_true(counters[1].at_ns == at(0) && counters[1].value == 4);
	assert_true(counters[2].at_ns == at(40) && counters[2].value == 5);
}

/* Where ticks come late or not at all; the last one is at 90 ms. */
static void record_behind_the_last_tick_is_kept(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct kit *kit = *state;

	kit->slice->requested_to_ns = at(5000);
	fixture_run(kit->slice, fixture_thread(kit->slice, 4242, "main"), 0, 10,
		    fixture_stack(kit->slice, "main"), FGT_STATE_RUNNING);
	task(kit, 1, 1, "late#0", 0, 300, 400);
	span(kit, 1, 0, "late", 1, 310, 320);
	remark(kit, FGT_SPAN_MARK, 330, "", "mark", 0, 0);
	remark(kit, FGT_SPAN_COUNTER, 340, "", "counter", 0, 7);
	task(kit, 2, 1, "too late#0", 0, 1300, 1400);
	remark(kit, FGT_SPAN_MARK, 1330, "", "mark", 0, 0);
	remark(kit, FGT_SPAN_COUNTER, 1340, "", "counter", 0, 8);
	cut(kit);
	assert_int_equal(kit->slice->task_count, 1);
	assert_int_equal(kit->slice->span_count, 1);
	assert_int_equal(kit->slice->mark_count, 1);
	assert_int_equal(kit->slice->counter_count, 1);
	assert_true(kit->slice->counters[0].value == 7);
	/* … and stays where a part of it is taken. */
	assert_int_equal(
		fgt_slice_narrow(kit->slice, at(10), at(5000), 0, &part), 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->task_count + part->span_count, 2);
	assert_int_equal(part->mark_count + part->counter_count, 2);
}

static void random_records_make_a_valid_slice(void **state)
{
	struct kit *kit = *state;
	uint64_t random = 7;

	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 60; i++) {
			struct fgt_span_record record = { 0 };

			random = random * 6364136223846793005u + 1;
			record.kind = (enum fgt_span_kind)(random >> 60 & 7);
			if (!record.kind)
				record.kind = FGT_SPAN_END;
			record.number = span_number(random >> 56 & 15,
						    random >> 53 & 3);
			if (record.kind <= FGT_SPAN_TASK_END)
				record.number = task_number(random >> 56 & 3);
			record.owner = task_number(random >> 50 & 3);
			record.track = random >> 48 & 3;
			record.begin_ns =
				random >> 46 & 63
					? at((int)(random >> 30 & 127) - 10)
					: random;
			record.end_ns = random >> 24 & 63
						? at((int)(random >> 17 & 127))
						: random << 3;
			record.text = record.key = "some name";
			record.text_len = random >> 10 & 7;
			record.key_len = random >> 7 & 7;
			put(kit, &record);
		}
		cut(kit);
		fgt_ring_slice_free(kit->slice);
		kit->slice = fixture_new(10);
		fgt_span_log_free(kit->log);
		assert_int_equal(fgt_span_log_new(1 << 20, &kit->log), 0);
		kit->writer = (struct fgt_span_writer){ 0 };
	}
}

/* ---- Afterwards --------------------------------------------------------- */

static void a_narrower_slice_keeps_what_overlaps(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *rich = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(rich, at(0), at(150), 0, &part), 0);
	assert_true(fgt_slice_is_valid(part));
	/* The second request came later. */
	assert_int_equal(part->task_count, 2);
	assert_int_equal(part->tasks[1].parent, 1);
	assert_int_equal(part->span_count, 5);
	assert_int_equal(part->mark_count, 2);
	assert_int_equal(part->counter_count, 1);
	assert_int_equal(part->label_count, 2);
	assert_string_equal(fgt_slice_string(part, part->spans[2].name),
			    "query");
	assert_int_equal(part->labels[0].span, 2);
}

static void a_narrower_slice_without_spans_has_no_arrays_of_them(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	fixture_run(slice, fixture_thread(slice, 4242, "app"), 0, 10,
		    fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 0, &part), 0);
	/* Those that are cut later would be in their place, and they lost. */
	assert_null(part->tasks);
	assert_null(part->spans);
	assert_null(part->labels);
}

static void a_narrower_slice_knows_what_counters_were(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *rich = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(rich, at(200), at(280), 0, &part), 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->counter_count, 1);
	assert_true(part->counters[0].at_ns == part->tick_ns[0]);
	assert_true(part->counters[0].value == 3);
}

static void one_thread_keeps_what_is_around_its_spans(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *rich = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	rich->spans[2].tid = 77; /* query, around read */
	assert_int_equal(fgt_slice_narrow(rich, 0, UINT64_MAX, 4243, &part), 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->task_count, 3);
	assert_int_equal(part->span_count, 6);
	assert_int_equal(part->mark_count, 1);
	fgt_ring_slice_free(part);
	part = NULL;
	/* It reported nothing and began nothing. */
	assert_int_equal(fgt_slice_narrow(rich, 0, UINT64_MAX, 4250, &part), 0);
	assert_int_equal(part->task_count + part->span_count, 0);
	assert_int_equal(part->mark_count + part->label_count, 0);
	assert_int_equal(part->counter_count, 2);
}

static void contradicting_tables_are_not_valid(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
#define REFUSED(field, wrong)                                                  \
	do {                                                                   \
		__typeof__(field) right_ = (field);                            \
		(field) = (wrong);                                             \
		assert_false(fgt_slice_is_valid(slice));                       \
		(field) = right_;                                              \
		assert_true(fgt_slice_is_valid(slice));                        \
	} while (0)
	REFUSED(slice->tasks[2].begin_ns, slice->tasks[1].end_ns - 1);
	REFUSED(slice->tasks[1].track, 2);
	REFUSED(slice->tasks[1].parent, 3); /* began later */
	REFUSED(slice->tasks[1].parent, 2); /* itself */
	REFUSED(slice->tasks[1].parent, 4);
	REFUSED(slice->tasks[0].name, slice->strings.count);
	REFUSED(slice->spans[1].depth, 1); /* the first of its task */
	REFUSED(slice->spans[3].depth, 2);
	REFUSED(slice->spans[3].end_ns, slice->spans[2].end_ns + 1);
	REFUSED(slice->spans[4].begin_ns, slice->spans[3].end_ns - 1);
	REFUSED(slice->spans[2].end_ns, 0); /* open in a task that ended */
	REFUSED(slice->spans[2].task, 3);
	REFUSED(slice->spans[5].task, 0);
	REFUSED(slice->marks[0].at_ns, slice->marks[1].at_ns + 1);
	REFUSED(slice->counters[0].value, (double)INFINITY);
	REFUSED(slice->counters[1].at_ns, slice->counters[0].at_ns - 1);
	REFUSED(slice->labels[0].span, 99);
	REFUSED(slice->labels[1].key, slice->labels[0].key);
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_KIT(begins_and_ends_make_one),
		WITH_KIT(open_and_overlapping_spans_are_kept),
		WITH_KIT(parents_are_found),
		WITH_KIT(a_lost_end_is_put_where_it_must_have_been),
		WITH_KIT(a_lost_task_is_made_up_for_its_spans),
		WITH_KIT(marks_counters_and_labels_are_kept),
		WITH_KIT(counter_keeps_its_value_until_the_next_one),
		WITH_KIT(record_behind_the_last_tick_is_kept),
		WITH_KIT(random_records_make_a_valid_slice),
		cmocka_unit_test(a_narrower_slice_keeps_what_overlaps),
		cmocka_unit_test(
			a_narrower_slice_without_spans_has_no_arrays_of_them),
		cmocka_unit_test(a_narrower_slice_knows_what_counters_were),
		cmocka_unit_test(one_thread_keeps_what_is_around_its_spans),
		cmocka_unit_test(contradicting_tables_are_not_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
