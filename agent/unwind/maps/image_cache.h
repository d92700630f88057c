/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: the cache of open ELF files and what it keeps of each.
 * image_file.c keeps the list, image_cfi.c the unwind rules, image_read.c the
 * bytes, image_ask.c what a server was asked for.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_IMAGE_CACHE_H
#define FGT_AGENT_UNWIND_MAPS_IMAGE_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/maps/image_server.h"

#define FGT_IMAGE_FILES_MAX  2048u
#define FGT_IMAGE_PAGES_BITS 8
#define FGT_IMAGE_PAGES	     (1u << FGT_IMAGE_PAGES_BITS)
#define FGT_IMAGE_KNOWN_BITS 12
#define FGT_IMAGE_KNOWN	     (1u << FGT_IMAGE_KNOWN_BITS)

struct fgt_image_file {
	struct fgt_image_cache *cache;
	struct fgt_elf_source source; /* owned: fd, or bytes in memory */
	struct fgt_elf elf;
	struct fgt_image_key real, mapped; /* of fstat; of maps */
	struct timespec modified;
	/* Its serial is never used twice: names pages and rows. */
	struct fgt_image_served served;
	/* The rest belongs to cache->lock. */
	unsigned int references; /* besides the cache's own */
	uint64_t last_used;
	uint64_t unused_ns; /* without references: since when */
	bool is_listed; /* false: replaced in the cache, goes at last put */
	bool has_no_cfi; /* tried: it has no rules */
	uint64_t refused_ns; /* no room for its rules: when, + 1; 0: never */
	struct fgt_cfi_table *cfi; /* NULL: not loaded, or given back */
	size_t cfi_bytes, cfi_room; /* counted of it */
	struct fgt_image_file *more_recent, *less_recent; /* with a table */
};

/* A page of code: direct mapped by serial and page number. */
struct fgt_image_page {
	uint64_t serial, number; /* serial 0: empty */
	uint32_t len; /* bytes that the file has */
	uint8_t bytes[FGT_IMAGE_PAGE_BYTES];
};

struct fgt_image_cache {
	/* Reads the files, which belong to other users; NULL: this process. */
	const struct fgt_image_server *server;
	void *server_context;
	/* The sampler's thread's own: */
	struct fgt_cfi_rows *rows;
	struct fgt_image_known *known; /* [FGT_IMAGE_KNOWN], with a server */
	uint64_t late; /* answers that did not come in time */
	/* Protects everything below and the marked fields of the files; nests
	 * inside nothing. */
	pthread_mutex_t lock;
	struct fgt_image_file *files[FGT_IMAGE_FILES_MAX];
	size_t count, limit;
	struct fgt_image_cache_counters counters; /* files: count */
	/* Files that have a table, by their last use. */
	struct fgt_image_file *most_recent, *least_recent;
	size_t cfi_max; /* bytes of all tables */
	size_t cfi_room; /* their addresses: fgt_cfi_table_room() */
	size_t whole_bytes; /* of large tables that may be read whole now */
	uint64_t now_ns; /* of the last fgt_image_cache_tend(), else _new() */
	uint64_t clock, last_serial;
	unsigned int references; /* the owner and every file in use */
	struct fgt_image_page pages[FGT_IMAGE_PAGES];
};

/* The inode of a file cannot be reused while it is open, but it can be written
 * to: is it as it was? (image_file.c) Lock held. */
bool fgt_image_is_unchanged(const struct fgt_image_file *file);

/* ---- Unwind rules (image_cfi.c); the rest with the lock held ------------ */

/* fgt_image_file_find_rule() in this process; takes the lock. */
int fgt_image_cfi_find(struct fgt_image_file *file, uint64_t address,
		       struct fgt_cfi_rule *ret_rule);
/* Frees its table, if it has one. */
void fgt_image_cfi_drop(struct fgt_image_file *file);
/* Time has passed: more may be read. */
void fgt_image_cfi_refill(struct fgt_image_cache *cache, uint64_t passed_ns);
/* Frees tables until they fit the budget. */
void fgt_image_cfi_trim(struct fgt_image_cache *cache);

#endif
