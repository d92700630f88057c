/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a span costs its thread: begin and end together, the two looks at the
 * clock included, with and without a log; a mark, a task; and
 * with several threads at once. With an argument: only so many spans, for
 * callgrind. Prints one "name value unit" line each; nothing passes or fails.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/spans/journal.h"

#define ROUNDS	2000000
#define THREADS 4

static void span(void)
{
	uint64_t number;

	(void)fgt_span_begin("GET /cart/items", 0, &number);
	(void)fgt_span_end(number);
}

static void nested(void)
{
	(void)fgt_span_begin("outer", 0, NULL);
	span();
	(void)fgt_span_end(0);
}

static void mark(void)
{
	(void)fgt_mark("cache miss");
}

static void clock_twice(void)
{
	(void)fgt_now();
	(void)fgt_now();
}

static void task(void)
{
	uint64_t number;

	(void)fgt_task_begin("request", 0, &number);
	(void)fgt_task_end(number);
}

/* The best of five: disturbances only add time. */
static double cost_ns(void (*work)(void), int rounds)
{
	double best = 1e18;

	for (int try = 0; try < 5; try++) {
		uint64_t begin_ns = fgt_now();
		double ns;

		for (int i = 0; i < rounds; i++)
			work();
		ns = (double)(fgt_now() - begin_ns) / rounds;
		best = ns < best ? ns : best;
	}
	return best;
}

static void print(const char *name, double ns)
{
	printf("span.%s %.1f ns\n", name, ns);
}

static void *work_alone(void *ret_ns)
{
	uint64_t number;

	if (fgt_task_begin("thread", 0, &number))
		return NULL;
	*(double *)ret_ns = cost_ns(span, ROUNDS / 4);
	(void)fgt_task_end(number);
	return NULL;
}

/* Each thread on a separate task: shared state must not cost time. */
static void print_threads(void)
{
	pthread_t threads[THREADS];
	double ns[THREADS] = { 0 }, worst = 0;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work_alone, &ns[i]))
			exit(1);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		worst = ns[i] > worst ? ns[i] : worst;
	}
	printf("span.begin_and_end_%d_threads %.1f ns (the slowest thread, "
	       "wall time)\n",
	       THREADS, worst);
}

int main(int argc, char **argv)
{
	uint64_t number;

	if (fgt_task_begin("bench", 0, &number))
		return 1;
	if (argc > 1) {
		if (fgt_journal_open())
			return 1;
		for (int i = 0, count = atoi(argv[1]); i < count; i++)
			span();
		return 0;
	}
	print("clock_twice", cost_ns(clock_twice, ROUNDS));
	print("begin_and_end_without_log", cost_ns(span, ROUNDS));
	if (fgt_journal_open())
		return 1;
	print("begin_and_end", cost_ns(span, ROUNDS));
	print("two_nested", cost_ns(nested, ROUNDS / 2));
	print("mark", cost_ns(mark, ROUNDS));
	print("task_begin_and_end", cost_ns(task, ROUNDS / 4));
	print_threads();
	return 0;
}
