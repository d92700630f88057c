/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts threads of the library's own. Runs in any thread of the program.
 */
#include "agent/lib/own_thread.h"

#include <errno.h>
#include <signal.h>

int fgt_own_thread_start(size_t stack_bytes, void *(*run)(void *),
			 pthread_t *ret_thread)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int rc = pthread_attr_init(&attributes);

	if (rc)
		return -rc;
	(void)pthread_attr_setstacksize(&attributes, stack_bytes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(ret_thread, &attributes, run, NULL);
	/* The program's thread-local variables lie on the stack, too. */
	if (rc == EINVAL)
		rc = pthread_create(ret_thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}
