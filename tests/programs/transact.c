/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses libfgtrace, controlled by lines on standard input, for
 * tests/integration/test_transactions.py:
 *   transact [key=value …]    options of fgt_start(), see set_option()
 * Answers each line with one line; times are in ns.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fgtrace.h>

#include "transact_storm.h"

#define HELPERS 8

static struct fgt_options options = { .size = sizeof(options) };
static struct fgt_transaction *transaction;
static atomic_int helpers_shall_end, helpers_ready;
static pthread_t helpers[HELPERS];
static int helper_count;

/* ---- Work that is to be seen ------------------------------------------- */

__attribute__((noinline)) void burn_for_it(uint64_t until_ns)
{
	static volatile uint64_t sum;

	while (fgt_now() < until_ns)
		for (int i = 0; i < 1000; i++)
			sum += (uint64_t)i;
}

__attribute__((noinline)) void burn_beside_it(uint64_t until_ns)
{
	burn_for_it(until_ns);
	__asm__ volatile("");
}

__attribute__((noinline)) void nap_for_it(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	__asm__ volatile("");
}

static void *help(void *is_adopted)
{
	if (is_adopted)
		fgt_transaction_adopt(transaction);
	nap_for_it(30); /* it is sampled first with the parent's name */
	pthread_setname_np(pthread_self(), is_adopted ? "adopted" : "stranger");
	atomic_fetch_add(&helpers_ready, 1);
	while (!atomic_load(&helpers_shall_end))
		burn_beside_it(fgt_now() + 1000000);
	if (is_adopted)
		fgt_transaction_leave(transaction);
	return NULL;
}

static void start_helper(int is_adopted)
{
	if (helper_count < HELPERS &&
	    pthread_create(&helpers[helper_count], NULL, help,
			   is_adopted ? &helpers : NULL) == 0)
		helper_count++;
	while (atomic_load(&helpers_ready) < helper_count)
		nap_for_it(1);
}

/* A thread of a pool: its samples before and after belong to other work. */
static void *take_part(void *unused)
{
	uint64_t task;

	pthread_setname_np(pthread_self(), "pooled");
	burn_beside_it(fgt_now() + 300000000);
	fgt_task_begin("pool", 0, &task);
	fgt_span_begin("outside", 0, NULL);
	fgt_span_end(0);
	fgt_transaction_adopt(transaction);
	fgt_span_begin("inside", 0, NULL);
	burn_for_it(fgt_now() + 300000000);
	fgt_span_end(0);
	fgt_transaction_leave(transaction);
	fgt_span_begin("outside", 0, NULL);
	burn_beside_it(fgt_now() + 300000000);
	fgt_span_end(0);
	fgt_task_end(task);
	return unused;
}

static void end_helpers(void)
{
	atomic_store(&helpers_shall_end, 1);
	while (helper_count > 0)
		pthread_join(helpers[--helper_count], NULL);
	atomic_store(&helpers_shall_end, 0);
	atomic_store(&helpers_ready, 0);
}

/* ---- Ends -------------------------------------------------------------- */

__attribute__((noinline)) static void use_up_memory(void)
{
	const size_t step = 1 << 20;

	for (;;) {
		char *block = malloc(step);

		if (block)
			memset(block, 1, step);
	}
}

static void end_as(const char *how)
{
	static char *const sleeper[] = { "sleep", "60", NULL };
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	if (!strcmp(how, "segv"))
		*(volatile int *)8 = 1;
	else if (!strcmp(how, "abort"))
		abort();
	else if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "oom"))
		use_up_memory();
	else if (!strcmp(how, "exit"))
		exit(3);
	else if (!strcmp(how, "_exit"))
		_exit(1);
	else if (!strcmp(how, "exec"))
		execvp(sleeper[0], sleeper);
}

/* ---- Lines ------------------------------------------------------------- */

/* A line's words after the verb, "" if there are none, and all of them. */
struct words {
	char a[1024], b[1024];
	const char *text;
};

static void print_status(const struct words *words)
{
	struct fgt_status status = { .size = sizeof(status) };
	int r = fgt_get_status(&status);

	(void)words;
	printf("status %d recording %d mode %d transactions %" PRIu64
	       " kept %" PRIu64 " dropped %" PRIu64 " delivered %" PRIu64
	       " undelivered %" PRIu64 "\n",
	       r, status.is_recording, (int)status.mode, status.transactions,
	       status.kept, status.dropped, status.delivered,
	       status.undelivered);
}

static void begin(const struct words *words)
{
	transaction =
		fgt_transaction_begin(words->a, *words->b ? words->b : NULL);
	printf("begin %d\n", transaction != NULL);
}

static void finish(const struct words *words)
{
	uint64_t begin_ns;
	int r;

	(void)words;
	end_helpers();
	begin_ns = fgt_now();
	r = fgt_transaction_finish(transaction);
	printf("finish %d %" PRIu64 "\n", r, fgt_now() - begin_ns);
	transaction = NULL;
}

static void drop(const struct words *words)
{
	(void)words;
	fgt_transaction_drop(transaction);
	transaction = NULL;
	puts("drop 0");
}

static void set_name(const struct words *words)
{
	printf("name %d\n", fgt_transaction_set_name(transaction, words->text));
}

static void set_parent(const struct words *words)
{
	printf("parent %d\n",
	       fgt_transaction_set_parent(transaction, words->a));
}

static void set_tag(const struct words *words)
{
	printf("tag %d\n",
	       fgt_transaction_set_tag(transaction, words->a, words->b));
}

static void set_result(const struct words *words)
{
	printf("result %d\n",
	       fgt_transaction_set_status(transaction, words->a));
}

static void trace(const struct words *words)
{
	char text[50] = "";
	int r = fgt_transaction_get_trace(transaction, text, sizeof(text));

	(void)words;
	printf("trace %d %s\n", r, text);
}

static void burn(const struct words *words)
{
	burn_for_it(fgt_now() + strtoull(words->a, NULL, 10) * 1000000);
	puts("burn 0");
}

static void nap(const struct words *words)
{
	nap_for_it(atol(words->a));
	puts("nap 0");
}

static void adopt(const struct words *words)
{
	(void)words;
	start_helper(1);
	puts("helper 0");
}

static void pool(const struct words *words)
{
	pthread_t thread;

	(void)words;
	if (pthread_create(&thread, NULL, take_part, NULL) == 0)
		pthread_join(thread, NULL);
	puts("pool 0");
}

static void look_on(const struct words *words)
{
	(void)words;
	start_helper(0);
	puts("helper 0");
}

static void begin_task(const struct words *words)
{
	uint64_t task;

	printf("task %d\n", fgt_task_begin(words->a, 0, &task));
}

static void begin_span(const struct words *words)
{
	printf("span %d\n", fgt_span_begin(words->a, 0, NULL));
}

static void end_span(const struct words *words)
{
	(void)words;
	printf("endspan %d\n", fgt_span_end(0));
}

static void storm(const struct words *words)
{
	run_storm(atoi(words->a), atol(words->b));
}

static void flush(const struct words *words)
{
	printf("flush %d\n", fgt_flush((unsigned int)atoi(words->a)));
}

static void upload(const struct words *words)
{
	struct fgt_slice *slice = NULL;
	uint64_t now_ns = fgt_now();
	int r = fgt_get_slice(now_ns - strtoull(words->a, NULL, 10) * 1000000,
			      now_ns, &slice);

	if (r == 0)
		r = fgt_slice_upload(slice, *words->b ? words->b : NULL);
	fgt_slice_free(slice);
	printf("upload %d\n", r);
}

static void write_slice(const struct words *words)
{
	struct fgt_slice *slice = NULL;
	uint64_t now_ns = fgt_now();
	int fd = open(words->b, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fgt_get_slice(now_ns - strtoull(words->a, NULL, 10) * 1000000,
			      now_ns, &slice);

	if (r == 0)
		r = fgt_slice_write(slice, FGT_FORMAT_SENTRY, fd);
	fgt_slice_free(slice);
	close(fd);
	printf("write %d\n", r);
}

static void fork_and_finish(const struct words *words)
{
	pid_t pid = fork();
	int status = -1;

	(void)words;
	if (pid == 0) {
		int r = fgt_transaction_finish(transaction);

		_exit(r == -ECHILD && !fgt_transaction_begin("x", NULL) ? 0
									: 1);
	}
	waitpid(pid, &status, 0);
	printf("fork %d\n", status);
}

/* A child without fork handlers: it has all descriptors of this process. */
static void leave_heir(const struct words *words)
{
	pid_t pid = _Fork();

	if (pid == 0) {
		alarm((unsigned int)atoi(words->a));
		for (;;)
			pause();
	}
	printf("heir %d\n", pid > 0);
}

static void stop(const struct words *words)
{
	(void)words;
	fgt_stop();
	puts("stop 0");
}

static void end(const struct words *words)
{
	end_as(words->a);
}

static const struct {
	const char *name;
	void (*run)(const struct words *words);
} verbs[] = {
	{ "begin", begin },
	{ "finish", finish },
	{ "drop", drop },
	{ "name", set_name },
	{ "parent", set_parent },
	{ "tag", set_tag },
	{ "result", set_result },
	{ "trace", trace },
	{ "burn", burn },
	{ "nap", nap },
	{ "adopted", adopt },
	{ "stranger", look_on },
	{ "pool", pool },
	{ "storm", storm },
	{ "flush", flush },
	{ "upload", upload },
	{ "write", write_slice },
	{ "status", print_status },
	{ "fork", fork_and_finish },
	{ "heir", leave_heir },
	{ "stop", stop },
	{ "end", end },
	{ "task", begin_task },
	{ "span", begin_span },
	{ "endspan", end_span },
};

static void obey(const char *line)
{
	struct words words = { .text = "" };
	char verb[32] = "";
	int at = 0;

	sscanf(line, "%31s %n", verb, &at);
	words.text = line + at;
	sscanf(words.text, "%1023s %1023s", words.a, words.b);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verb, verbs[i].name)) {
			verbs[i].run(&words);
			return;
		}
	printf("unknown verb %s\n", verb);
}

/* ---- Start ------------------------------------------------------------- */

static int keep_some(void *context, const struct fgt_transaction_info *info)
{
	(void)context;
	return strncmp(info->name, "keep", 4) == 0 &&
	       strlen(info->trace_id) == 32 && info->end_ns > info->begin_ns;
}

static void log_line(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "%s\n", line);
}

static int set_option(const char *key, char *value)
{
	if (!strcmp(key, "mode"))
		options.mode = !strcmp(value, "agent")	    ? FGT_AGENT
			       : !strcmp(value, "embedded") ? FGT_EMBEDDED
							    : FGT_AUTO;
	else if (!strcmp(key, "socket"))
		options.socket = value;
	else if (!strcmp(key, "destination"))
		options.destination = value;
	else if (!strcmp(key, "release"))
		options.release = value;
	else if (!strcmp(key, "environment"))
		options.environment = value;
	else if (!strcmp(key, "sample_rate"))
		options.sample_rate = atof(value);
	else if (!strcmp(key, "min_ms"))
		options.min_duration_ns = strtoull(value, NULL, 10) * 1000000;
	else if (!strcmp(key, "keep_errors"))
		options.keep_errors = atoi(value);
	else if (!strcmp(key, "decide"))
		options.decide = keep_some;
	else if (!strcmp(key, "gap_ms"))
		options.min_gap_ns = strtoull(value, NULL, 10) * 1000000;
	else if (!strcmp(key, "no_gap"))
		options.min_gap_ns = UINT64_MAX;
	else if (!strcmp(key, "per_hour"))
		options.max_per_hour = (unsigned int)strtoul(value, NULL, 10);
	else if (!strcmp(key, "hz"))
		options.hz = (unsigned int)atoi(value);
	else if (!strcmp(key, "ring_seconds"))
		options.ring_seconds = (unsigned int)atoi(value);
	else if (!strcmp(key, "ca_file"))
		options.ca_file = value;
	else if (!strcmp(key, "spool_dir"))
		options.spool_dir = value;
	else if (!strcmp(key, "allow_http"))
		options.allow_http = atoi(value);
	else if (!strcmp(key, "threads"))
		options.threads = FGT_THREADS_ADOPTED;
	else
		return -EINVAL;
	return 0;
}

int main(int argc, char **argv)
{
	char line[2048];
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options.log = log_line;
	for (int i = 1; i < argc; i++) {
		char *equals = strchr(argv[i], '=');

		if (!equals)
			return 2;
		*equals = '\0';
		if (set_option(argv[i], equals + 1) < 0)
			return 2;
	}
	r = fgt_start(&options);
	printf("start %d %d\n", r, (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		obey(line);
	}
	fgt_stop();
	return 0;
}
