/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts symbol tables, DWARF and demangling of one image together. Runs in the
 * symbol helper. Must open ELF files with ELF_C_READ only: a file that is
 * mapped and then truncated kills its reader.
 */
#include "agent/symbols/elf/symbol_image.h"

#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <lzma.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/symbols/elf/dwarf_names.h"
#include "agent/symbols/elf/elf_symbols.h"
#include "agent/unwind/cfi/cfi_table.h"

#define DEBUGDATA_PACKED_MAX (16u << 20)
#define DEBUGDATA_MAX	     (64u << 20)
#define XZ_MEMORY_MAX	     (64u << 20) /* of the decoder */
#define RULES_WHOLE_MAX	     (8u << 20) /* without a search table */

struct fgt_symbol_image {
	struct fgt_image_files files;
	struct fgt_memory_sink debugdata; /* unpacked */
	struct Elf *elf, *debug_elf, *alt_elf, *debugdata_elf;
	struct fgt_elf_symbols *symbols;
	struct fgt_elf_symbols *objects; /* NULL: not wanted yet */
	struct fgt_dwarf_names *dwarf; /* NULL: none, or not wanted */
	struct fgt_cfi_table *rules; /* NULL: none, or not wanted yet */
	bool did_rules;
	uint64_t len_bytes;
	char text[FGT_NAMES_MAX][FGT_NAMES_TEXT_MAX + 1];
};

/* An archive would make libelf open its members. */
static struct Elf *only_elf(struct Elf *elf)
{
	if (elf && elf_kind(elf) != ELF_K_ELF) {
		elf_end(elf);
		return NULL;
	}
	return elf;
}

static struct Elf *open_elf(int fd)
{
	if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	return only_elf(elf_begin(fd, ELF_C_READ, NULL));
}

/* The bytes of .gnu_debugdata, NULL if there are none. */
static Elf_Data *find_debugdata(struct Elf *elf)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(section, &header))
			return NULL;
		name = elf_strptr(elf, names, header.sh_name);
		if (name && !strcmp(name, ".gnu_debugdata") &&
		    header.sh_type != SHT_NOBITS &&
		    header.sh_size <= DEBUGDATA_PACKED_MAX)
			return elf_rawdata(section, NULL);
	}
	return NULL;
}

static int error_of_xz(lzma_ret result)
{
	return result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR
		       ? -ENOMEM
		       : -EBADMSG;
}

static int unpack_some(lzma_stream *stream, const struct fgt_sink *sink)
{
	uint8_t chunk[8192]; /* stacks of threads may be small */
	lzma_ret result = LZMA_OK;
	int error = 0;

	while (!error && result == LZMA_OK) {
		stream->next_out = chunk;
		stream->avail_out = sizeof(chunk);
		result = lzma_code(stream, LZMA_FINISH);
		if (result != LZMA_OK && result != LZMA_STREAM_END)
			return error_of_xz(result);
		error = fgt_sink_write(sink, chunk,
				       sizeof(chunk) - stream->avail_out);
	}
	return error;
}

/* Writes the contents of xz data. The bounds on memory and on output matter:
 * 20 kB can stand for gigabytes. */
static int unpack(const void *packed, size_t len, const struct fgt_sink *sink)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret result;
	int error;

	result = lzma_stream_decoder(&stream, XZ_MEMORY_MAX, 0);
	if (result != LZMA_OK)
		return error_of_xz(result);
	stream.next_in = packed;
	stream.avail_in = len;
	error = unpack_some(&stream, sink);
	lzma_end(&stream);
	return error;
}

/* Of functions only: objects are not kept in it. */
static int add_debugdata(struct fgt_symbol_image *image, size_t *ret_count)
{
	Elf_Data *packed = find_debugdata(image->elf);
	int error;

	if (!packed || !packed->d_buf)
		return 0;
	fgt_memory_sink_init(&image->debugdata, DEBUGDATA_MAX);
	error = unpack(packed->d_buf, packed->d_size, &image->debugdata.sink);
	if (error)
		return error;
	image->debugdata_elf = only_elf(elf_memory(
		(char *)image->debugdata.bytes, image->debugdata.len_bytes));
	if (!image->debugdata_elf)
		return 0;
	return fgt_elf_symbols_add(image->symbols, image->debugdata_elf,
				   FGT_ELF_SYMTAB, ret_count);
}

/* A table that is broken is as good as none; memory is not. */
static int unless_memory(int error)
{
	return error == -ENOMEM ? error : 0;
}

static int load_tables(struct fgt_symbol_image *image,
		       struct fgt_elf_symbols *symbols)
{
	size_t count = 0;
	int error;

	error = unless_memory(fgt_elf_symbols_add(symbols, image->elf,
						  FGT_ELF_SYMTAB, &count));
	if (!error && !count && image->debug_elf)
		error = unless_memory(fgt_elf_symbols_add(
			symbols, image->debug_elf, FGT_ELF_SYMTAB, &count));
	if (error || count)
		return error;
	if (symbols == image->symbols)
		error = unless_memory(add_debugdata(image, &count));
	if (!error)
		error = unless_memory(fgt_elf_symbols_add(
			symbols, image->elf, FGT_ELF_DYNSYM, &count));
	return error;
}

static int load_symbols(struct fgt_symbol_image *image)
{
	int error;

	image->symbols = fgt_elf_symbols_new(FGT_ELF_FUNCTIONS);
	if (!image->symbols)
		return -ENOMEM;
	error = load_tables(image, image->symbols);
	if (error)
		return error;
	fgt_elf_symbols_sort(image->symbols);
	error = unless_memory(fgt_elf_plt_add(image->symbols, image->elf));
	fgt_elf_symbols_sort(image->symbols);
	return error;
}

static int load_objects(struct fgt_symbol_image *image)
{
	int error;

	image->objects = fgt_elf_symbols_new(FGT_ELF_OBJECTS);
	if (!image->objects)
		return -ENOMEM;
	error = load_tables(image, image->objects);
	fgt_elf_symbols_sort(image->objects);
	image->len_bytes += fgt_elf_symbols_count_bytes(image->objects);
	return error;
}

static int load_dwarf(struct fgt_symbol_image *image)
{
	struct Elf *elf = image->elf;
	int error;

	if (image->debug_elf && fgt_dwarf_count_bytes(image->debug_elf))
		elf = image->debug_elf;
	error = fgt_dwarf_names_new(elf, image->alt_elf, &image->dwarf);
	if (!error)
		image->len_bytes += fgt_dwarf_count_bytes(elf);
	if (!error && image->alt_elf)
		image->len_bytes += fgt_dwarf_count_bytes(image->alt_elf);
	return unless_memory(error);
}

int fgt_symbol_image_open(struct fgt_image_files *files, bool want_dwarf,
			  struct fgt_symbol_image **ret_image)
{
	FGT_AUTO(fgt_symbol_image_close) struct fgt_symbol_image *image = NULL;
	int error;

	image = calloc(1, sizeof(*image));
	if (!image) {
		fgt_image_files_close(files);
		return -ENOMEM;
	}
	image->files = *files;
	*files = FGT_IMAGE_FILES_NONE;
	image->elf = open_elf(image->files.image_fd);
	if (!image->elf)
		return -ENOEXEC;
	image->debug_elf = open_elf(image->files.debug_fd);
	image->alt_elf = open_elf(image->files.alt_fd);
	error = load_symbols(image);
	if (!error && want_dwarf)
		error = load_dwarf(image);
	if (error)
		return error;
	image->len_bytes +=
		sizeof(*image) + fgt_elf_symbols_count_bytes(image->symbols);
	*ret_image = FGT_TAKE(image);
	return 0;
}

void fgt_symbol_image_close(struct fgt_symbol_image *image)
{
	if (!image)
		return;
	fgt_dwarf_names_free(image->dwarf);
	fgt_elf_symbols_free(image->symbols);
	fgt_elf_symbols_free(image->objects);
	fgt_cfi_table_free(image->rules);
	elf_end(image->elf);
	elf_end(image->debug_elf);
	elf_end(image->alt_elf);
	elf_end(image->debugdata_elf);
	fgt_memory_sink_done(&image->debugdata);
	fgt_image_files_close(&image->files);
	free(image);
}

uint64_t fgt_symbol_image_count_bytes(const struct fgt_symbol_image *image)
{
	return image->len_bytes;
}

/* Adds one symbol to names; one without a name is left out. */
static void add_name(struct fgt_symbol_image *image, const char *name,
		     const struct fgt_dwarf_call *call, enum fgt_demangle mode,
		     struct fgt_names *names)
{
	char *text = image->text[names->count];

	if (!name || !name[0])
		return;
	fgt_demangle_name(name, mode, text, sizeof(image->text[0]));
	if (!text[0])
		return;
	names->symbols[names->count++] = (struct fgt_symbol_text){
		.function = text,
		.file = call && call->file && call->file[0] ? call->file : NULL,
		.line = call ? call->line : 0,
	};
}

static int find_object(struct fgt_symbol_image *image, uint64_t address,
		       enum fgt_demangle mode, struct fgt_memory_sink *bytes)
{
	struct fgt_names names = { 0 };
	uint64_t offset = 0;
	int error = image->objects ? 0 : load_objects(image);

	if (error)
		return error;
	add_name(image,
		 fgt_elf_symbols_find_object(image->objects, address, &offset),
		 NULL, mode, &names);
	if (names.count && offset) {
		char *text = image->text[0];
		size_t len = strlen(text);

		snprintf(text + len, sizeof(image->text[0]) - len,
			 "+0x%" PRIx64, offset);
	}
	return fgt_names_pack(&names, &bytes->sink);
}

static int load_rules(struct fgt_symbol_image *image)
{
	struct fgt_elf_source source = { .fd = image->files.image_fd };
	struct stat status;
	struct fgt_elf elf;
	int error;

	image->did_rules = true;
	if (fstat(source.fd, &status) < 0)
		return 0;
	source.len = (uint64_t)status.st_size;
	if (fgt_elf_parse(&source, &elf) < 0)
		return 0;
	error = unless_memory(fgt_cfi_table_load(&elf, &source, RULES_WHOLE_MAX,
						 &image->rules));
	/* Tried again by the next question. */
	image->did_rules = !error;
	return error;
}

/*
 * Where the function begins that covers the address: stripped files, too, have
 * unwind rules for each function, with its start.
 */
static int find_start(struct fgt_symbol_image *image, uint64_t address,
		      uint64_t *ret_start)
{
	struct fgt_cfi_rule rule;
	int error = image->did_rules ? 0 : load_rules(image);

	if (!error && image->rules &&
	    fgt_cfi_table_find(image->rules, address, &rule) == 0)
		*ret_start = rule.start;
	return error;
}

static int find(struct fgt_symbol_image *image, uint64_t address,
		enum fgt_demangle mode, uint64_t deadline_ns,
		struct fgt_memory_sink *bytes)
{
	const char *symbol = fgt_elf_symbols_find(image->symbols, address);
	struct fgt_dwarf_call calls[FGT_NAMES_MAX];
	struct fgt_names names = { 0 };
	size_t count = 0;
	int error = 0;

	if (!symbol && fgt_elf_is_data(image->elf, address))
		return find_object(image, address, mode, bytes);
	if (image->dwarf)
		count = fgt_dwarf_names_find(image->dwarf, address, deadline_ns,
					     calls, FGT_NAMES_MAX);
	for (size_t i = 0; i + 1 < count; i++)
		add_name(image, calls[i].name, &calls[i], mode, &names);
	/*
	 * Takes the symbol table's name for the function itself: it has clones
	 * (foo.cold) and aliases that DWARF does not have.
	 */
	if (count)
		add_name(image, symbol ? symbol : calls[count - 1].name,
			 &calls[count - 1], mode, &names);
	else
		add_name(image, symbol, NULL, mode, &names);
	if (!names.count)
		error = find_start(image, address, &names.start);
	return error ? error : fgt_names_pack(&names, &bytes->sink);
}

int fgt_symbol_image_find(struct fgt_symbol_image *image,
			  const uint64_t *addresses, size_t count,
			  enum fgt_demangle mode, uint64_t deadline_ns,
			  struct fgt_memory_sink *bytes)
{
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		size_t at = bytes->len_bytes;
		uint32_t len = 0;

		error = fgt_sink_write(&bytes->sink, &len, sizeof(len));
		if (error)
			break;
		error = find(image, addresses[i], mode, deadline_ns, bytes);
		len = (uint32_t)(bytes->len_bytes - at - sizeof(len));
		memcpy(bytes->bytes + at, &len, sizeof(len));
	}
	return error;
}
