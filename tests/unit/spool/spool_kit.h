/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory for tests of the spool, and a disk below it that fails, ends the
 * process at any system call, and loses power.
 */
#ifndef FGT_TESTS_SPOOL_KIT_H
#define FGT_TESTS_SPOOL_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upload/deliver/spool/spool.h"

#define KIT_FILES  512
#define KIT_NOW_NS 1767225600000000000ull /* 2026-01-01 */

/* What power loss leaves of a file. */
struct kit_file {
	bool is_used, is_synced;
	int fd; /* while it is written */
	char live[FGT_SPOOL_NAME_SIZE], durable[FGT_SPOOL_NAME_SIZE];
	uint8_t *bytes; /* at its last sync */
	size_t len;
};

struct kit_disk {
	struct fgt_spool_disk table; /* pass this */
	char path[64];
	uint64_t calls;
	/* From this call on the process is no more: nothing happens. 0: never.
	 * Half of a write at the call before is done. */
	uint64_t dies_at;
	/* This call, or each one from it on, fails with that. 0: none. */
	uint64_t fails_at;
	bool fails_always;
	int error;
	uint64_t capacity; /* of all files; 0: unlimited. Else -ENOSPC */
	struct kit_file files[KIT_FILES];
};

void kit_disk_init(struct kit_disk *disk);
/* Removes the directory. */
void kit_disk_done(struct kit_disk *disk);

/* The process has ended and another one begins. */
void kit_disk_restart(struct kit_disk *disk);
/* The machine has lost power: what was not synced is there, or not, or a part
 * of it. */
void kit_disk_lose_power(struct kit_disk *disk, uint64_t *random);

/* The names with that suffix; in bad/ if is_bad. */
size_t kit_count_files(const struct kit_disk *disk, const char *suffix,
		       bool is_bad);
/* Bytes of all files of entries, temporary ones included. */
uint64_t kit_count_bytes(const struct kit_disk *disk);

/* A stream of numbers that a seed repeats. */
uint64_t kit_random(uint64_t *state);

/* Head and body that follow from a number. */
struct kit_payload {
	uint64_t number;
	size_t len; /* of the body */
};
int kit_add(struct fgt_spool *spool, const struct kit_payload *payload,
	    uint64_t now_ns, struct fgt_spool_id *ret_id);
/* Reads an entry and checks every byte; fails the test unless it is whole. */
uint64_t kit_read_number(struct fgt_spool *spool,
			 const struct fgt_spool_id *id);

/* ---- One disk and one spool for a test ---------------------------------- */

#define KIT_DAY_NS UINT64_C(86400000000000)

extern struct kit_disk kit_disk;
extern unsigned int kit_dropped[FGT_SPOOL_DROPS]; /* reported so far */

int kit_set_up(void **state);
int kit_tear_down(void **state);

struct fgt_spool_options kit_options(void);
struct fgt_spool *kit_open_with(const struct fgt_spool_options *options,
				uint64_t now_ns);
struct fgt_spool *kit_open(void);
struct fgt_spool_id kit_add_number(struct fgt_spool *spool, uint64_t number,
				   size_t len);
size_t kit_count(struct fgt_spool *spool);
struct fgt_spool_id kit_id_at(struct fgt_spool *spool, size_t i);
void kit_path_of(const struct fgt_spool_id *id, char path[160]);

#define KIT_TEST(name)                                                         \
	cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

#endif
