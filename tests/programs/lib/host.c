/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses libfgtrace: C99, POSIX. It has four threads, and answers
 * each line of its standard input with one line.
 *
 * start MODE SOCKET TIMEOUT_MS · stop · slice MS [FILE] · ahead MS · many N MS
 * rows THREADS N MS · write MS FILE
 * status · fork · fds · threads · burn MS · time N MS · flush MS · crash
 * load (some libraries) · close (all that it did not open) · span NAME
 * fill (all numbers of files) · free (them) · spawn MS (a thread that burns)
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fgtrace.h>

#define MS	   ((uint64_t)1000000)
#define MANY_MAX   64
#define ROUNDS_MAX 1000
#define FILL_MAX   4096

static volatile uint64_t sink;

void burn_in_host(uint64_t ms);
void *sleep_in_host(void *unused);
void *late_in_host(void *ms);

void burn_in_host(uint64_t ms)
{
	uint64_t end_ns = fgt_now() + ms * MS;

	while (fgt_now() < end_ns)
		for (int i = 0; i < 1000; i++)
			sink = sink * 31 + 7;
}

void *sleep_in_host(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

void *late_in_host(void *ms)
{
	burn_in_host((uint64_t)(uintptr_t)ms);
	return NULL;
}

static void print_slice(int result, const struct fgt_slice *slice, uint64_t ns)
{
	struct fgt_slice_info info;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	if (slice)
		(void)fgt_slice_get_info(slice, &info);
	printf("slice %d %" PRIu64 " %u %lu %" PRIu64 " %d\n", result,
	       info.ticks, info.threads, (unsigned long)info.bytes, ns,
	       info.caller_tid);
}

static int write_file(const struct fgt_slice *slice, enum fgt_format format,
		      const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r;

	if (fd < 0)
		abort();
	r = fgt_slice_write(slice, format, fd);
	close(fd);
	return r;
}

/* In every format: path.0, path.1, … */
static void write_all(uint64_t ms, const char *path)
{
	struct fgt_slice *slice = NULL;
	uint64_t now_ns = fgt_now();
	int r = fgt_get_slice(now_ns - ms * MS, now_ns, &slice);
	char name[300];

	printf("write %d", r);
	for (int i = FGT_FORMAT_FGT; r == 0 && i <= FGT_FORMAT_OTLP; i++) {
		snprintf(name, sizeof(name), "%s.%d", path, i);
		printf(" %d", write_file(slice, (enum fgt_format)i, name));
	}
	printf("\n");
	fgt_slice_free(slice);
}

static void take(uint64_t from_ns, uint64_t to_ns, const char *path)
{
	struct fgt_slice *slice = NULL;
	uint64_t begun_ns = fgt_now();
	int r = fgt_get_slice(from_ns, to_ns, &slice);

	print_slice(r, slice, fgt_now() - begun_ns);
	if (r == 0 && path && write_file(slice, FGT_FORMAT_FGT, path) != 0)
		abort();
	fgt_slice_free(slice);
}

struct job {
	pthread_t thread;
	uint64_t ms;
	int result;
};

static void *take_one(void *context)
{
	struct job *job = context;
	struct fgt_slice *slice = NULL;
	uint64_t now_ns = fgt_now();

	job->result = fgt_get_slice(now_ns - job->ms * MS, now_ns, &slice);
	fgt_slice_free(slice);
	return NULL;
}

/* At the same time, each on a thread. */
static void take_many(int count, uint64_t ms)
{
	struct job jobs[MANY_MAX];

	if (count > MANY_MAX)
		count = MANY_MAX;
	for (int i = 0; i < count; i++) {
		jobs[i].ms = ms;
		pthread_create(&jobs[i].thread, NULL, take_one, &jobs[i]);
	}
	printf("many");
	for (int i = 0; i < count; i++) {
		pthread_join(jobs[i].thread, NULL);
		printf(" %d", jobs[i].result);
	}
	printf("\n");
}

/* One after the other, without a pause. */
struct row {
	pthread_t thread;
	uint64_t ms;
	int count, failed, error;
};

static void *take_row(void *context)
{
	struct row *row = context;

	for (int i = 0; i < row->count; i++) {
		struct fgt_slice *slice = NULL;
		uint64_t now_ns = fgt_now();
		int r = fgt_get_slice(now_ns - row->ms * MS, now_ns, &slice);

		fgt_slice_free(slice);
		if (r == 0)
			continue;
		row->failed++;
		row->error = r;
	}
	return NULL;
}

/* How many failed, and the last error of each thread. */
static void take_rows(int threads, int count, uint64_t ms)
{
	struct row rows[MANY_MAX];
	int failed = 0;

	if (threads > MANY_MAX)
		threads = MANY_MAX;
	memset(rows, 0, sizeof(rows));
	for (int i = 0; i < threads; i++) {
		rows[i].ms = ms;
		rows[i].count = count;
		pthread_create(&rows[i].thread, NULL, take_row, &rows[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(rows[i].thread, NULL);
		failed += rows[i].failed;
	}
	printf("rows %d", failed);
	for (int i = 0; i < threads; i++)
		printf(" %d", rows[i].error);
	printf("\n");
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void time_many(int count, uint64_t ms)
{
	static uint64_t took_ns[ROUNDS_MAX];
	int done = 0;

	for (int i = 0; i < count && i < ROUNDS_MAX; i++) {
		struct fgt_slice *slice = NULL;
		uint64_t now_ns = fgt_now();

		if (fgt_get_slice(now_ns - ms * MS, now_ns, &slice) == 0)
			took_ns[done++] = fgt_now() - now_ns;
		fgt_slice_free(slice);
	}
	qsort(took_ns, (size_t)done, sizeof(took_ns[0]), compare);
	printf("time %d %" PRIu64 " %" PRIu64 "\n", done,
	       done ? took_ns[done / 2] : 0, done ? took_ns[done - 1] : 0);
}

static int start(const char *mode, const char *socket, unsigned int timeout_ms)
{
	struct fgt_options options;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.mode = strcmp(mode, "agent") == 0      ? FGT_AGENT
		       : strcmp(mode, "embedded") == 0 ? FGT_EMBEDDED
						       : FGT_AUTO;
	options.socket = socket;
	options.timeout_ms = timeout_ms;
	return fgt_start(&options);
}

static void print_status(void)
{
	struct fgt_status status;
	int r;

	memset(&status, 0, sizeof(status));
	status.size = sizeof(status);
	r = fgt_get_status(&status);
	printf("status %d %d %d %.1f %" PRIu64 " %s\n", r, (int)status.mode,
	       status.is_recording, status.hz, status.slices,
	       status.limitation);
}

/* In the child: results of a slice, of a start, and of a slice after it. */
static void use_after_fork(const char *mode, const char *socket)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct fgt_slice *slice = NULL;
		int before = fgt_get_slice(0, fgt_now(), &slice);
		int started = start(mode, socket, 3000);
		int after;

		burn_in_host(300);
		after = fgt_get_slice(0, fgt_now(), &slice);
		printf("fork %d %d %d\n", before, started, after);
		fflush(stdout);
		fgt_slice_free(slice);
		fgt_stop();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		abort();
}

static int count_entries(const char *path)
{
	DIR *folder = opendir(path);
	int count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 2;
}

static void load_some(void)
{
	static const char *const names[] = { "libresolv.so.2", "libm.so.6",
					     "libutil.so.1", "librt.so.1" };
	int count = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		count += dlopen(names[i], RTLD_NOW) != NULL;
	printf("load %d\n", count);
}

/* Daemons close all descriptors when they start. */
static void close_all(void)
{
	for (int fd = STDERR_FILENO + 1; fd < 4096; fd++)
		close(fd);
	printf("close\n");
}

static int filled[FILL_MAX], filled_count;

/* Until no descriptor is left. */
static void fill(void)
{
	int fd;

	while (filled_count < FILL_MAX && (fd = dup(STDERR_FILENO)) >= 0)
		filled[filled_count++] = fd;
	printf("fill %d\n", filled_count);
}

static void free_filled(void)
{
	while (filled_count)
		close(filled[--filled_count]);
	printf("free\n");
}

static void spawn(uint64_t ms)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, late_in_host,
			       (void *)(uintptr_t)ms);

	if (r == 0)
		pthread_detach(thread);
	printf("spawn %d\n", r);
}

static void make_span(const char *name)
{
	uint64_t task = 0;
	int r = fgt_task_begin("job", 0, &task);

	if (r == 0)
		r = fgt_span_begin(name, 0, NULL);
	if (r == 0)
		r = fgt_span_end(0);
	if (r == 0)
		r = fgt_task_end(task);
	printf("span %d\n", r);
}

static void obey(const char *line)
{
	static char mode[16] = "agent", socket[108];
	char path[256] = "";
	unsigned int timeout_ms = 0;
	uint64_t ms;
	int threads, count;

	if (sscanf(line, "start %15s %107s %u", mode, socket, &timeout_ms) == 3)
		printf("start %d\n", start(mode, socket, timeout_ms));
	else if (strcmp(line, "stop\n") == 0)
		fgt_stop(), printf("stop\n");
	else if (sscanf(line, "slice %" SCNu64 " %255s", &ms, path) >= 1)
		take(fgt_now() - ms * MS, fgt_now(), path[0] ? path : NULL);
	else if (sscanf(line, "ahead %" SCNu64, &ms) == 1)
		take(fgt_now(), fgt_now() + ms * MS, NULL);
	else if (sscanf(line, "many %d %" SCNu64, &count, &ms) == 2)
		take_many(count, ms);
	else if (sscanf(line, "rows %d %d %" SCNu64, &threads, &count, &ms) ==
		 3)
		take_rows(threads, count, ms);
	else if (sscanf(line, "write %" SCNu64 " %255s", &ms, path) == 2)
		write_all(ms, path);
	else if (sscanf(line, "time %d %" SCNu64, &count, &ms) == 2)
		time_many(count, ms);
	else if (sscanf(line, "burn %" SCNu64, &ms) == 1)
		burn_in_host(ms), printf("burn\n");
	else if (sscanf(line, "flush %u", &timeout_ms) == 1)
		printf("flush %d\n", fgt_flush(timeout_ms));
	else if (strcmp(line, "status\n") == 0)
		print_status();
	else if (strcmp(line, "fork\n") == 0)
		use_after_fork(mode, socket);
	else if (strcmp(line, "fds\n") == 0)
		printf("fds %d\n", count_entries("/proc/self/fd"));
	else if (strcmp(line, "threads\n") == 0)
		printf("threads %d\n", count_entries("/proc/self/task"));
	else if (strcmp(line, "load\n") == 0)
		load_some();
	else if (strcmp(line, "close\n") == 0)
		close_all();
	else if (strcmp(line, "fill\n") == 0)
		fill();
	else if (strcmp(line, "free\n") == 0)
		free_filled();
	else if (sscanf(line, "spawn %" SCNu64, &ms) == 1)
		spawn(ms);
	else if (sscanf(line, "span %255s", path) == 1)
		make_span(path);
	else if (strcmp(line, "crash\n") == 0)
		abort();
	else
		printf("what?\n");
	fflush(stdout);
}

int main(void)
{
	pthread_t threads[3];
	char line[512];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, sleep_in_host, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	fgt_stop();
	return 0;
}
