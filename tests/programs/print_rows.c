/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the rows of an ELF file at the addresses (hexadecimal, one a line)
 * that standard input gives, in the format of readelf
 * --debug-dump=frames-interp, so that a test can compare them: CFA, frame
 * pointer, return address, others.
 *
 * usage: print_rows FILE
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/unwind/cfi/cfi_rows.h"

static void print_row(const struct fgt_cfi_row *row)
{
	if (row->flags & FGT_CFI_ROW_ROOT) {
		printf("root\n");
		return;
	}
	printf("%s%+d ", row->flags & FGT_CFI_ROW_FP_BASED ? "fp" : "sp",
	       row->cfa_offset);
	if (row->flags & FGT_CFI_ROW_FP_SAVED)
		printf("c%+d ", row->fp_offset);
	else
		printf("u ");
	printf("c%+d %s\n", row->pc_words * 8,
	       row->flags & FGT_CFI_ROW_OTHERS_SAVED ? "others" : "-");
}

static void print_address(const struct fgt_cfi_table *table, uint64_t address)
{
	struct fgt_cfi_rule rule;
	struct fgt_cfi_row row;

	printf("%" PRIx64 " ", address);
	if (fgt_cfi_table_find(table, address, &rule) < 0)
		printf("none\n");
	else if (fgt_cfi_row_read(&rule, address, &row) < 0)
		printf("complex\n");
	else
		print_row(&row);
}

int main(int argc, char **argv)
{
	struct fgt_elf_source source = { .fd = -1 };
	struct fgt_cfi_table *table;
	struct stat status;
	struct fgt_elf elf;
	uint64_t address;

	if (argc == 2)
		source.fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (source.fd < 0 || fstat(source.fd, &status) < 0)
		return 2;
	source.len = (uint64_t)status.st_size;
	if (fgt_elf_parse(&source, &elf) < 0 ||
	    fgt_cfi_table_load(&elf, &source, SIZE_MAX, &table) < 0)
		return 1;
	while (scanf("%" SCNx64, &address) == 1)
		print_address(table, address);
	fgt_cfi_table_free(table);
	close(source.fd);
	return 0;
}
