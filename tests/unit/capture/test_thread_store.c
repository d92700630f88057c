/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads are kept: found as long as they are there, never moved, and
 * small.
 */
#include "agent/capture/threads/thread_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MANY	      5000
#define MODEL_TIDS    3000
#define MODEL_STEPS   200000
#define BYTES_A_PIECE 56u

static void threads_stay_in_place_and_are_found_as_others_come(void **state)
{
	struct fgt_thread **added =
		calloc(FGT_THREADS_MAX, sizeof(struct fgt_thread *));
	struct fgt_thread_store table;
	int32_t tid = 0;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&table), 0);
	for (uint32_t i = 0; i < FGT_THREADS_MAX; i++) {
		added[i] = fgt_thread_store_add(&table, (int32_t)i + 1);
		assert_non_null(added[i]);
		assert_int_equal(added[i]->tid, i + 1);
	}
	assert_null(fgt_thread_store_add(&table, INT32_MAX));
	assert_int_equal(table.count, FGT_THREADS_MAX);
	for (uint32_t i = 0; i < FGT_THREADS_MAX; i++)
		assert_ptr_equal(fgt_thread_store_find(&table, (int32_t)i + 1),
				 added[i]);
	assert_null(fgt_thread_store_find(&table, INT32_MAX));
	/* All are visited, and may leave then. */
	for (struct fgt_thread *at = fgt_thread_store_next(&table, NULL); at;
	     at = fgt_thread_store_next(&table, at)) {
		assert_int_equal(at->tid, ++tid);
		fgt_thread_store_remove(&table, at);
	}
	assert_int_equal(tid, FGT_THREADS_MAX);
	assert_int_equal(table.count, 0);
	assert_null(fgt_thread_store_next(&table, NULL));
	assert_non_null(fgt_thread_store_add(&table, 1));
	fgt_thread_store_done(&table);
	fgt_thread_store_done(&table);
	assert_null(fgt_thread_store_next(&table, NULL));
	free(added);
}

/* ---- Against a model --------------------------------------------------- */

/* The model: the threads by number, NULL: none. */
struct model {
	struct fgt_thread_store table;
	struct fgt_thread *of_tid[MODEL_TIDS];
	uint32_t count;
};

static void come(struct model *model, int32_t tid)
{
	struct fgt_thread *thread = fgt_thread_store_add(&model->table, tid);
	struct fgt_thread_aside *aside;

	assert_non_null(thread);
	model->of_tid[tid] = thread;
	model->count++;
	/* Nothing of the thread that had the place before. */
	assert_int_equal(thread->runtime_ns, 0);
	assert_null(thread->active);
	assert_null(fgt_thread_store_find_aside(&model->table, thread));
	thread->runtime_ns = (uint64_t)tid * 3;
	if (tid % 4)
		return;
	aside = fgt_thread_store_aside(&model->table, thread);
	assert_int_equal(aside->schedstat_fd, -1);
	assert_int_equal(aside->wait_ns, 0);
	assert_null(aside->switches);
	aside->wait_ns = (uint64_t)tid * 5;
}

static void go(struct model *model, int32_t tid)
{
	fgt_thread_store_remove(&model->table, model->of_tid[tid]);
	model->of_tid[tid] = NULL;
	model->count--;
}

static void check(const struct model *model)
{
	uint32_t count = 0;

	assert_int_equal(model->table.count, model->count);
	for (struct fgt_thread *at = fgt_thread_store_next(&model->table, NULL);
	     at; at = fgt_thread_store_next(&model->table, at)) {
		assert_ptr_equal(model->of_tid[at->tid], at);
		count++;
	}
	assert_int_equal(count, model->count);
	for (int32_t tid = 1; tid < MODEL_TIDS; tid++) {
		struct fgt_thread *thread = model->of_tid[tid];

		assert_ptr_equal(fgt_thread_store_find(&model->table, tid),
				 thread);
		if (!thread)
			continue;
		assert_int_equal(thread->runtime_ns, tid * 3);
		if (tid % 4 == 0)
			assert_int_equal(fgt_thread_store_find_aside(
						 &model->table, thread)
						 ->wait_ns,
					 tid * 5);
	}
}

static void threads_stay_as_they_are_as_others_come_and_go(void **state)
{
	static struct model model;
	uint32_t random = 1;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&model.table), 0);
	for (uint32_t i = 0; i < MODEL_STEPS; i++) {
		/* Crowds that swell and shrink, by turns. */
		bool is_swelling = i / (MODEL_STEPS / 8) % 2 == 0;
		int32_t tid;

		random = random * 1664525u + 1013904223u;
		tid = 1 + (int32_t)((random >> 8) % (MODEL_TIDS - 1));
		if (!model.of_tid[tid] && (is_swelling || random >> 30 == 0))
			come(&model, tid);
		else if (model.of_tid[tid] &&
			 (!is_swelling || random >> 30 == 0))
			go(&model, tid);
		if (i % 1000 == 0)
			fgt_thread_store_give_back(&model.table);
		if (i % 5000 == 0)
			check(&model);
	}
	check(&model);
	fgt_thread_store_done(&model.table);
}

/* ---- The number of one that is replaced -------------------------------- */

static void a_number_is_that_of_the_newest_also_after_growth(void **state)
{
	struct fgt_thread_store table;
	struct fgt_thread *hole, *old, *young;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&table), 0);
	hole = fgt_thread_store_add(&table, 1);
	old = fgt_thread_store_add(&table, 7);
	fgt_thread_store_remove(&table, hole);
	old->is_replaced = true;
	assert_null(fgt_thread_store_find(&table, 7));
	young = fgt_thread_store_add(&table, 7);
	assert_ptr_equal(young, hole);
	assert_ptr_equal(fgt_thread_store_find(&table, 7), young);
	for (int32_t i = 0; i < MANY; i++)
		assert_non_null(fgt_thread_store_add(&table, 100 + i));
	assert_ptr_equal(fgt_thread_store_find(&table, 7), young);
	fgt_thread_store_remove(&table, old);
	assert_ptr_equal(fgt_thread_store_find(&table, 7), young);
	fgt_thread_store_remove(&table, young);
	assert_null(fgt_thread_store_find(&table, 7));
	fgt_thread_store_done(&table);
}

/* ---- Memory ------------------------------------------------------------ */

static size_t resident_bytes(const struct fgt_thread_store *store)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 0;
	size_t count = store->memory_bytes / page;
	unsigned char *pages = calloc(count, 1);

	assert_int_equal(mincore(store->memory, store->memory_bytes, pages), 0);
	for (size_t i = 0; i < count; i++)
		bytes += pages[i] & 1 ? page : 0;
	free(pages);
	return bytes;
}

static void thousands_take_little_memory_and_give_it_back(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct fgt_thread_store table;
	struct fgt_thread *stays;
	size_t before;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&table), 0);
	before = resident_bytes(&table);
	for (int32_t i = 1; i <= MANY; i++)
		fgt_thread_store_add(&table, i);
	assert_in_range(resident_bytes(&table) - before, MANY * 48,
			MANY * BYTES_A_PIECE);
	stays = fgt_thread_store_find(&table, MANY / 2);
	fgt_thread_store_aside(&table, stays)->wait_ns = 12;
	for (int32_t i = 1; i <= MANY; i++)
		if (i != stays->tid)
			fgt_thread_store_remove(
				&table, fgt_thread_store_find(&table, i));
	fgt_thread_store_give_back(&table);
	/* Its pages, those of the table's ends, the buckets. */
	assert_in_range(resident_bytes(&table) - before, 0,
			5 * page + MANY * 4);
	assert_ptr_equal(fgt_thread_store_find(&table, MANY / 2), stays);
	assert_int_equal(fgt_thread_store_find_aside(&table, stays)->wait_ns,
			 12);
	for (int32_t i = 1; i <= MANY; i++)
		if (i != stays->tid)
			assert_non_null(fgt_thread_store_add(&table, i));
	for (int32_t i = 1; i <= MANY; i++)
		assert_int_equal(fgt_thread_store_find(&table, i)->tid, i);
	fgt_thread_store_done(&table);
}

static void without_memory_no_thread_is_added_or_lost(void **state)
{
	struct fgt_thread_store table;
	struct rlimit before, none;
	int32_t count = 0;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&table), 0);
	assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
	none = before;
	none.rlim_cur = 4096; /* of 0 Linux thinks that it is not meant */
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	while (count < MANY && fgt_thread_store_add(&table, count + 1))
		count++;
	setrlimit(RLIMIT_DATA, &before);
	assert_in_range(count, 1, MANY - 1);
	assert_int_equal(table.count, count);
	for (int32_t i = 1; i <= count; i++)
		assert_non_null(fgt_thread_store_find(&table, i));
	assert_non_null(fgt_thread_store_add(&table, count + 1));
	fgt_thread_store_done(&table);
	/* Not even addresses. */
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	count = fgt_thread_store_init(&table);
	setrlimit(RLIMIT_AS, &before);
	assert_int_equal(count, -ENOMEM);
	fgt_thread_store_done(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			threads_stay_in_place_and_are_found_as_others_come),
		cmocka_unit_test(
			threads_stay_as_they_are_as_others_come_and_go),
		cmocka_unit_test(
			a_number_is_that_of_the_newest_also_after_growth),
		cmocka_unit_test(thousands_take_little_memory_and_give_it_back),
		cmocka_unit_test(without_memory_no_thread_is_added_or_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
