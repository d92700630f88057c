/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cache of images asks another process for, where its files belong to
 * other users than this process: everything that comes out of their bytes. The
 * room agent/unwind/rows has such processes.
 *
 * -EAGAIN of any function: there is no answer yet; ask again later.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_IMAGE_SERVER_H
#define FGT_AGENT_UNWIND_MAPS_IMAGE_SERVER_H

#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/slice/service.h"

/* A file of a cache. */
struct fgt_image_served {
	uint64_t user; /* whose process mapped it: each user has a server */
	uint64_t serial; /* of the file in its cache */
	const struct fgt_elf_source *source; /* borrowed */
	/* For the server only, under a lock of it: who has the file open. */
	uint64_t opened_by;
	bool is_counted; /* among the user's files */
};

struct fgt_image_server {
	/*
	 * The facts that are needed of an ELF file for this machine, checked:
	 * machine, loads, build id. wait_ms: how long to wait, 0: as briefly as
	 * the sampler may. Errors of fgt_elf_parse(). MT-Safe
	 */
	int (*get_elf)(void *context, struct fgt_image_served *file,
		       unsigned int wait_ms, struct fgt_elf *ret_elf);
	/* A page (FGT_IMAGE_PAGE_BYTES) of the file by its number; the last one
	 * is shorter. -EIO. MT-Safe */
	int (*get_page)(void *context, struct fgt_image_served *file,
			unsigned int wait_ms, uint64_t number, uint8_t *bytes,
			uint32_t *ret_len);
	/* Row and function of an address. Errors of
	 * fgt_image_file_find_rule(). MT-Safe */
	int (*get_row)(void *context, struct fgt_image_served *file,
		       uint64_t address, struct fgt_cfi_row *ret_row,
		       struct fgt_image_function *ret_function);
	/* The whole rule, whose instructions are not checked; valid until the
	 * next call. For the sampler thread only. */
	int (*get_rule)(void *context, struct fgt_image_served *file,
			uint64_t address, struct fgt_cfi_rule *ret_rule);
	/* Which service a program is a part of: the file is the payload of its
	 * context. -EBADMSG. For the sampler thread only. */
	int (*get_service)(void *context, struct fgt_image_served *file,
			   struct fgt_service *ret_service);
	/* The file is closed. MT-Safe, and does not wait */
	void (*forget)(void *context, const struct fgt_image_served *file);
	/* Once a second. MT-Safe, and does not wait */
	void (*tend)(void *context, uint64_t now_ns);
	/* Adds bytes and counts of unwind rules. MT-Safe */
	void (*count)(void *context, struct fgt_image_cache_counters *counters);
	/* For less than the usual bytes of unwind rules, before the first
	 * use. */
	void (*limit_rules)(void *context, uint64_t bytes);
	void (*free)(void *context);
};

/* Before the first use of the cache: its files are another process's to read.
 * Takes context over; freed with the last file. -ENOMEM (context stays). */
int fgt_image_cache_set_server(struct fgt_image_cache *cache,
			       const struct fgt_image_server *server,
			       void *context);

/* As get_service(), of a cache that is served. */
int fgt_image_cache_get_service(struct fgt_image_cache *cache,
				struct fgt_image_served *payload,
				struct fgt_service *ret_service);
/* It is not asked about again. */
void fgt_image_cache_forget_service(struct fgt_image_cache *cache,
				    const struct fgt_image_served *payload);

#endif
