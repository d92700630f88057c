/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few facts about an ELF file that unwinding needs, and those that lead to
 * its debug files; read from a descriptor or from memory. Every count and
 * offset is hostile until checked.
 *
 * MT-Safe | AS-Unsafe unless a function has another note
 */
#ifndef FGT_AGENT_UNWIND_ELF_ELF_FILE_H
#define FGT_AGENT_UNWIND_ELF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/elf/elf_tls.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/frame.h"

#define FGT_ELF_LOADS_MAX 32

/* Where the bytes come from: fd if bytes is NULL. */
struct fgt_elf_source {
	int fd;
	const uint8_t *bytes;
	uint64_t len; /* of the file or of bytes */
};

struct fgt_elf_load {
	uint64_t address, offset, file_size;
	bool is_executable, is_writable;
};

/* A section or segment: size 0 if the file has none. */
struct fgt_elf_range {
	uint64_t address, offset, size;
	bool is_compressed; /* SHF_COMPRESSED: size is of the packed bytes */
};

struct fgt_elf {
	uint16_t machine;
	uint32_t load_count;
	struct fgt_elf_load loads[FGT_ELF_LOADS_MAX];
	uint8_t build_id[FGT_BUILD_ID_MAX];
	uint32_t build_id_len;
	/* The address of its bytes; 0 if not in memory, or found by a section
	 * only. */
	uint64_t build_id_address;
	struct fgt_elf_range eh_frame_hdr, eh_frame, debug_frame;
	struct fgt_elf_range debuglink, altlink; /* .gnu_debug…link */
	bool has_symtab, has_debug_info; /* with contents */
	struct fgt_elf_tls thread_context;
};

/* Exactly len bytes. -ENODATA past the end, -EIO and errno of pread. */
int fgt_elf_source_read(const struct fgt_elf_source *source, uint64_t offset,
			void *buffer, size_t len);

/*
 * -ENOEXEC not an ELF file of 64 bits, little-endian, -EBADMSG broken.
 *
 * MT-Safe | AS-Safe
 */
int fgt_elf_parse(const struct fgt_elf_source *source, struct fgt_elf *ret_elf);

/*
 * PC - ELF address for a mapping of [offset, …) at start. -ENOENT when no
 * segment covers that offset.
 */
int fgt_elf_find_bias(const struct fgt_elf *elf, uint64_t start,
		      uint64_t offset, bool is_executable, uint64_t *ret_bias);

/* ---- A part of a file in memory (lazy_bytes.c) -------------------------- */

/* Pages are read, and take memory, when they are needed. */
struct fgt_lazy_bytes;

/*
 * [offset, offset + len) of a file, len > 0. source is copied; what it reads
 * from (fd, bytes) must outlive this. -ENOMEM.
 */
int fgt_lazy_bytes_new(const struct fgt_elf_source *source, uint64_t offset,
		       size_t len, struct fgt_lazy_bytes **ret_lazy);
void fgt_lazy_bytes_free(struct fgt_lazy_bytes *lazy);
FGT_DEFINE_AUTO(struct fgt_lazy_bytes *, fgt_lazy_bytes_free);

/* Where the bytes are, once they are needed: [len]. */
uint8_t *fgt_lazy_bytes_get(struct fgt_lazy_bytes *lazy);

/* Bytes of memory that it holds by now. MT-Safe | AS-Safe */
size_t fgt_lazy_bytes_size(const struct fgt_lazy_bytes *lazy);

/*
 * Reads [at, at + len), or as much of it as lies within, if it is not there
 * yet. False: the file cannot be read there, or has changed.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_lazy_bytes_need(struct fgt_lazy_bytes *lazy, uint64_t at,
			 uint64_t len);

#endif
