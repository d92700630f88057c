/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose spans "checkout" take 20 ms; one in twenty takes 120 ms, all
 * of which it spends in another function. The label trace_id of each is its
 * number, from 1 on, as 32 hex digits.
 *
 * slow_spans COUNT: "ready PID" at the beginning; at the end "done SLOW", the
 * number of slow ones; then it waits for the end of its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <fgtrace.h>

#define STEP __attribute__((noinline))

static volatile unsigned int g_sum;

static void burn_ms(unsigned int ms)
{
	uint64_t end = fgt_now() + ms * UINT64_C(1000000);

	while (fgt_now() < end)
		for (unsigned int i = 0; i < 1000; i++)
			g_sum += i;
}

STEP void compute_price(void)
{
	burn_ms(20);
	__asm__ volatile("");
}

STEP void retry_payment(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	nanosleep(&pause, NULL);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	unsigned int count = argc == 2 ? (unsigned int)atoi(argv[1]) : 0;
	unsigned int slow = 0;
	uint64_t task;
	char byte, trace[33];

	if (!count || fgt_start(NULL) < 0 ||
	    fgt_task_begin("shop", 0, &task) < 0)
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (unsigned int i = 1; i <= count; i++) {
		uint64_t span;

		snprintf(trace, sizeof(trace), "%032x", i);
		fgt_span_begin("checkout", 0, &span);
		fgt_label("trace_id", trace);
		compute_price();
		if (i % 20 == 0) {
			retry_payment();
			slow++;
		}
		fgt_span_end(span);
		burn_ms(2);
	}
	printf("done %u\n", slow);
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
