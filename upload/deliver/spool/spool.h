/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory in which deliveries outlive the process: each entry has a head
 * (where it goes, without secrets) and a body (what goes there), both opaque
 * here. What _add() accepted is there, whole, after a crash or power loss,
 * until it is removed, or goes because the spool is full or the entry old.
 *
 * The directory holds NAME.spool, one for each entry; NAME.tmp, which the next
 * process removes; lock; flush, a request to send all now; and bad/ with
 * damaged entries. No other names are touched.
 *
 * Other processes of the user may add entries, under a new name, and remove
 * them.
 *
 * One thread at a time uses a spool; it waits as long as the disk does.
 * MT-Unsafe for one spool | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_H

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/spool/spool_disk.h"
#include "upload/deliver/spool/spool_file.h"
#include "upload/deliver/spool/spool_index.h"

#define FGT_SPOOL_BYTES	  ((uint64_t)256 << 20)
#define FGT_SPOOL_ENTRIES 10000
#define FGT_SPOOL_AGE_NS  (UINT64_C(7) * 86400 * 1000000000)

/* Why an entry has gone that no destination answered. */
enum fgt_spool_drop {
	FGT_SPOOL_FULL, /* max_bytes or max_entries */
	FGT_SPOOL_DISK_FULL,
	FGT_SPOOL_OLD, /* max_age_ns */
	FGT_SPOOL_DAMAGED, /* now in bad/ */
	FGT_SPOOL_TAKEN, /* another process has removed it */
	FGT_SPOOL_DROPS,
};

/* "full", "disk_full", "old", "damaged", "removed". */
const char *fgt_spool_drop_name(enum fgt_spool_drop reason);

struct fgt_spool_options {
	const char *path;
	/* Of all entries; the one that is being written may come on top of it.
	 * 0: FGT_SPOOL_BYTES */
	uint64_t max_bytes;
	size_t max_entries; /* 0: FGT_SPOOL_ENTRIES */
	uint64_t max_age_ns; /* 0: FGT_SPOOL_AGE_NS */
	const struct fgt_spool_disk *disk; /* NULL: the kernel's */
	/* As a guest: its process has the lock, and expects that entries go. */
	bool is_dropping_guest;
	/* Both may be NULL, and must not use the spool. dropped: an entry is
	 * about to go, or was damaged when it was found. found: one is there
	 * that this process has not added; head is NULL if the disk cannot read
	 * it now. */
	void (*dropped)(void *context, const struct fgt_spool_entry *entry,
			enum fgt_spool_drop reason);
	void (*found)(void *context, const struct fgt_spool_entry *entry,
		      const uint8_t *head, size_t head_len);
	void *context;
};

struct fgt_spool;

/*
 * Opens a directory as fgt_spool_directory_open() does and finds what is in it.
 * Removes what is damaged, too old or too much. now_ns: wall clock, as in all
 * calls here. Errors as there, and -ENOMEM; why is set.
 */
int fgt_spool_open(const struct fgt_spool_options *options, uint64_t now_ns,
		   struct fgt_spool **ret_spool, struct fgt_why *why);
/*
 * Opens it without its lock, while another process may use it: to _add()
 * entries, which that process finds, or to _look() at them and _remove() them.
 * No entry goes to make room, unless is_dropping_guest, and what is damaged stays
 * where it is.
 */
int fgt_spool_open_as_guest(const struct fgt_spool_options *options,
			    struct fgt_spool **ret_spool, struct fgt_why *why);
/* Nothing is removed. */
void fgt_spool_close(struct fgt_spool *spool);
FGT_DEFINE_AUTO(struct fgt_spool *, fgt_spool_close);

struct fgt_spool_payload {
	const void *head;
	size_t head_len; /* ≤ FGT_SPOOL_HEAD_MAX */
	/* Writes the body, and may be called again for it from the start. */
	int (*write)(void *context, const struct fgt_sink *sink);
	void *context;
};

/* For payload.write: all of a file that can be read at any place, from its
 * start on. context: an int *, the descriptor. errno of pread. */
int fgt_spool_write_file(void *context, const struct fgt_sink *sink);

/*
 * 0: the entry is on the disk, and will be there after a crash. Once it is
 * written, or the disk is full, entries go to make room for it, the oldest
 * first: those that are held stay. -EMSGSIZE: head or body too long, or more
 * than max_bytes; -ENOSPC: no room, with all other
 * entries gone; errors of write, errno of the system calls. After an error it
 * is not in the spool.
 */
int fgt_spool_add(struct fgt_spool *spool,
		  const struct fgt_spool_payload *payload, uint64_t now_ns,
		  struct fgt_spool_id *ret_id);

/*
 * Opens an entry to be read, and holds it. The descriptor is the caller's.
 * -ENOENT: it has gone; errno of open.
 */
int fgt_spool_hold(struct fgt_spool *spool, const struct fgt_spool_id *id,
		   int *ret_fd);
/* It may go again to make room. */
void fgt_spool_release(struct fgt_spool *spool, const struct fgt_spool_id *id);

/*
 * It has been answered, or is not wanted any more. -ENOENT: it has gone; errno
 * of unlink: the next process finds it again.
 */
int fgt_spool_remove(struct fgt_spool *spool, const struct fgt_spool_id *id);
/* Its reader found it damaged: it goes to bad/. */
void fgt_spool_condemn(struct fgt_spool *spool, const struct fgt_spool_id *id);

/*
 * Finds what other processes have added or removed since. Reads the names only
 * if there may be any. errno of fstat and of reading the directory, -ENOMEM.
 */
int fgt_spool_look(struct fgt_spool *spool, uint64_t now_ns);

/* Entries older than max_age_ns go, except those that are held. */
void fgt_spool_expire(struct fgt_spool *spool, uint64_t now_ns);

/* Borrowed: what there is. */
struct fgt_spool_index *fgt_spool_index(struct fgt_spool *spool);

/*
 * A guest asks the process that has the spool to send all that waits: by a file
 * called "flush". -ENOENT: no process has it; errno of open; why is set. _take:
 * true if a guest asked since the last call.
 */
int fgt_spool_ask_flush(struct fgt_spool *spool, struct fgt_why *why);
bool fgt_spool_take_flush(struct fgt_spool *spool);

#endif
