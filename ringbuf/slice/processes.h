/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a slice.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_PROCESSES_H
#define FGT_RINGBUF_SLICE_PROCESSES_H

#include "ringbuf/slice/slice.h"

/* Texts of the slice; never NULL. */
struct fgt_process_of {
	int32_t pid;
	const char *name; /* comm */
	const char *exe; /* "": not known */
	const char *title; /* its own, else the name */
};

/* number: index into processes, 0 also where there are none. */
struct fgt_process_of fgt_slice_process(const struct fgt_ring_slice *slice,
					uint32_t number);

/* The process of a thread. */
struct fgt_process_of fgt_slice_process_of(const struct fgt_ring_slice *slice,
					   uint32_t thread);

/* How many processes the threads belong to, at least 1. */
uint32_t fgt_slice_process_count(const struct fgt_ring_slice *slice);

/* One process: -ENODATA if it has no run. Errors of fgt_slice_narrow(). */
int fgt_slice_of_process(const struct fgt_ring_slice *slice, uint32_t number,
			 struct fgt_ring_slice **ret_part);

/* String ids and the processes of threads exist. */
bool fgt_processes_are_valid(const struct fgt_ring_slice *slice);

/* ---- Between the parts of narrowing ------------------------------------- */

/* Copies the signal that ended the slice's process, and the processes of the
 * result's threads, and numbers these; if a single one is left, it is the
 * slice's. -ENOMEM. */
int fgt_processes_narrow(const struct fgt_ring_slice *source,
			 struct fgt_ring_slice *result);

/* ---- Between the parts of the .fgt form --------------------------------- */

/* The table of threads that are not of the first process, of malloc().
 * -ENOMEM. */
int fgt_members_new(const struct fgt_ring_slice *slice,
		    struct fgt_slice_member **ret_members, uint32_t *ret_count);
/* Puts members, and frees that table; what is out of range is left to the
 * check. False: a thread does not exist. */
bool fgt_members_settle(struct fgt_ring_slice *slice);

#endif
