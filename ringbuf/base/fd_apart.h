/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors in somebody else's program. Programs give their own files small
 * numbers that they choose (shells do: exec 5<file), and close ranges of small
 * ones: what stays open of ours has numbers far from those.
 */
#ifndef FGT_RINGBUF_BASE_FD_APART_H
#define FGT_RINGBUF_BASE_FD_APART_H

#include <stdbool.h>

/* From now on in this process, for each that is given to fgt_fd_apart().
 * MT-Safe | AS-Safe */
void fgt_fd_apart_begin(void);

/* The same file under a large number, the given one closed; unchanged if there
 * is none, before the begin, and for -1. errno is kept. MT-Safe | AS-Safe */
int fgt_fd_apart(int fd);

/* Is there a number for one more? fd: any that is open, and nobody locks its
 * file. MT-Safe | AS-Safe */
bool fgt_fd_apart_has_room(int fd);

/* How many numbers are free, of the first 1024; enough: as many will do, and
 * are taken to be there where so many more may be used. MT-Safe | AS-Safe */
unsigned int fgt_fd_apart_count_free(unsigned int enough);

/* Is it still the file that got this number from fgt_fd_apart()? True for all
 * other numbers. MT-Safe | AS-Safe */
bool fgt_fd_apart_is_ours(int fd);

/* Has the program closed what got this number from fgt_fd_apart()? Then it may
 * be that of another file, which is not ours to close. False for all other
 * numbers. Forgets it. MT-Safe | AS-Safe */
bool fgt_fd_apart_has_lost(int fd);

#endif
