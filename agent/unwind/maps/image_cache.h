/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: the cache of open ELF files and what it keeps of each.
 * image_file.c keeps the list, image_cfi.c the unwind rules, image_read.c the
 * bytes.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_IMAGE_CACHE_H
#define FGT_AGENT_UNWIND_MAPS_IMAGE_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/maps/image_file.h"

#define FGT_IMAGE_FILES_MAX  2048u
#define FGT_IMAGE_PAGE_BYTES 4096u
#define FGT_IMAGE_PAGES	     64u

struct fgt_image_file {
	struct fgt_image_cache *cache;
	struct fgt_elf_source source; /* owned: fd, or bytes in memory */
	struct fgt_elf elf;
	struct fgt_image_key real, mapped; /* of fstat; of maps */
	struct timespec modified;
	uint64_t serial; /* never used twice: names pages and rows */
	/* The rest belongs to cache->lock. */
	unsigned int references; /* besides the cache's own */
	uint64_t last_used;
	uint64_t unused_ns; /* without references: since when */
	bool is_listed; /* false: replaced in the cache, goes at last put */
	bool has_no_cfi; /* tried: it has no rules */
	uint64_t refused_ns; /* no room for its rules: when, + 1; 0: never */
	struct fgt_cfi_table *cfi; /* NULL: not loaded, or given back */
	size_t cfi_bytes; /* counted of it */
	struct fgt_image_file *more_recent, *less_recent; /* with a table */
};

/* A page of code: direct mapped by serial and page number. */
struct fgt_image_page {
	uint64_t serial, number; /* serial 0: empty */
	uint32_t len; /* bytes that the file has */
	uint8_t bytes[FGT_IMAGE_PAGE_BYTES];
};

struct fgt_image_cache {
	struct fgt_cfi_rows *rows; /* the sampler's thread's own */
	/* Protects everything below and the marked fields of the files; nests
	 * inside nothing. */
	pthread_mutex_t lock;
	struct fgt_image_file *files[FGT_IMAGE_FILES_MAX];
	size_t count, limit;
	struct fgt_image_cache_counters counters; /* files: count */
	/* Files that have a table, by their last use. */
	struct fgt_image_file *most_recent, *least_recent;
	size_t cfi_max; /* bytes of all tables */
	size_t whole_bytes; /* of large tables that may be read whole now */
	uint64_t now_ns; /* of the last fgt_image_cache_tend(), else _new() */
	uint64_t clock, last_serial;
	unsigned int references; /* the owner and every file in use */
	struct fgt_image_page pages[FGT_IMAGE_PAGES];
};

/* ---- Unwind rules (image_cfi.c); all with the lock held ----------------- */

/* Frees its table, if it has one. */
void fgt_image_cfi_drop(struct fgt_image_file *file);
/* Time has passed: more may be read. */
void fgt_image_cfi_refill(struct fgt_image_cache *cache, uint64_t passed_ns);

#endif
