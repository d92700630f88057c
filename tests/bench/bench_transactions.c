/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transactions cost the threads that have them: begin and finish, kept
 * and not, alone and from several threads at once; recorded inside the process
 * and into a new directory, so that a worker cuts, encodes and writes
 * meanwhile. Prints nanoseconds; the budget of finish is 5000.
 */
#include <dirent.h>
#include <fgtrace.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DROPPED 100000
#define KEPT	2000
#define BATCH	32 /* kept transactions, before the worker is waited for */
#define THREADS 4

struct series {
	uint64_t *begin_ns, *finish_ns;
	size_t count;
	int kept;
};

static void measure(struct series *series, size_t count, int is_tagged)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t start_ns = fgt_now(), begun_ns, done_ns;
		struct fgt_transaction *one =
			fgt_transaction_begin("GET /cart", "http.server");

		begun_ns = fgt_now();
		if (is_tagged) {
			fgt_transaction_set_tag(one, "cart", "7");
			fgt_transaction_set_tag(one, "customer", "4711");
		}
		start_ns = begun_ns - start_ns;
		begun_ns = fgt_now();
		series->kept += fgt_transaction_finish(one) == 1;
		done_ns = fgt_now();
		series->begin_ns[series->count] = start_ns;
		series->finish_ns[series->count++] = done_ns - begun_ns;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_one(const char *what, uint64_t *ns, size_t count)
{
	qsort(ns, count, sizeof(*ns), compare);
	printf("%-40s p50 %6llu  p99 %6llu  p99.9 %7llu ns\n", what,
	       (unsigned long long)ns[count / 2],
	       (unsigned long long)ns[count * 99 / 100],
	       (unsigned long long)ns[count * 999 / 1000]);
}

static void print(const char *what, struct series *series)
{
	char text[64];

	snprintf(text, sizeof(text), "begin, %s", what);
	print_one(text, series->begin_ns, series->count);
	snprintf(text, sizeof(text), "finish, %s", what);
	print_one(text, series->finish_ns, series->count);
}

static struct series new_series(size_t count)
{
	return (struct series){
		.begin_ns = calloc(count, sizeof(uint64_t)),
		.finish_ns = calloc(count, sizeof(uint64_t)),
	};
}

static void free_series(struct series *series)
{
	free(series->begin_ns);
	free(series->finish_ns);
}

static int start(const char *directory, int is_kept)
{
	const struct fgt_options options = {
		.size = sizeof(options),
		.mode = FGT_EMBEDDED,
		.destination = directory,
		.min_gap_ns = UINT64_MAX,
		.max_per_hour = (unsigned int)-1,
		.min_duration_ns = is_kept ? 0 : 3600000000000u,
	};
	int r = fgt_start(&options);

	if (r < 0)
		fprintf(stderr, "fgt_start: %s\n", strerror(-r));
	return r;
}

static void *measure_dropped(void *series)
{
	measure(series, DROPPED / THREADS, 0);
	return NULL;
}

static void run_dropped(void)
{
	struct series series = new_series(DROPPED), each[THREADS];
	pthread_t threads[THREADS];

	measure(&series, DROPPED, 0);
	print("not kept", &series);
	for (int i = 0; i < THREADS; i++) {
		each[i] = new_series(DROPPED / THREADS);
		pthread_create(&threads[i], NULL, measure_dropped, &each[i]);
	}
	series.count = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		memcpy(series.begin_ns + series.count, each[i].begin_ns,
		       each[i].count * sizeof(uint64_t));
		memcpy(series.finish_ns + series.count, each[i].finish_ns,
		       each[i].count * sizeof(uint64_t));
		series.count += each[i].count;
		free_series(&each[i]);
	}
	print("not kept, 4 threads", &series);
	free_series(&series);
}

static void run_kept(void)
{
	struct series series = new_series(KEPT + BATCH);

	while (series.count < KEPT) {
		measure(&series, BATCH, 1);
		if (fgt_flush(60000) < 0)
			break;
	}
	print("kept, 2 tags", &series);
	printf("%d of %zu were kept\n", series.kept, series.count);
	free_series(&series);
}

static void remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	(void)rmdir(path);
}

int main(void)
{
	char directory[] = "/tmp/fgt-bench-XXXXXX";

	if (!mkdtemp(directory))
		return 1;
	if (start(directory, 0) == 0)
		run_dropped();
	fgt_stop();
	if (start(directory, 1) == 0)
		run_kept();
	fgt_stop();
	remove_directory(directory);
	return 0;
}
