/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, numbers and limits of tasks and spans; the records, calls and ids that
 * they make in several threads and after a fork.
 */
#include "tests/unit/lib/tasks_kit.h"

/* ---- Numbers, names, limits --------------------------------------------- */

static void name_gets_the_lowest_free_number(void **state)
{
	uint64_t tasks[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		tasks[i] = begin_task("name", 0);
	assert_name(tasks[0], "name#0");
	assert_name(tasks[2], "name#2");
	end_task(tasks[2]);
	end_task(tasks[1]);
	tasks[1] = begin_task("name", 0);
	assert_name(tasks[1], "name#1");
	end_task(tasks[1]);
	end_task(tasks[0]);
}

static void invalid_name_is_refused(void **state)
{
	uint64_t task = 0;

	(void)state;
	assert_int_equal(fgt_task_begin("", 0, &task), -EINVAL);
	assert_int_equal(fgt_task_begin("a#b", 0, &task), -EINVAL);
	assert_int_equal(fgt_task_begin(NULL, 0, &task), -EINVAL);
	assert_int_equal(task, 0);
	task = begin_task("t", 0);
	assert_int_equal(fgt_span_begin("x#1", 0, NULL), -EINVAL);
	assert_int_equal(fgt_mark(""), -EINVAL);
	assert_int_equal(fgt_counter("c", (double)NAN), -EINVAL);
	end_task(task);
}

static void long_name_is_cut_between_characters(void **state)
{
	char name[80], expected[80];
	uint64_t task;

	(void)state;
	memset(name, 'x', sizeof(name));
	/* "€" from byte 62 on does not fit whole. */
	memcpy(name + 62, "\xe2\x82\xac", 4);
	task = begin_task(name, 0);
	memset(expected, 'x', 62);
	memcpy(expected + 62, "#0", 3);
	assert_name(task, expected);
	end_task(task);
}

static void unknown_number_is_refused(void **state)
{
	uint64_t task = begin_task("t", 0), span = begin_span("s", 0);

	(void)state;
	assert_int_equal(fgt_span_end(span + FGT_NUMBER_SERIAL_ONE), -EINVAL);
	assert_int_equal(fgt_task_end(task + 100 * FGT_NUMBER_SERIAL_ONE),
			 -EINVAL);
	assert_int_equal(fgt_span_end(task), -EINVAL);
	assert_int_equal(fgt_task_end(span), -EINVAL);
	assert_int_equal(fgt_task_end(2), -EINVAL);
	assert_int_equal(fgt_task_enter(UINT64_MAX - 1), -EINVAL);
	end_span(span);
	assert_int_equal(fgt_span_begin("below", span, NULL), -EINVAL);
	end_task(task);
	assert_int_equal(fgt_span_begin("below", task, NULL), -EINVAL);
}

static void depth_and_number_of_tasks_are_limited(void **state)
{
	static uint64_t tasks[FGT_TASKS_MAX];
	uint64_t task = begin_task("deep", 0), one_more = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		begin_span("level", 0);
	assert_int_equal(fgt_span_begin("level", 0, NULL), -ENOSPC);
	for (int i = 0; i < 64; i++)
		end_span(0);
	assert_int_equal(fgt_span_end(0), -ENOTCONN);
	tasks[0] = task;
	for (uint32_t i = 1; i < FGT_TASKS_MAX; i++)
		tasks[i] = begin_task("many", task);
	assert_int_equal(fgt_task_begin("many", 0, &one_more), -ENOSPC);
	assert_int_equal(active_tasks(), FGT_TASKS_MAX);
	for (uint32_t i = FGT_TASKS_MAX; i-- > 0;)
		end_task(tasks[i]);
}

static void slots_and_names_are_reused(void **state)
{
	uint64_t first = begin_task("first", 0);

	(void)state;
	end_task(first);
	for (uint32_t i = 0; i < 3 * FGT_TASK_SLOTS; i++) {
		char name[24];

		snprintf(name, sizeof(name), "name-%u", i);
		end_task(begin_task(name, 0));
	}
	/* The number is stale, and known to be. */
	end_task(first);
	assert_int_equal(active_tasks(), 0);
}

/* ---- Threads and tasks -------------------------------------------------- */

static void *enter_and_work(void *context)
{
	uint64_t task = *(uint64_t *)context, span = 0;

	if (fgt_task_enter(task) || fgt_span_begin("there", 0, &span) ||
	    fgt_span_end(span))
		return context;
	return NULL;
}

static void enter_makes_a_task_of_another_thread_current(void **state)
{
	uint64_t task = begin_task("shared", 0);
	pthread_t thread;
	void *failure;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, enter_and_work, &task),
			 0);
	pthread_join(thread, &failure);
	assert_null(failure);
	end_task(task);
}

static void end_makes_the_previous_task_current(void **state)
{
	uint64_t outer = begin_task("outer", 0), inner = begin_task("inner", 0);
	uint64_t span;

	(void)state;
	end_task(inner);
	span = begin_span("of outer", 0);
	assert_int_equal(find(FGT_SPAN_BEGIN, span).record.owner, outer);
	end_span(span);
	end_task(outer);
}

/* Misuse: two threads on one task. It must not crash, and the depth is
 * right. */
static void *struggle(void *context)
{
	uint64_t task = *(uint64_t *)context;

	(void)fgt_task_enter(task);
	for (int i = 0; i < 20000; i++) {
		uint64_t span = 0;

		if (fgt_span_begin("struggle", 0, &span) == 0 && i % 3)
			(void)fgt_span_end(span);
		if (i % 3 == 0)
			(void)fgt_span_end(0);
	}
	return NULL;
}

static void threads_that_share_a_task_keep_its_depth(void **state)
{
	uint64_t task = begin_task("fought", 0);
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, struggle, &task), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	while (fgt_span_end(0) == 0)
		;
	end_task(task);
}

/* ---- Ids, calls, records ------------------------------------------------- */

static void ids_list_tasks_and_spans(void **state)
{
	char line[200], shorter[8], ids[4][FGT_NUMBER_TEXT_SIZE];
	uint64_t numbers[4];
	char expected[200];

	(void)state;
	assert_int_equal(fgt_span_ids(line, sizeof(line)), 6);
	assert_string_equal(line, "NOSPAN");
	numbers[0] = begin_task("a", 0);
	numbers[1] = begin_task("b", 0);
	numbers[2] = begin_span("c", 0);
	numbers[3] = begin_span("d", 0);
	for (int i = 0; i < 4; i++)
		fgt_number_text(numbers[i], ids[i]);
	snprintf(expected, sizeof(expected), "%s$%s$%s.%s", ids[0], ids[1],
		 ids[2], ids[3]);
	assert_int_equal(fgt_span_ids(line, sizeof(line)), strlen(expected));
	assert_string_equal(line, expected);
	/* The result is that of snprintf(3): the length without the cut. */
	assert_int_equal(fgt_span_ids(shorter, sizeof(shorter)),
			 strlen(expected));
	assert_memory_equal(shorter, expected, 7);
	assert_int_equal(shorter[7], 0);
	assert_int_equal(fgt_span_ids(NULL, 0), strlen(expected));
	end_span(numbers[3]);
	end_span(numbers[2]);
	end_task(numbers[1]);
	assert_int_equal(fgt_span_ids(line, sizeof(line)), strlen(ids[0]));
	end_task(numbers[0]);
}

static struct {
	int calls;
	char name[80], task[80];
	uint64_t begin_ns, end_ns;
} ended;

static void see_end(void *context, const struct fgt_span_end *end)
{
	ended.calls += *(int *)context;
	snprintf(ended.name, sizeof(ended.name), "%s", end->name);
	snprintf(ended.task, sizeof(ended.task), "%s", end->task);
	ended.begin_ns = end->begin_ns;
	ended.end_ns = end->end_ns;
}

static void function_is_called_for_spans_that_begin_later(void **state)
{
	static int one = 1;
	uint64_t task = begin_task("job", 0), before = begin_span("before", 0);
	uint64_t start_ns = fgt_now();

	(void)state;
	assert_int_equal(fgt_on_span_end(NULL, NULL), -EINVAL);
	assert_int_equal(fgt_on_span_end(see_end, &one), 0);
	end_span(before);
	assert_int_equal(ended.calls, 0); /* it began before */
	end_span(begin_span("later", 0));
	assert_int_equal(ended.calls, 1);
	assert_string_equal(ended.name, "later");
	assert_string_equal(ended.task, "job#0");
	assert_true(ended.begin_ns >= start_ns &&
		    ended.end_ns >= ended.begin_ns);
	end_task(task);
	for (int i = 0; i < 7; i++)
		assert_int_equal(fgt_on_span_end(see_end, &one), 0);
	assert_int_equal(fgt_on_span_end(see_end, &one), -ENOSPC);
}

static void log_has_all_records(void **state)
{
	uint64_t task = begin_task("sayer", 0), span = begin_span("span", 0);
	struct wanted wanted;

	(void)state;
	assert_int_equal(fgt_mark("a mark"), 0);
	assert_int_equal(fgt_counter("queue", 2.5), 0);
	assert_int_equal(fgt_label("user", "ann"), 0);
	assert_string_equal(find(FGT_SPAN_MARK, 0).text, "a mark");
	wanted = find(FGT_SPAN_COUNTER, 0);
	assert_string_equal(wanted.text, "queue");
	assert_true(wanted.record.value == 2.5);
	wanted = find(FGT_SPAN_LABEL, span);
	assert_string_equal(wanted.key, "user");
	assert_string_equal(wanted.text, "ann");
	end_span(span);
	wanted = find(FGT_SPAN_END, span);
	assert_string_equal(wanted.text, "span");
	assert_int_equal(wanted.record.owner, task);
	assert_int_equal(wanted.record.tid, gettid());
	assert_true(wanted.record.end_ns > wanted.record.begin_ns);
	end_task(task);
	assert_true(find(FGT_SPAN_TASK_END, task).is_found);
}

static void live_tasks_and_spans_are_rewritten(void **state)
{
	uint64_t task = begin_task("old", 0), span = begin_span("old span", 0);
	uint64_t busy = begin_task("busy", 0);

	(void)state;
	for (int i = 0; i < 60000; i++) {
		end_span(begin_span("busy span", busy));
		if (i % 1000 == 0)
			fgt_tasks_rewrite();
	}
	assert_true(find(FGT_SPAN_BEGIN, span).record.is_again);
	assert_string_equal(find(FGT_SPAN_TASK_BEGIN, task).text, "old#0");
	end_task(busy);
	end_span(span);
	end_task(task);
}

/* ---- Fork --------------------------------------------------------------- */

static int check_child(uint64_t task, uint64_t span)
{
	uint64_t fresh = 0;
	char line[40];

	if (fgt_span_begin("x", 0, NULL) != -ECHILD ||
	    fgt_task_begin("x", 0, &fresh) != -ECHILD ||
	    fgt_span_end(span) != -ECHILD || fgt_task_end(task) != -ECHILD ||
	    fgt_task_enter(0) != -ECHILD || fgt_mark("x") != -ECHILD ||
	    fgt_counter("x", 1) != -ECHILD || fgt_label("x", "y") != -ECHILD)
		return 1;
	if (fgt_span_ids(line, sizeof(line)) != 6 || fgt_journal_log())
		return 2;
	fgt_journal_resume();
	if (fgt_task_end(task) || fgt_span_end(span))
		return 3; /* numbers of the parent are stale */
	if (fgt_span_begin("x", 0, NULL) != -ENOTCONN)
		return 4;
	if (fgt_task_begin("x", task, &fresh) || fresh == task ||
	    fgt_span_begin("x", 0, &span) || fgt_span_end(span) ||
	    fgt_task_end(fresh))
		return 5;
	return 0;
}

static void child_of_a_fork_has_no_tasks(void **state)
{
	uint64_t task = begin_task("parent", 0), span = begin_span("span", 0);
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(check_child(task, span));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end_span(span);
	assert_true(find(FGT_SPAN_END, span).is_found);
	end_task(task);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLEAN(name_gets_the_lowest_free_number),
		CLEAN(invalid_name_is_refused),
		CLEAN(long_name_is_cut_between_characters),
		CLEAN(unknown_number_is_refused),
		CLEAN(depth_and_number_of_tasks_are_limited),
		CLEAN(slots_and_names_are_reused),
		CLEAN(enter_makes_a_task_of_another_thread_current),
		CLEAN(end_makes_the_previous_task_current),
		CLEAN(threads_that_share_a_task_keep_its_depth),
		CLEAN(ids_list_tasks_and_spans),
		CLEAN(function_is_called_for_spans_that_begin_later),
		CLEAN(log_has_all_records),
		CLEAN(live_tasks_and_spans_are_rewritten),
		CLEAN(child_of_a_fork_has_no_tasks),
	};

	if (fgt_journal_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
