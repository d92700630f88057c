/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between the sampler's process and a row server: one message for
 * each request, one for its reply, in the processor's byte order. Both are this
 * program.
 */
#ifndef FGT_AGENT_UNWIND_ROWS_ROWS_WIRE_H
#define FGT_AGENT_UNWIND_ROWS_ROWS_WIRE_H

#include <stdint.h>

#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/elf/elf_file.h"

/* How a server is started. */
#define FGT_ROWS_NAME "fgt-rows"
#define FGT_ROWS_VERB "row-server"

enum fgt_rows_verb {
	FGT_ROWS_ELF = 1, /* struct fgt_rows_elf */
	FGT_ROWS_PAGE, /* bytes of page number `address` */
	FGT_ROWS_ROW, /* struct fgt_rows_row */
	FGT_ROWS_RULE, /* struct fgt_rows_rule, then the instructions */
	FGT_ROWS_SERVICE, /* struct fgt_service, of a payload as the file */
	FGT_ROWS_FORGET, /* no reply */
};

/* A descriptor of the file comes along if the server does not have it open. */
struct fgt_rows_request {
	uint32_t number; /* of this request */
	uint32_t verb;
	uint64_t image; /* a number that stands for one open file */
	uint64_t address; /* of an instruction, ELF */
	uint64_t rules_max; /* bytes of unwind rules that it may keep */
};

/* Totals of a server. */
struct fgt_rows_counts {
	uint64_t cfi_bytes, given_back, refused;
};

struct fgt_rows_reply {
	uint32_t number; /* of its request */
	/* 0 or a negative errno; -EBADF: the file is not open here. Without 0
	 * nothing follows. */
	int32_t error;
	struct fgt_rows_counts counts;
};

struct fgt_rows_elf {
	uint32_t load_count, build_id_len;
	uint64_t build_id_address;
	uint64_t tls_kind, tls_word, tls_offset; /* thread_context */
	struct {
		uint64_t address, offset, file_size;
		uint32_t is_executable, is_writable;
	} loads[FGT_ELF_LOADS_MAX];
	uint8_t build_id[FGT_BUILD_ID_MAX];
};

struct fgt_rows_row {
	uint64_t start, end; /* the function */
	struct fgt_cfi_row row;
	uint32_t saved;
	uint32_t is_signal_frame;
};

struct fgt_rows_rule {
	uint64_t start, end;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_column;
	uint32_t is_signal_frame;
	uint32_t common_len, instructions_len; /* bytes that follow */
};

/* As many as are copied of a rule (cfi_step.c). */
#define FGT_ROWS_INSTRUCTIONS_MAX (40u * 1024)
#define FGT_ROWS_REPLY_MAX                                                     \
	(sizeof(struct fgt_rows_reply) + sizeof(struct fgt_rows_rule) +        \
	 FGT_ROWS_INSTRUCTIONS_MAX)

#endif
