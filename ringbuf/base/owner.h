/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership: cleanup on scope exit, and the one place where it leaves.
 * Header only; runs anywhere.
 */
#ifndef FGT_RINGBUF_BASE_OWNER_H
#define FGT_RINGBUF_BASE_OWNER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
 * calls fgt_ring_free(ring) when the scope ends. Needs one
 * FGT_DEFINE_AUTO(struct fgt_ring *, fgt_ring_free) beside the prototype.
 */
#define FGT_AUTO(destructor) __attribute__((cleanup(destructor##_auto)))

#define FGT_DEFINE_AUTO(type, destructor)                                      \
	static inline void destructor##_auto(type *owned_object)               \
	{                                                                      \
		destructor(*owned_object);                                     \
	}                                                                      \
	struct fgt_swallow_semicolon

/* Hands the value out and leaves NULL behind: ownership moves here. */
#define FGT_TAKE(pointer)                                                      \
	__extension__({                                                        \
		__typeof__(pointer) taken_ = (pointer);                        \
		(pointer) = NULL;                                              \
		taken_;                                                        \
	})

/* The same for a descriptor, leaving -1 behind. */
#define FGT_TAKE_FD(fd)                                                        \
	__extension__({                                                        \
		int taken_ = (fd);                                             \
		(fd) = -1;                                                     \
		taken_;                                                        \
	})

/* Closes a descriptor if there is one; errno is kept. */
void fgt_fd_close(int fd);

FGT_DEFINE_AUTO(int, fgt_fd_close);
FGT_DEFINE_AUTO(void *, free);

static inline void fgt_file_close(FILE *file)
{
	if (file)
		fclose(file);
}
FGT_DEFINE_AUTO(FILE *, fgt_file_close);

#endif
