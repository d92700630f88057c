/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other processes can map and that nobody, its owner included, can
 * truncate under its readers.
 */
#ifndef FGT_RINGBUF_BASE_MEMFD_H
#define FGT_RINGBUF_BASE_MEMFD_H

#include <stdbool.h>
#include <stddef.h>

/* len_bytes of zeros, not sealed yet. errno of memfd_create and ftruncate. */
int fgt_memfd_open(const char *name, size_t len_bytes, int *ret_fd);

/*
 * From here on it can neither shrink nor grow, and nobody else can map it for
 * writing (the last since Linux 5.1): after our own mapping. errno of fcntl.
 */
int fgt_memfd_seal(int fd);

/* Somebody's. Without the seal its owner could truncate it: SIGBUS in whoever
 * reads. False also for what is no memfd. */
bool fgt_memfd_is_sealed(int fd);

#endif
