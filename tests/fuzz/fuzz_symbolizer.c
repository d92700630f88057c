/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds bytes as an ELF file to what the daemon (elf_ident) and the symbol
 * helper (symbol_image) read of it, and looks up addresses around its entry.
 * The last 16 bytes choose the addresses.
 */
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/symbols/elf/elf_ident.h"
#include "agent/symbols/elf/symbol_image.h"

#define ADDRESSES 8

static void find_all(struct fgt_symbol_image *image, uint64_t entry,
		     const uint16_t *offsets)
{
	struct fgt_memory_sink bytes;
	struct timespec now;
	uint64_t deadline_ns;

	fgt_memory_sink_init(&bytes, 1 << 20);
	clock_gettime(CLOCK_MONOTONIC, &now);
	deadline_ns = (uint64_t)(now.tv_sec + 1) * 1000000000u;
	for (int i = 0; i < ADDRESSES; i++) {
		struct fgt_names names;

		uint64_t address = entry + offsets[i] - 0x8000u;

		bytes.len_bytes = 0;
		if (!fgt_symbol_image_find(image, &address, 1,
					   FGT_DEMANGLE_FULL, deadline_ns,
					   &bytes) &&
		    fgt_names_unpack(bytes.bytes + sizeof(uint32_t),
				     bytes.len_bytes - sizeof(uint32_t),
				     &names))
			__builtin_trap();
	}
	fgt_memory_sink_done(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	struct fgt_symbol_image *image = NULL;
	uint16_t offsets[ADDRESSES];
	struct fgt_elf_ident ident;
	Elf64_Ehdr header;

	if (size < sizeof(header) + sizeof(offsets))
		return 0;
	memcpy(&header, data, sizeof(header));
	memcpy(offsets, data + size - sizeof(offsets), sizeof(offsets));
	files.image_fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (files.image_fd < 0 ||
	    write(files.image_fd, data, size) != (ssize_t)size)
		return 0;
	fgt_elf_ident_read(files.image_fd, &ident);
	if (fgt_symbol_image_open(&files, true, &image))
		return 0;
	find_all(image, header.e_entry, offsets);
	fgt_symbol_image_close(image);
	return 0;
}
