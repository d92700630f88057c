/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a blocked thread waits, by the number and the arguments of its system
 * call, and by what they point to.
 *
 * Runs in the sampler's thread. MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WAITS_WAITS_H
#define FGT_AGENT_CAPTURE_WAITS_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/slice/wait.h"

/* What a wait is read with. */
struct fgt_wait_source {
	void *context;
	int32_t tid; /* of the thread that waits */
	/* Copies len bytes of the target's memory; false: not all of them can
	 * be had without waiting for a file system. */
	bool (*read)(void *context, uint64_t address, void *buffer, size_t len);
	/* The thread that the target calls number, which may be in another PID
	 * namespace: one of the process or, with is_shared, of another process
	 * that may be named. 0: there is none now, or it is not known. */
	int32_t (*find_thread)(void *context, int32_t number, bool is_shared);
	/* What a descriptor is: a path, "socket:[12]", "pipe:[34]"; false: not
	 * known. NULL: nothing may be asked. */
	bool (*describe)(void *context, int32_t descriptor, char *text,
			 size_t size);
	/* It has waited for a tick or longer: worth a call of describe() for
	 * each descriptor of a poll, too. */
	bool names_polled;
	/* /proc/PID/fdinfo/DESCRIPTOR of an epoll descriptor, as much as fits,
	 * with a NUL: its length; negative: not known. NULL likewise. */
	int (*list_epoll)(void *context, int32_t descriptor, char *text,
			  size_t size);
	/* The process that holds a lock on a file, of flock(2) or fcntl(2), for
	 * which the thread waits: "cron (pid 12)", and its thread, 0 if it has
	 * several; false: not known. NULL likewise. */
	bool (*find_file_lock)(void *context, bool is_flock, char *text,
			       size_t size, int32_t *ret_tid);
	/* The PID and the name of the child that the target calls number; 0: not
	 * known which it is. NULL likewise. */
	int32_t (*find_child)(void *context, int32_t number, char *text,
			      size_t size);
};

/*
 * call: the system call's number, -1 outside of one (a page fault). An owner is
 * named only if the words of the lock leave no doubt and the owner is a thread
 * of the process or, of a lock that processes share, of another one; glibc alone
 * writes it down.
 */
void fgt_wait_decode(int32_t call, const uint64_t args[6],
		     const struct fgt_wait_source *source,
		     struct fgt_wait *ret_wait);

/* Who holds the lock of that reason by now: it may have passed on while the
 * thread slept, to that very thread, too. 0: none is known for sure. */
int32_t fgt_wait_read_owner(const struct fgt_wait *wait,
			    const struct fgt_wait_source *source);

/* As fgt_wait_decode(), of a wait that is over: what its arguments point to may
 * have changed since. A plain wait for the value 2 may have been for a lock or
 * not: it is of no known kind, with its address. */
void fgt_wait_decode_past(int32_t call, const uint64_t args[6],
			  struct fgt_wait *ret_wait);

/* As fgt_wait_decode(), where the arguments are not known. */
void fgt_wait_of_call(int32_t call, struct fgt_wait *ret_wait);

/* To two significant digits, so that few different ones are kept. */
uint64_t fgt_wait_round_ns(uint64_t ns);

#endif
