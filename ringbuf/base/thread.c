/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts threads. Runs in any thread, also of a program that is not the
 * recorder's; must leave that thread's signal mask as it was.
 */
#include "ringbuf/base/thread.h"

#include <errno.h>
#include <link.h>
#include <signal.h>

#define LEAST_BYTES ((size_t)64 << 10)

/* Thread-local variables of an object lie on the stacks of its threads. */
static int add_local_bytes(struct dl_phdr_info *object, size_t size,
			   void *context)
{
	size_t *bytes = context;

	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*bytes += object->dlpi_phdr[i].p_memsz +
				  object->dlpi_phdr[i].p_align;
	return 0;
}

int fgt_thread_start(size_t stack_bytes, void *(*run)(void *), void *context,
		     pthread_t *ret_thread)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int rc = pthread_attr_init(&attributes);

	if (rc)
		return -rc;
	if (!stack_bytes) /* ulimit -s */
		(void)pthread_attr_getstacksize(&attributes, &stack_bytes);
	if (stack_bytes < LEAST_BYTES)
		stack_bytes = LEAST_BYTES;
	dl_iterate_phdr(add_local_bytes, &stack_bytes);
	(void)pthread_attr_setstacksize(&attributes, stack_bytes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attributes, run, context);
	if (rc == EINVAL)
		rc = pthread_create(&thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (rc == 0 && ret_thread)
		*ret_thread = thread;
	else if (rc == 0)
		(void)pthread_detach(thread);
	return -rc;
}
