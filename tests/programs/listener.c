/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records itself and serves its stacks: listener ADDRESS. Prints the result of
 * fgt_http_listen(); ends the server at the first line of standard input, and
 * itself at the second.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fgtrace.h"

static volatile unsigned long turns;

__attribute__((noinline)) static void spin_in_listener(void)
{
	for (unsigned long i = 0; i < 1000000; i++)
		turns = turns + i;
}

static void *work(void *unused)
{
	for (;;)
		spin_in_listener();
	return unused;
}

static void print_log(void *unused, const char *line)
{
	(void)unused;
	printf("log %s\n", line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct fgt_options options = { .size = sizeof(options),
				       .mode = FGT_EMBEDDED,
				       .log = print_log };
	pthread_t thread;

	if (argc < 2 || fgt_start(&options) < 0 ||
	    pthread_create(&thread, NULL, work, NULL) != 0)
		return 1;
	printf("listens %d\n", fgt_http_listen(argv[1]));
	printf("again %d\n", fgt_http_listen(argv[1]));
	fflush(stdout);
	(void)getchar();
	printf("stopped %d\n", fgt_http_listen(NULL));
	fflush(stdout);
	(void)getchar();
	return 0;
}
