/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files of targets. A file system may never answer: a process of a
 * hostile user is behind it (FUSE, also below an overlay), or a server that has
 * gone (fault X7). So another process asks it, the reader, which is given up
 * when it is late.
 */
#ifndef FGT_AGENT_FILES_OPEN_FILE_H
#define FGT_AGENT_FILES_OPEN_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FGT_OPEN_PATH_MAX 2100 /* with its NUL */

enum fgt_open_place {
	FGT_OPEN_BELOW, /* dir_fd is a root: nothing leads out of it */
	FGT_OPEN_BELOW_PROCESS, /* dir_fd is /proc/PID: below its root */
	FGT_OPEN_LINK, /* a link of procfs below dir_fd, /proc/PID */
	FGT_OPEN_ROOT, /* dir_fd is /proc/PID: its root itself, O_PATH */
	FGT_OPEN_NAMED, /* as _BELOW, but of any kind, O_PATH */
};

/* By which two versions of a file differ. */
struct fgt_file_version {
	uint64_t dev, ino, size;
	int64_t modified_s, modified_ns;
};

/*
 * What must be so is checked before the file is opened: to open a FIFO or a
 * device is to touch it. Only regular files are opened.
 */
struct fgt_open_request {
	enum fgt_open_place place;
	int dir_fd;
	const char *path;
	bool is_link_refused; /* -ELOOP if the path is a symbolic link */
	bool is_copied; /* fd will be memory with the file's bytes */
	/* Whose file system it may be: that user is charged for the wait. */
	uint32_t uid;
	bool is_of_user; /* of any other user but root: -EPERM */
	/* What that user may not read is not read for them: the target chose
	 * the name, and links lead anywhere. Their groups do not count. */
	bool is_by_user;
	uint64_t size_max; /* of a larger one: -EFBIG; 0: any */
	uint64_t dev, ino; /* of another one: -ESTALE; ino 0: any */
	const struct fgt_file_version *known; /* -EALREADY; NULL: none */
	/* A disk of this machine, or a place that its administrator named: may
	 * take long, and is asked for even if other files did not answer. With
	 * ino, which is checked first, no reader is needed. */
	bool is_trusted;
	bool is_urgent; /* the sampler waits: all targets' ticks are late */
	int64_t *left_ms; /* for all requests of the caller; NULL: no bound */
};

struct fgt_opened_file {
	int fd; /* the caller closes it */
	struct stat status; /* of the file, also if fd is a copy */
};

/*
 * Errors of openat2, fstat, open and pread, those above, and
 * -EINVAL no regular file,
 * -ETIMEDOUT the file system did not answer in time, -ETIME *left_ms is over,
 * -EBUSY files of that user did not answer lately, -EAGAIN no reader.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_file_open(const struct fgt_open_request *request,
		  struct fgt_opened_file *ret_file);

/*
 * Closes such a file (fd may be -1) without waiting, which its file system may
 * want for ever. uid: whose file system it may be.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_file_close_of(int fd, uint32_t uid);

/* Has a file of that user been closed for 0.2 s and more? MT-Safe | AS-Unsafe */
bool fgt_file_close_is_slow(uint32_t uid);

/*
 * fstat() of what the kernel knows: its file system is not asked. The size of a
 * file on a server may be a former one. errno of statx.
 *
 * MT-Safe | AS-Safe
 */
int fgt_file_status(int fd, struct stat *ret_status);

/* A file of that user, which was opened, does not answer now: no further one is
 * opened for some time. MT-Safe */
void fgt_file_fail(uint32_t uid);

/* True if the same request may have another result soon. */
bool fgt_file_may_come(int error);

/* The version that a file has. */
void fgt_file_version_of(const struct stat *status,
			 struct fgt_file_version *ret_version);

/*
 * From now on readers open the files; without it this process does, and waits.
 * For programs whose main() calls fgt_reader_serve_if_asked(). explain (may be
 * NULL) is called when files of a user did not answer: the first time in 10
 * minutes, in the thread that wanted the file, so it must not block.
 *
 * MT-Unsafe
 */
void fgt_reader_begin(void (*explain)(uint32_t uid, const char *text));

/* Ends the readers. No request may be on its way. MT-Unsafe */
void fgt_reader_end(void);

/* Readers that did not answer and have not ended yet. MT-Safe */
unsigned int fgt_reader_count_lost(void);

/* First in main(): never returns if this process was started as a reader. */
void fgt_reader_serve_if_asked(int argc, char **argv);

#endif
