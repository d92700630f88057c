/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread of a program finds its copy of one exported thread-local
 * variable: OpenTelemetry's thread context (OTEP 4947).
 */
#ifndef FGT_AGENT_UNWIND_ELF_ELF_TLS_H
#define FGT_AGENT_UNWIND_ELF_ELF_TLS_H

#include <stdbool.h>
#include <stdint.h>

struct fgt_elf_source;
struct fgt_elf;

enum fgt_elf_tls_kind {
	FGT_ELF_TLS_NONE, /* the file does not export it */
	FGT_ELF_TLS_PROGRAM, /* at the thread pointer + offset */
	FGT_ELF_TLS_POINTER, /* a word holds that offset */
	FGT_ELF_TLS_MODULE, /* a word holds the module: offset is in its part */
	FGT_ELF_TLS_DESCRIPTOR, /* two words, as TLSDESC has them */
	FGT_ELF_TLS_KINDS
};

struct fgt_elf_tls {
	enum fgt_elf_tls_kind kind;
	uint64_t word; /* ELF address, of the words above */
	uint64_t offset; /* may be negative, as such */
};

/*
 * tls_size, tls_align: of the segment PT_TLS; dynamic: file offset and size of
 * PT_DYNAMIC; is_program: it has an interpreter, or a fixed address. A file
 * that is broken does not export it. x86-64 only.
 *
 * MT-Safe | AS-Safe
 */
struct fgt_elf_tls_segments {
	uint64_t tls_size, tls_align, dynamic_offset, dynamic_size;
	bool is_program;
};
void fgt_elf_find_tls(const struct fgt_elf_source *source,
		      const struct fgt_elf *elf,
		      const struct fgt_elf_tls_segments *segments,
		      struct fgt_elf_tls *ret_tls);

#endif
