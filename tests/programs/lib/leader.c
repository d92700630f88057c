/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose first thread has ended while another one works: the memory
 * of the process cannot be read by its PID then.
 *
 * leader MILLISECONDS [last|call]
 *
 * The other one calls exit(); or is the "last" one to leave; or that, and the
 * first has left by a system "call", with status 3.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

static int shall_return;

static void *work(void *ms)
{
	zoo_burn_ms((unsigned int)atoi(ms));
	printf("worked\n");
	fflush(stdout);
	if (shall_return)
		return NULL;
	zoo_end();
	exit(0);
}

static void print_end(void)
{
	zoo_end();
	printf("at the end\n");
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2)
		return 2;
	zoo_begin();
	shall_return = argc > 2;
	if (shall_return)
		atexit(print_end);
	if (pthread_create(&thread, NULL, work, argv[1]))
		return 1;
	if (shall_return && !strcmp(argv[2], "call"))
		syscall(SYS_exit, 3);
	pthread_exit(NULL);
}
