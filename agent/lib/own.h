/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library does in a program that is not its own: waits, keeps a thread
 * from being cancelled, and names files that each process of a family must have
 * for itself.
 */
#ifndef FGT_AGENT_LIB_OWN_H
#define FGT_AGENT_LIB_OWN_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- In a thread -------------------------------------------------------- */

/* Until the semaphore is posted, until_ns (CLOCK_MONOTONIC) at the latest. */
void fgt_own_wait(sem_t *semaphore, uint64_t until_ns);

static inline int fgt_uncancelled_begin(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void fgt_uncancelled_end(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/*
 * A declaration: until the end of the block the program cannot cancel this
 * thread. A cancelled thread would keep the library's lock, or fgt_stop() would
 * wait for it.
 */
#define FGT_UNCANCELLED                                                        \
	__attribute__((cleanup(fgt_uncancelled_end), unused))                  \
	const int uncancelled_before = fgt_uncancelled_begin()

/* ---- Files that variables of the environment name ----------------------- */

/*
 * The absolute path of what text names. "{pid}" and "%p" are replaced by the
 * number of the process. -ENAMETOOLONG; errno of getcwd(2).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_own_file_path(const char *text, char *ret_path, size_t size,
		      bool *ret_is_numbered);

enum fgt_own_file {
	FGT_OWN_FILE_NEW, /* this process's, from now on */
	FGT_OWN_FILE_MINE, /* this process's since before an exec */
	FGT_OWN_FILE_ANOTHERS, /* of a process that started this one */
};

/*
 * Which process the file belongs to, by a variable of the environment that
 * children inherit. Sets the variable only while there is one thread, as before
 * main(), because the environment has no lock. Where dlopen(3) loads the
 * library later, a child may take the file once its flock(2) is free.
 *
 * MT-Unsafe | AS-Unsafe
 */
enum fgt_own_file fgt_own_file_take(const char *variable, const char *path);

#endif
