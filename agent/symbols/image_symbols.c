/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ELF file's names, through libdwfl. Runs where slices are resolved, one
 * thread at a time per file. Reads with pread, never by mmap: a file that its
 * owner truncates would kill us.
 */
#include "agent/symbols/image_symbols.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <lzma.h>
#include <string.h>

#include "agent/symbols/dwarf_inlines.h"
#include "ringbuf/frame.h"

#define DEBUGDATA_MAX ((uint64_t)256 << 20)
#define LZMA_MEMORY   ((uint64_t)128 << 20)

struct fgt_image_symbols {
	int fd; /* libelf reads through it as long as dwfl lives */
	char *path;
	Elf *elf; /* ours until dwfl takes it */
	struct fgt_debug_search search;
	Dwfl *dwfl;
	Dwfl_Module *module;
	Dwarf_Addr bias; /* dwfl's address = ELF's + bias */
	Dwarf_Addr dwarf_bias;
	struct fgt_cu_index *units;
};

void fgt_image_symbols_close(struct fgt_image_symbols *symbols)
{
	if (!symbols)
		return;
	fgt_cu_index_free(symbols->units);
	if (symbols->dwfl)
		dwfl_end(symbols->dwfl);
	if (symbols->elf)
		elf_end(symbols->elf);
	fgt_fd_close(symbols->fd);
	free(symbols->path);
	free(symbols);
}

/* ---- What libdwfl asks for --------------------------------------------- */

static int find_elf(Dwfl_Module *module, void **userdata, const char *name,
		    Dwarf_Addr base, char **file_name, Elf **ret_elf)
{
	struct fgt_image_symbols *symbols = *userdata;

	(void)module;
	(void)name;
	(void)base;
	*file_name = strdup(symbols->path);
	*ret_elf = FGT_TAKE(symbols->elf);
	return -ENOENT; /* no descriptor: the Elf is there already */
}

static int find_debuginfo(Dwfl_Module *module, void **userdata,
			  const char *name, Dwarf_Addr base,
			  const char *file_name, const char *link,
			  GElf_Word crc, char **debuginfo_file_name)
{
	struct fgt_image_symbols *symbols = *userdata;
	const unsigned char *build_id = NULL;
	GElf_Addr note;
	int fd = -1, len;

	(void)name;
	(void)base;
	(void)file_name;
	len = dwfl_module_build_id(module, &build_id, &note);
	if (fgt_debug_file_open(&symbols->search, symbols->path, build_id,
				len > 0 ? (size_t)len : 0, link, crc, &fd) < 0)
		return -ENOENT;
	*debuginfo_file_name = strdup(symbols->path);
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
};

/* ---- A bomb in .gnu_debugdata ------------------------------------------ */

static int check_unpacked_size(const uint8_t *packed, size_t len)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t chunk[65536];
	lzma_ret state;

	if (lzma_stream_decoder(&stream, LZMA_MEMORY, 0) != LZMA_OK)
		return -ENOMEM;
	stream.next_in = packed;
	stream.avail_in = len;
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = lzma_code(&stream, LZMA_FINISH);
	} while (state == LZMA_OK && stream.total_out <= DEBUGDATA_MAX);
	lzma_end(&stream);
	if (state == LZMA_OK || state == LZMA_MEMLIMIT_ERROR)
		return -EFBIG;
	return 0; /* broken data: libdw notices and does without */
}

/* libdw unpacks whatever it finds: look at the size before it does. */
static int check_debugdata(Elf *elf)
{
	Elf_Scn *section = NULL;
	size_t strings;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return 0;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		GElf_Shdr header;
		const char *name;
		Elf_Data *data;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(elf, strings, header.sh_name);
		if (!name || strcmp(name, ".gnu_debugdata") != 0)
			continue;
		data = elf_rawdata(section, NULL);
		return data && data->d_buf
			       ? check_unpacked_size(data->d_buf, data->d_size)
			       : 0;
	}
	return 0;
}

/* ---- Opening ------------------------------------------------------------ */

static void load_units(struct fgt_image_symbols *symbols)
{
	Dwarf *dwarf;

	dwarf = dwfl_module_getdwarf(symbols->module, &symbols->dwarf_bias);
	if (dwarf && fgt_cu_index_new(dwarf, &symbols->units) < 0)
		symbols->units = NULL;
}

static int report_module(struct fgt_image_symbols *symbols)
{
	/* Anywhere but 0; dwfl moves position independent files there. */
	const Dwarf_Addr base = 0x10000000000ull, size = 0x40000000000ull;
	GElf_Ehdr header;
	void **userdata;

	if (elf_kind(symbols->elf) != ELF_K_ELF ||
	    !gelf_getehdr(symbols->elf, &header))
		return -EBADMSG;
	symbols->dwfl = dwfl_begin(&callbacks);
	if (!symbols->dwfl)
		return -ENOMEM;
	symbols->module =
		dwfl_report_module(symbols->dwfl, "image", base, base + size);
	if (!symbols->module ||
	    !dwfl_module_info(symbols->module, &userdata, NULL, NULL, NULL,
			      NULL, NULL, NULL))
		return -ENOMEM;
	*userdata = symbols;
	if (dwfl_report_end(symbols->dwfl, NULL, NULL) != 0 ||
	    !dwfl_module_getelf(symbols->module, &symbols->bias))
		return -EBADMSG;
	/* Loads .symtab, the debug file's, .gnu_debugdata, .dynsym. */
	dwfl_module_getsymtab(symbols->module);
	load_units(symbols);
	return 0;
}

int fgt_image_symbols_open(int fd, const char *path,
			   const struct fgt_debug_search *search,
			   struct fgt_image_symbols **ret_symbols)
{
	FGT_AUTO(fgt_image_symbols_close)
	struct fgt_image_symbols *symbols = NULL;
	int r;

	elf_version(EV_CURRENT);
	symbols = calloc(1, sizeof(*symbols));
	if (!symbols) {
		fgt_fd_close(fd);
		return -ENOMEM;
	}
	symbols->fd = fd;
	symbols->search = *search;
	symbols->path = strdup(path);
	symbols->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!symbols->path)
		return -ENOMEM;
	if (!symbols->elf)
		return -EBADMSG;
	r = check_debugdata(symbols->elf);
	if (r < 0)
		return r;
	r = report_module(symbols);
	if (r < 0)
		return r;
	/* The search is the caller's: used while opening only. */
	symbols->search = (struct fgt_debug_search){ .root_fd = -1 };
	*ret_symbols = FGT_TAKE(symbols);
	return 0;
}

/* ---- Looking up --------------------------------------------------------- */

/* The symbol that covers the address; not merely the one before it. */
static const char *find_in_symtab(struct fgt_image_symbols *symbols,
				  Dwarf_Addr address)
{
	GElf_Off offset;
	GElf_Sym symbol;
	const char *name;

	name = dwfl_module_addrinfo(symbols->module, address, &offset, &symbol,
				    NULL, NULL, NULL);
	if (!name || !*name)
		return NULL;
	if (symbol.st_size != 0 && offset >= symbol.st_size)
		return NULL;
	return name;
}

size_t fgt_image_symbols_find(struct fgt_image_symbols *symbols,
			      uint64_t address, struct fgt_found_symbol *found)
{
	Dwarf_Addr there = address + symbols->bias;
	const char *name = find_in_symtab(symbols, there);
	size_t count = 0;

	found[0] = (struct fgt_found_symbol){ 0 };
	if (symbols->units)
		count = fgt_cu_index_find(symbols->units,
					  there - symbols->dwarf_bias, found);
	if (count > 0)
		return count;
	if (!name)
		return 0;
	/* A unit without scopes (assembler) may still have told the line. */
	found[0].function = name;
	return 1;
}
