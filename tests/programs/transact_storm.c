/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at once, and how long each waits for finish.
 */
#include "transact_storm.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <fgtrace.h>

#define STORM_THREADS 8

struct storm {
	pthread_t thread;
	int requests;
	long ms;
	int kept, full;
	uint64_t *finish_ns; /* [requests] */
};

static void *run_requests(void *context)
{
	struct storm *storm = context;

	for (int i = 0; i < storm->requests; i++) {
		struct fgt_transaction *one =
			fgt_transaction_begin("GET /slow", "http.server");
		uint64_t begin_ns;
		int r;

		nap_for_it(storm->ms);
		begin_ns = fgt_now();
		r = fgt_transaction_finish(one);
		storm->finish_ns[i] = fgt_now() - begin_ns;
		storm->kept += r == 1;
		storm->full += r == -ENOBUFS;
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void run_storm(int requests, long ms)
{
	struct storm storms[STORM_THREADS];
	int each = requests / STORM_THREADS, kept = 0, full = 0;
	uint64_t *all = calloc((size_t)requests + 1, sizeof(*all));

	for (int i = 0; i < STORM_THREADS; i++) {
		storms[i] = (struct storm){ .requests = each,
					    .ms = ms,
					    .finish_ns = all + i * each };
		pthread_create(&storms[i].thread, NULL, run_requests,
			       &storms[i]);
	}
	for (int i = 0; i < STORM_THREADS; i++) {
		pthread_join(storms[i].thread, NULL);
		kept += storms[i].kept;
		full += storms[i].full;
	}
	requests = each * STORM_THREADS;
	qsort(all, (size_t)requests, sizeof(*all), compare);
	printf("storm %d kept %d full %d p50 %" PRIu64 " p99 %" PRIu64
	       " max %" PRIu64 "\n",
	       requests, kept, full, all[requests / 2],
	       all[requests / 100 * 99], all[requests - 1]);
	free(all);
}
