/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reads of procfs: bounded, nothing trusted. They may wait for ever where
 * a process keeps its memory locked: see fgt_call_enter().
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_PROCFS_H
#define FGT_AGENT_CAPTURE_THREADS_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Reads at most size - 1 bytes of a file below dir_fd (AT_FDCWD allowed) and
 * adds a NUL. Returns the number of bytes; negative errno.
 * MT-Safe | AS-Safe
 */
int fgt_procfs_read(int dir_fd, const char *path, char *buffer, size_t size);

/*
 * openat(), fstatat() and readlinkat(), which wait for ever, too: a thread that
 * lists a directory of /proc/PID into memory that never comes keeps it locked.
 * Descriptor, 0, length (the text gets a NUL, and may be cut); negative errno.
 * MT-Safe | AS-Safe
 */
int fgt_procfs_open(int dir_fd, const char *path, int flags);
int fgt_procfs_status(int dir_fd, const char *path, struct stat *ret_status);
int fgt_procfs_link(int dir_fd, const char *path, char *text, size_t size);

/* The same, without the newline at its end. */
int fgt_procfs_read_line(int dir_fd, const char *path, char *buffer,
			 size_t size);

/* A file that holds one decimal number; fallback if it cannot be read. */
int64_t fgt_procfs_read_number(int dir_fd, const char *path, int64_t fallback);

/*
 * Is each page of it in memory, and the process's own: written to since its
 * file was mapped, if it has one? Touches none of them. MT-Safe | AS-Safe
 */
bool fgt_procfs_owns(int proc_fd, uint64_t address, size_t len);

/*
 * The caller's next reads are about that process: if one does not return, the
 * thread is given up (see heartbeat.h) and the process is left alone. -EAGAIN:
 * that is so.
 */
int fgt_procfs_begin(int32_t pid);

/* A directory entry's name as pid or tid; 0 if it is none. */
int32_t fgt_procfs_number(const char *name);

#endif
