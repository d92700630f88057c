/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: what the daemon and a reader send each other (one
 * SEQPACKET message each), and who may have one.
 */
#ifndef FGT_AGENT_FILES_READER_H
#define FGT_AGENT_FILES_READER_H

#include "agent/files/open_file.h"

#define FGT_READER_NAME "fgt-reader"
#define FGT_READER_VERB "open-files"

/* With dir_fd. Sent up to the end of path. */
struct fgt_reader_order {
	uint32_t place;
	uint32_t uid;
	uint8_t is_link_refused, is_copied, is_of_user, is_by_user, has_known;
	uint64_t size_max, dev, ino;
	struct fgt_file_version known;
	char path[FGT_OPEN_PATH_MAX];
};

/* With the descriptor unless there is an error. When the reader has closed its
 * own, and at its start, it sends one byte: it is ready. */
struct fgt_reader_answer {
	int32_t error;
	struct stat status;
};

/* ---- One reader (reader_process.c) --------------------------------------- */

enum fgt_reader_state {
	FGT_READER_ABSENT,
	FGT_READER_BUSY, /* a thread has it */
	FGT_READER_UNREADY, /* it starts, or closes what it has sent */
	FGT_READER_READY,
	FGT_READER_LOST, /* killed, and not yet ended */
};

struct fgt_reader {
	enum fgt_reader_state state;
	int fd, pid_fd;
	uint32_t uid; /* of its last request */
	bool is_charged; /* unready or lost by the files of that user */
	uint64_t since_ns; /* unready */
};

/* It is charged to no user, and not ready yet. -EAGAIN. AS-Unsafe */
int fgt_reader_start(struct fgt_reader *reader);
/* True: there is something to receive, or an end. */
bool fgt_reader_wait(int fd, uint64_t until_ns);
/* 'R': it has a CPU or wants one, 'T': it was stopped, another letter: it waits
 * (proc_pid_stat(5)); '?': not known. */
char fgt_reader_look(const struct fgt_reader *reader, int *ret_pid);
/* 1: it is ready, 0: not yet, -EPIPE: it has ended. */
int fgt_reader_is_ready(const struct fgt_reader *reader);
/* -ENAMETOOLONG, -EPIPE. */
int fgt_reader_send(const struct fgt_reader *reader,
		    const struct fgt_open_request *request);
/* Once there is something to receive: the reader's error, -EMFILE, -EPIPE. */
int fgt_reader_receive(const struct fgt_reader *reader,
		       struct fgt_opened_file *ret_file);

/* ---- In this process (open_here.c) -------------------------------------- */

/* fgt_file_open() without a reader: may wait for ever. AS-Unsafe */
int fgt_open_here(const struct fgt_open_request *request,
		  struct fgt_opened_file *ret_file);

/* Is it opened with O_PATH only, whatever it is? */
bool fgt_open_is_path(const struct fgt_open_request *request);

/* ---- Closing (close_file.c) ----------------------------------------------- */

/* On a separate thread. fd may be -1. */
void fgt_close_aside(int fd, uint32_t uid);
/* Files of that user that are being closed for 0.2 s and more. */
unsigned int fgt_close_count_slow(uint32_t uid, uint64_t now_ns);

/* ---- Users (reader_users.c); with the lock of the readers held ----------- */

struct fgt_reader_user {
	uint32_t uid;
	bool is_used;
	unsigned int failures; /* in the last minutes */
	uint64_t failed_ns; /* the last one */
	uint64_t refused_until_ns;
	/* What the sampler may wait for files of that user. */
	uint64_t allowed_ns, allowed_at_ns;
	uint64_t asked_ns; /* the last time */
};

/* Never fails: forgets the user that asked least recently. */
struct fgt_reader_user *fgt_reader_user_get(uint32_t uid, uint64_t now_ns);
/* 0, or -EBUSY. */
int fgt_reader_user_may_ask(struct fgt_reader_user *user,
			    const struct fgt_open_request *request,
			    uint64_t now_ns);
/* The sampler waited for it. */
void fgt_reader_user_spend(struct fgt_reader_user *user, uint64_t spent_ns);
/* It did not answer. True: the first time lately. */
bool fgt_reader_user_fail(struct fgt_reader_user *user, uint64_t now_ns);

#endif
