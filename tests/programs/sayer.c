/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that records spans and tasks.
 *
 * sayer storm N: N spans as fast as they come, without a recorder; prints
 *	"sent N" when none of them had to wait.
 * sayer lose N: the same; prints "lost N", the events that the live file lost.
 * sayer work agent|embedded SECONDS [FILE]: a server whose threads answer
 *	requests; prints "ready PID", and at the end writes the last second as
 *	a Chrome trace and prints "wrote FILE". With '-' instead of SECONDS
 *	until standard input ends.
 * sayer daemon FILE: records, closes all descriptors that it did not open, as
 *	daemons do, opens FILE several times and records again.
 * sayer around COMMAND: records, runs the shell's command, records again.
 * sayer then PROGRAM ...: records, then execs the program.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"

#define WORKERS 3

static atomic_bool is_over;
static uint64_t server;

static void die(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-error));
	exit(1);
}

static void must(const char *what, int r)
{
	if (r < 0)
		die(what, r);
}

static void burn(uint64_t ns)
{
	uint64_t until_ns = fgt_now() + ns;

	while (fgt_now() < until_ns)
		;
}

static void answer(unsigned int number)
{
	uint64_t request, parse, query;
	char value[16];

	snprintf(value, sizeof(value), "%u", number);
	must("request", fgt_task_begin("request", server, &request));
	must("parse", fgt_span_begin("parse", 0, &parse));
	burn(1000000);
	must("parse", fgt_span_end(parse));
	must("query", fgt_span_begin("query", 0, &query));
	must("label", fgt_label("number", value));
	must("read", fgt_span_begin("read", query, NULL));
	usleep(5000);
	must("mark", fgt_mark("read a row"));
	must("read", fgt_span_end(0));
	must("query", fgt_span_end(query));
	must("request", fgt_task_end(request));
}

static void *serve(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; !atomic_load(&is_over); i++) {
		answer(i);
		must("counter", fgt_counter("requests", i));
	}
	return NULL;
}

static void wait_for_end(const char *seconds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	if (strcmp(seconds, "-") != 0)
		usleep((unsigned int)(atof(seconds) * 1e6));
	else
		(void)poll(&input, 1, -1);
}

static void write_slice(const char *path)
{
	uint64_t now_ns = fgt_now();
	struct fgt_slice *slice;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		die(path, -1);
	must("slice", fgt_get_slice(now_ns - 1000000000, now_ns, &slice));
	must("write", fgt_slice_write(slice, FGT_FORMAT_CHROME, fd));
	fgt_slice_free(slice);
	close(fd);
	printf("wrote %s\n", path);
}

static int work(const char *mode, const char *seconds, const char *path)
{
	const struct fgt_options options = {
		.size = sizeof(options),
		.mode = strcmp(mode, "agent") ? FGT_EMBEDDED : FGT_AGENT,
	};
	pthread_t threads[WORKERS];

	must("start", fgt_start(&options));
	must("server", fgt_task_begin("server", 0, &server));
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&threads[i], NULL, serve, NULL))
			return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	wait_for_end(seconds);
	if (path)
		write_slice(path);
	atomic_store(&is_over, true);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	must("server", fgt_task_end(server));
	fgt_stop();
	return 0;
}

static int storm(int count)
{
	uint64_t task, span;

	must("storm", fgt_task_begin("storm", 0, &task));
	for (int i = 0; i < count; i++) {
		must("begin", fgt_span_begin("drop", 0, &span));
		must("end", fgt_span_end(span));
	}
	must("storm", fgt_task_end(task));
	printf("sent %d\n", count);
	fflush(stdout);
	return 0;
}

static int storm_and_count(int count)
{
	struct fgt_status status = { .size = sizeof(status) };

	if (storm(count))
		return 1;
	usleep(200000); /* the log is read several times */
	must("status", fgt_get_status(&status));
	printf("lost %llu\n", (unsigned long long)status.activity_lost);
	return 0;
}

static int become_daemon(const char *path)
{
	if (storm(10))
		return 1;
	usleep(300000); /* a live file is there by now */
	closefrom(3);
	for (int i = 0; i < 16; i++)
		if (open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0)
			return 1;
	if (storm(10))
		return 1;
	usleep(300000);
	return storm(10);
}

static int speak_around(const char *command)
{
	if (storm(10))
		return 1;
	usleep(200000); /* a live file has it by now */
	return system(command) ? 1 : storm(10);
}

static int speak_then(char **command)
{
	if (storm(10))
		return 1;
	usleep(200000);
	execv(command[0], command);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "around"))
		return speak_around(argv[2]);
	if (argc >= 3 && !strcmp(argv[1], "then"))
		return speak_then(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "daemon"))
		return become_daemon(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "storm"))
		return storm(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "lose"))
		return storm_and_count(atoi(argv[2]));
	if (argc >= 4 && !strcmp(argv[1], "work"))
		return work(argv[2], argv[3], argv[4]);
	fprintf(stderr,
		"usage: sayer storm N | lose N | work MODE SECONDS [FILE] | "
		"daemon FILE | around COMMAND | then PROGRAM ...\n");
	return 2;
}
