/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose first thread has ended while another one works: the memory
 * of the process cannot be read by its PID then.
 *
 * leader MILLISECONDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "zoo.h"

static void *work(void *ms)
{
	zoo_burn_ms((unsigned int)atoi(ms));
	printf("worked\n");
	zoo_end();
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2)
		return 2;
	zoo_begin();
	if (pthread_create(&thread, NULL, work, argv[1]))
		return 1;
	pthread_exit(NULL);
}
