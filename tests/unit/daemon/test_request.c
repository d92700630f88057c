/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon accepts of a front that may lie (fault C9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/requests/request.h"

#define FRAME_LEN 100

static const struct fgt_request_frame first = { .len = FRAME_LEN };
static const struct fgt_request_frame later = { .len = FRAME_LEN,
						.is_kept = true };

static bool is_valid(const struct fgt_request *request)
{
	return fgt_request_is_valid(
		request, fgt_request_size(request->verb),
		request->verb >= FGT_REQUEST_CONFIRM ? &later : &first);
}

static void every_verb_is_accepted_in_its_place_only(void **state)
{
	(void)state;
	for (uint32_t verb = FGT_REQUEST_ATTACH; verb < FGT_REQUEST_VERBS;
	     verb++) {
		struct fgt_request request = { .verb = verb };
		bool is_later = verb >= FGT_REQUEST_CONFIRM;
		size_t size = fgt_request_size(verb);

		assert_true(is_valid(&request));
		assert_false(fgt_request_is_valid(&request, size,
						  is_later ? &first : &later));
		assert_false(fgt_request_is_valid(&request, size - 1,
						  is_later ? &later : &first));
		assert_false(fgt_request_is_valid(&request, size + 1,
						  is_later ? &later : &first));
	}
}

static void verbs_that_there_are_not_are_refused(void **state)
{
	static const uint32_t verbs[] = { FGT_REQUEST_VERBS, 1000, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const struct fgt_request request = { .verb = verbs[i] };

		for (size_t len = 0; len <= sizeof(request); len += 4)
			assert_false(
				fgt_request_is_valid(&request, len, &first));
	}
}

static void selector_means_one_thing(void **state)
{
	struct fgt_request request = { .verb = FGT_REQUEST_SLICE };
	struct fgt_request_selector *selector = &request.slice.selector;

	(void)state;
	selector->pid = 7;
	assert_true(is_valid(&request));
	selector->is_self = 1;
	assert_false(is_valid(&request));
	selector->pid = 0;
	assert_true(is_valid(&request));
	selector->is_self = 2;
	assert_false(is_valid(&request));
	selector->is_self = 0;
	selector->pid = -1;
	assert_false(is_valid(&request));
	selector->pid = 0;
	memset(selector->name, 'x', sizeof(selector->name));
	assert_false(is_valid(&request));
	selector->name[FGT_REQUEST_NAME] = '\0';
	assert_true(is_valid(&request));
}

static void ranges_of_slices_are_checked(void **state)
{
	struct fgt_request request = { .verb = FGT_REQUEST_SLICE };
	struct fgt_request_slice *slice = &request.slice;

	(void)state;
	slice->tid = -1;
	assert_false(is_valid(&request));
	slice->tid = 1;
	assert_true(is_valid(&request));
	slice->is_moment = 1;
	assert_false(is_valid(&request));
	slice->tid = 0;
	assert_true(is_valid(&request));
	slice->is_moment = 2;
	assert_false(is_valid(&request));
	slice->is_moment = 0;
	slice->from.is_given = 3;
	assert_false(is_valid(&request));
	slice->from.is_given = 1;
	assert_true(is_valid(&request));
	slice->last_ns = 1;
	assert_false(is_valid(&request));
}

static void data_lie_inside_the_frame(void **state)
{
	static const struct {
		uint32_t at, len;
		bool is_inside;
	} rows[] = {
		{ 0, FRAME_LEN, true },
		{ FRAME_LEN, 0, true },
		{ 1, FRAME_LEN, false },
		{ FRAME_LEN + 1, 0, false },
		{ FRAME_LEN, UINT32_MAX, false },
		{ UINT32_MAX, 2, false },
		{ UINT32_MAX, UINT32_MAX, false },
	};
	struct fgt_request *request = calloc(1, sizeof(*request));

	(void)state;
	request->verb = FGT_REQUEST_DELIVER;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		request->deliver.data_at = rows[i].at;
		request->deliver.data_len = rows[i].len;
		assert_int_equal(is_valid(request), rows[i].is_inside);
	}
	free(request);
}

static void deliveries_are_checked(void **state)
{
	struct fgt_request *request = calloc(1, sizeof(*request));
	struct fgt_request_deliver *deliver = &request->deliver;

	(void)state;
	request->verb = FGT_REQUEST_DELIVER;
	deliver->facts_len = FGT_REQUEST_FACTS;
	assert_true(is_valid(request));
	deliver->facts_len++;
	assert_false(is_valid(request));
	deliver->facts_len = 0;
	deliver->from_ns = 2;
	deliver->to_ns = 1;
	assert_false(is_valid(request));
	deliver->to_ns = 2;
	memset(deliver->destination, 'x', sizeof(deliver->destination));
	assert_false(is_valid(request));
	deliver->destination[10] = '\0';
	memset(deliver->event_id, 'x', sizeof(deliver->event_id));
	assert_false(is_valid(request));
	free(request);
}

static void refusal_is_an_error_with_a_text(void **state)
{
	struct fgt_request request = { .verb = FGT_REQUEST_REFUSED };

	(void)state;
	assert_false(is_valid(&request)); /* 0 is none */
	request.refusal.error = -EINVAL;
	assert_true(is_valid(&request));
	request.refusal.error = EINVAL;
	assert_false(is_valid(&request));
	request.refusal.error = INT32_MIN;
	assert_false(is_valid(&request));
	request.refusal.error = -EINVAL;
	memset(request.refusal.why.text, 'x', sizeof(request.refusal.why.text));
	assert_false(is_valid(&request));
}

/* Texts of what is accepted end inside it, whatever came. */
static void random_structs_are_accepted_only_if_sound(void **state)
{
	union {
		struct fgt_request request;
		uint8_t bytes[sizeof(struct fgt_request)];
	} *noise = malloc(sizeof(*noise));
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct fgt_request *request = &noise->request;
		uint32_t verb = (uint32_t)rand_r(&seed) % FGT_REQUEST_VERBS;
		size_t size = fgt_request_size(verb);

		memset(noise, 0, size);
		for (int i = 0; i < 6; i++)
			noise->bytes[(size_t)rand_r(&seed) % size] =
				(uint8_t)rand_r(&seed);
		request->verb = verb;
		if (!is_valid(request))
			continue;
		if (verb == FGT_REQUEST_SLICE)
			assert_true(strlen(request->slice.selector.name) <=
				    FGT_REQUEST_NAME);
		if (verb == FGT_REQUEST_DELIVER)
			assert_true(
				request->deliver.data_at +
					(uint64_t)request->deliver.data_len <=
				FRAME_LEN);
	}
	free(noise);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verb_is_accepted_in_its_place_only),
		cmocka_unit_test(verbs_that_there_are_not_are_refused),
		cmocka_unit_test(selector_means_one_thing),
		cmocka_unit_test(ranges_of_slices_are_checked),
		cmocka_unit_test(data_lie_inside_the_frame),
		cmocka_unit_test(deliveries_are_checked),
		cmocka_unit_test(refusal_is_an_error_with_a_text),
		cmocka_unit_test(random_structs_are_accepted_only_if_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
