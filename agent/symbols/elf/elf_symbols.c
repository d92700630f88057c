/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads symbol tables through libelf into one sorted array. Runs in the
 * symbol helper; must bound what it reads before libelf allocates for it.
 */
#include "agent/symbols/elf/elf_symbols.h"

#include <errno.h>
#include <gelf.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/strings.h"

#define SYMBOLS_MAX	(4u << 20)
#define TABLE_MAX_BYTES (256u << 20)
#define ALIASES_MAX	4096 /* entries looked at for one address */

struct symbol_entry {
	uint64_t start;
	uint64_t end; /* == start: the symbol has no size */
	uint64_t max_end; /* the highest end of this and earlier entries */
	uint64_t section_end; /* bound of a symbol without size */
	const char *name;
	uint32_t rank; /* lower is better */
};

struct fgt_elf_symbols {
	enum fgt_elf_kind kind;
	struct symbol_entry *entries;
	size_t count, capacity;
	char **names; /* that were added by hand */
	size_t name_count, name_capacity;
};

struct fgt_elf_symbols *fgt_elf_symbols_new(enum fgt_elf_kind kind)
{
	struct fgt_elf_symbols *symbols = calloc(1, sizeof(*symbols));

	if (symbols)
		symbols->kind = kind;
	return symbols;
}

void fgt_elf_symbols_free(struct fgt_elf_symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->name_count; i++)
		free(symbols->names[i]);
	free(symbols->names);
	free(symbols->entries);
	free(symbols);
}

static int add_entry(struct fgt_elf_symbols *symbols,
		     const struct symbol_entry *entry)
{
	if (symbols->count >= SYMBOLS_MAX)
		return -EFBIG;
	if (FGT_ARRAY_GROW(symbols->entries, symbols->count, symbols->capacity))
		return -ENOMEM;
	symbols->entries[symbols->count++] = *entry;
	return 0;
}

/* Which of several symbols at one address a person wants to read. */
static uint32_t rank_of(const GElf_Sym *symbol, const char *name)
{
	uint32_t underscores = 0;
	bool is_untyped = GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE;
	bool is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL;

	while (underscores < 7 && name[underscores] == '_')
		underscores++;
	/* One leading '_' is part of every mangled name. */
	if (!strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2))
		underscores = 0;
	/* glibc's names for its own use. */
	if (!strncmp(name, "__GI_", 5))
		underscores = 7;
	return (uint32_t)!symbol->st_size << 31 | (uint32_t)is_untyped << 30 |
	       (uint32_t)is_local << 29 | underscores << 16 |
	       (uint32_t)strnlen(name, 0xffff);
}

/* Labels that assemblers and the ARM ABI leave behind. */
static bool is_label(const char *name)
{
	return !name[0] || name[0] == '$' || !strncmp(name, ".L", 2);
}

/* The section that a symbol lies in, if it can hold code, or data. */
static bool find_section(Elf *elf, const GElf_Sym *symbol,
			 enum fgt_elf_kind kind, GElf_Shdr *ret_section)
{
	GElf_Xword mask = SHF_ALLOC | SHF_EXECINSTR | SHF_TLS;
	GElf_Xword wanted = kind == FGT_ELF_FUNCTIONS ? SHF_EXECINSTR
						      : SHF_ALLOC;
	Elf_Scn *section;

	if (kind == FGT_ELF_FUNCTIONS)
		mask = SHF_EXECINSTR;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE)
		return false;
	section = elf_getscn(elf, symbol->st_shndx);
	return section && gelf_getshdr(section, ret_section) &&
	       (ret_section->sh_flags & mask) == wanted;
}

static bool is_of_kind(const GElf_Sym *symbol, enum fgt_elf_kind kind)
{
	unsigned char type = GELF_ST_TYPE(symbol->st_info);

	if (kind == FGT_ELF_OBJECTS)
		return type == STT_OBJECT && symbol->st_size;
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

/* Fills an entry; false if the symbol is none of the kind. */
static bool make_entry(Elf *elf, const GElf_Sym *symbol, const char *name,
		       enum fgt_elf_kind kind, struct symbol_entry *ret_entry)
{
	GElf_Shdr section;

	if (!is_of_kind(symbol, kind) || is_label(name) ||
	    !find_section(elf, symbol, kind, &section))
		return false;
	*ret_entry = (struct symbol_entry){
		.start = symbol->st_value,
		.end = symbol->st_value + symbol->st_size,
		.section_end = section.sh_addr + section.sh_size,
		.name = name,
		.rank = rank_of(symbol, name),
	};
	return ret_entry->end >= ret_entry->start;
}

/* The contents of a section of at most TABLE_MAX_BYTES. */
static int load_section(Elf_Scn *section, Elf_Data **ret_data)
{
	GElf_Shdr header;
	GElf_Chdr compressed;

	if (!section || !gelf_getshdr(section, &header) ||
	    header.sh_type == SHT_NOBITS)
		return -EBADMSG;
	if (header.sh_size > TABLE_MAX_BYTES)
		return -EFBIG;
	/* A compressed symbol table is nothing that a linker makes. */
	if (gelf_getchdr(section, &compressed))
		return -EBADMSG;
	*ret_data = elf_getdata(section, NULL);
	return *ret_data && (*ret_data)->d_buf ? 0 : -EBADMSG;
}

/* How many bytes of a string table end with a NUL. */
static size_t count_text(const Elf_Data *names)
{
	const char *end = memrchr(names->d_buf, '\0', names->d_size);

	return end ? (size_t)(end - (const char *)names->d_buf) + 1 : 0;
}

static int add_table(struct fgt_elf_symbols *symbols, Elf *elf,
		     Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data, *names;
	size_t count, text_len;
	int error;

	error = load_section(section, &data);
	if (!error)
		error = load_section(elf_getscn(elf, header->sh_link), &names);
	if (error)
		return error;
	text_len = count_text(names);
	count = data->d_size / gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
	for (size_t i = 1; i < count && i <= INT32_MAX && !error; i++) {
		GElf_Sym symbol;
		struct symbol_entry entry;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		if (symbol.st_name >= text_len)
			continue;
		name = (const char *)names->d_buf + symbol.st_name;
		if (make_entry(elf, &symbol, name, symbols->kind, &entry))
			error = add_entry(symbols, &entry);
	}
	/* The bound of four million functions is no error. */
	return error == -EFBIG ? 0 : error;
}

int fgt_elf_symbols_add(struct fgt_elf_symbols *symbols, struct Elf *elf,
			enum fgt_elf_table table, size_t *ret_count)
{
	const GElf_Word type = table == FGT_ELF_SYMTAB ? SHT_SYMTAB
						       : SHT_DYNSYM;
	size_t before = symbols->count;
	Elf_Scn *section = NULL;
	GElf_Shdr header = { .sh_type = SHT_NULL };
	int error = 0;

	/* There is one of each type. */
	while (header.sh_type != type && (section = elf_nextscn(elf, section)))
		if (!gelf_getshdr(section, &header))
			return -EBADMSG;
	if (section)
		error = add_table(symbols, elf, section, &header);
	if (!error)
		*ret_count = symbols->count - before;
	return error;
}

static const char *keep_name(struct fgt_elf_symbols *symbols, const char *name)
{
	char *copy = NULL;

	if (!FGT_ARRAY_GROW(symbols->names, symbols->name_count,
			    symbols->name_capacity))
		copy = strdup(name);
	if (copy)
		symbols->names[symbols->name_count++] = copy;
	return copy;
}

int fgt_elf_symbols_add_one(struct fgt_elf_symbols *symbols, uint64_t address,
			    uint64_t size, const char *name)
{
	struct symbol_entry entry = {
		.start = address,
		.end = address + size,
		.section_end = address + size,
		.rank = 1u << 29,
	};

	if (entry.end < address)
		return -EBADMSG;
	entry.name = keep_name(symbols, name);
	if (!entry.name)
		return -ENOMEM;
	return add_entry(symbols, &entry);
}

/* The order is by address; at one address the best first, equal input in any
 * order. */
static int compare_entries(const void *left, const void *right)
{
	const struct symbol_entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return strncmp(a->name, b->name, FGT_STRING_MAX);
}

void fgt_elf_symbols_sort(struct fgt_elf_symbols *symbols)
{
	struct symbol_entry *entries = symbols->entries;
	uint64_t max_end = 0;
	size_t kept = 0;

	FGT_ARRAY_SORT(entries, symbols->count, compare_entries);
	for (size_t i = 0; i < symbols->count; i++) {
		/* An alias that covers no more than the better one. */
		if (kept && entries[kept - 1].start == entries[i].start &&
		    entries[kept - 1].end >= entries[i].end)
			continue;
		if (entries[i].end > max_end)
			max_end = entries[i].end;
		entries[kept] = entries[i];
		entries[kept++].max_end = max_end;
	}
	symbols->count = kept;
}

/* The first count ones begin at or before address. NULL: none covers it. */
static const struct symbol_entry *
find_sized(const struct fgt_elf_symbols *symbols, uint64_t address,
	   size_t count)
{
	const struct symbol_entry *best = NULL;

	for (size_t i = count, left = ALIASES_MAX; i && left; i--, left--) {
		const struct symbol_entry *entry = &symbols->entries[i - 1];

		if (best && entry->start != best->start)
			break;
		if (entry->end > address && (!best || entry->rank < best->rank))
			best = entry;
		if (entry->max_end <= address)
			break;
	}
	return best;
}

static size_t count_before(const struct fgt_elf_symbols *symbols,
			   uint64_t address)
{
	return FGT_ARRAY_BISECT(at, symbols->count,
				symbols->entries[at].start <= address);
}

const char *fgt_elf_symbols_find(const struct fgt_elf_symbols *symbols,
				 uint64_t address)
{
	size_t count = count_before(symbols, address);
	const struct symbol_entry *best = find_sized(symbols, address, count);

	if (best)
		return best->name;
	/* Without a size: the nearest before, if no sized one lies between. */
	if (!count)
		return NULL;
	best = &symbols->entries[count - 1];
	if (best->end != best->start || best->max_end > best->start ||
	    address >= best->section_end)
		return NULL;
	return best->name;
}

const char *fgt_elf_symbols_find_object(const struct fgt_elf_symbols *symbols,
					uint64_t address, uint64_t *ret_offset)
{
	const struct symbol_entry *best =
		find_sized(symbols, address, count_before(symbols, address));

	if (!best)
		return NULL;
	*ret_offset = address - best->start;
	return best->name;
}

bool fgt_elf_is_data(struct Elf *elf, uint64_t address)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
		GElf_Phdr part;

		if (gelf_getphdr(elf, (int)i, &part) &&
		    part.p_type == PT_LOAD && address >= part.p_vaddr &&
		    address - part.p_vaddr < part.p_memsz)
			return !(part.p_flags & PF_X);
	}
	return false;
}

uint64_t fgt_elf_symbols_count_bytes(const struct fgt_elf_symbols *symbols)
{
	return symbols->capacity * sizeof(*symbols->entries);
}
