/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of entries, and which entries a spool has. Knows no file.
 *
 * MT-Unsafe for one index | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_INDEX_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_SPOOL_NAME_SIZE   40 /* with its NUL */
#define FGT_SPOOL_TIME_MAX    ((uint64_t)INT64_MAX)
#define FGT_SPOOL_SUFFIX      ".spool"
#define FGT_SPOOL_SUFFIX_TEMP ".tmp"

/*
 * Entries sort by time. It is the wall clock when an entry came, or one more
 * than the newest entry's if the clock was set back.
 */
struct fgt_spool_id {
	uint64_t time; /* ns since the epoch, ≤ FGT_SPOOL_TIME_MAX */
	uint64_t random;
};

/* Negative, 0 or positive, as strcmp(3). MT-Safe | AS-Safe */
int fgt_spool_id_compare(const struct fgt_spool_id *a,
			 const struct fgt_spool_id *b);

/* "0123456789abcdef-0123456789abcdef", and the suffix. MT-Safe | AS-Unsafe */
void fgt_spool_name_write(const struct fgt_spool_id *id, const char *suffix,
			  char ret_name[FGT_SPOOL_NAME_SIZE]);
/* False for all names but those that _write() makes. MT-Safe | AS-Safe */
bool fgt_spool_name_read(const char *name, const char *suffix,
			 struct fgt_spool_id *ret_id);

struct fgt_spool_entry {
	struct fgt_spool_id id;
	uint64_t bytes; /* of the file */
	uint64_t created_ns; /* wall clock; its age counts from here */
	bool is_held; /* it is being sent: not removed to make room */
};

/* { 0 } is empty. */
struct fgt_spool_index {
	struct fgt_spool_entry *entries; /* oldest first */
	size_t count, capacity;
	uint64_t bytes; /* of all */
};

void fgt_spool_index_done(struct fgt_spool_index *index);
/* Room for one more, so that the next _add() does not fail. -ENOMEM. */
int fgt_spool_index_reserve(struct fgt_spool_index *index);
/* -EEXIST, -ENOMEM. */
int fgt_spool_index_add(struct fgt_spool_index *index,
			const struct fgt_spool_entry *entry);
/* NULL: there is none. Valid until one is added or removed. */
struct fgt_spool_entry *fgt_spool_index_find(struct fgt_spool_index *index,
					     const struct fgt_spool_id *id);
void fgt_spool_index_remove(struct fgt_spool_index *index,
			    const struct fgt_spool_id *id);
/* The oldest one that is not held; NULL. */
const struct fgt_spool_entry *
fgt_spool_index_oldest(const struct fgt_spool_index *index);

#endif
