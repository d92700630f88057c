/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors in a process that belongs to another program: which file one is
 * of, shared memory, and large numbers that keep out of the program's way.
 */
#ifndef FGT_RINGBUF_BASE_FD_H
#define FGT_RINGBUF_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- The file of a descriptor ------------------------------------------- */

/*
 * The program may close any descriptor, and its number may be that of another
 * file afterwards. { 0 } is no file.
 */
struct fgt_file_id {
	dev_t device;
	ino_t inode;
};

/* errno of fstat(2). MT-Safe | AS-Safe */
int fgt_file_id_get(int fd, struct fgt_file_id *ret_id);

/* True if fd, which may be -1, is open and of this file. MT-Safe | AS-Safe */
bool fgt_file_id_is(const struct fgt_file_id *id, int fd);

/*
 * pread(2) of a file that the caller has just opened, and will close. A program
 * that records itself may close it meanwhile, and put its own file in its
 * place: read(2) would wait for a pipe, and take bytes out of it, where this
 * fails. *fd is -1 then: the program's file stays open. MT-Safe | AS-Safe
 */
ssize_t fgt_fd_pread(int *fd, void *buffer, size_t size, off_t offset);

/* ---- Memory that other processes map ------------------------------------ */

/* len_bytes of zeros, not sealed yet. -EFBIG: more than files may have
 * (ulimit -f); errno of memfd_create and ftruncate. */
int fgt_memfd_open(const char *name, size_t len_bytes, int *ret_fd);

/*
 * Fixes the size; since Linux 5.1 also refuses new writable mappings, so map
 * the memory first. errno of fcntl.
 */
int fgt_memfd_seal(int fd);

/*
 * False also for what is no memfd of ordinary pages. The owner of one that is
 * not sealed could truncate it, and one of huge pages may have no page left for
 * a hole: both send SIGBUS to those who map it.
 */
bool fgt_memfd_is_sealed(int fd);

/* ---- Large numbers ------------------------------------------------------ */

/*
 * Programs choose small numbers for their own files (exec 5<file in a shell)
 * and close ranges of small ones: a descriptor that stays open gets a number
 * far from those. All of these are MT-Safe | AS-Safe.
 */

/* fgt_fd_apart() moves descriptors from this call on, in the whole process. */
void fgt_fd_apart_begin(void);

/*
 * Moves fd to a large number and returns that. Returns fd itself before
 * fgt_fd_apart_begin(), for -1, and if no number is free. errno is kept.
 */
int fgt_fd_apart(int fd);

/*
 * True if one more descriptor can be opened. fd: any that is open and whose
 * file no program locks.
 */
bool fgt_fd_apart_has_room(int fd);

/*
 * How many of the first 1024 numbers are free, counted up to enough. enough,
 * uncounted, where the limit is that much above 1024.
 */
unsigned int fgt_fd_apart_count_free(unsigned int enough);

/* False if fd is from fgt_fd_apart() and is of another file now. */
bool fgt_fd_apart_is_kept(int fd);

#define FGT_FD_FILL_NUMBERS 1024u

struct fgt_fd_fill {
	uint64_t taken[FGT_FD_FILL_NUMBERS / 64]; /* a bit for each */
};

/*
 * Between the two, what a library opens and keeps gets a number among those of
 * fgt_fd_apart(), or none of 0 to 2 where there are no such: the program may
 * have closed these, and would read and write the library's files. Reading and
 * writing a number that is taken fails with EBADF. Nothing happens before
 * fgt_fd_apart_begin(). errno is kept.
 */
void fgt_fd_fill_begin(struct fgt_fd_fill *ret_fill);
void fgt_fd_fill_end(const struct fgt_fd_fill *fill);

#endif
