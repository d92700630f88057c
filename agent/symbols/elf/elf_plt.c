/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes PLT entries: the slot that an entry jumps through has a relocation,
 * which names the function. Runs in the symbol helper; must not believe an
 * order or a size that the file claims.
 */
#include "agent/symbols/elf/elf_symbols.h"

#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/strings.h"

#define SLOTS_MAX   (1u << 18)
#define SECTION_MAX (16u << 20)
#define ENTRY_BYTES 16

/* A word that the loader fills with the address of a function. */
struct plt_slot {
	uint64_t address;
	const char *name; /* NULL: target is an address in this file */
	uint64_t target;
};

struct slot_list {
	struct plt_slot *items;
	size_t count, capacity;
};

struct plt {
	struct fgt_elf_symbols *symbols; /* sorted */
	Elf *elf;
	GElf_Half machine;
	struct slot_list slots; /* by address */
	struct slot_list jumps; /* of .rela.plt, in its order */
	struct slot_list entries; /* found: address of the entry, its target */
};

static void plt_done_auto(struct plt *plt)
{
	free(plt->slots.items);
	free(plt->jumps.items);
	free(plt->entries.items);
}

static Elf_Data *load(Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data;

	if (header->sh_type == SHT_NOBITS || header->sh_size > SECTION_MAX ||
	    (header->sh_flags & SHF_COMPRESSED))
		return NULL;
	data = elf_getdata(section, NULL);
	return data && data->d_buf ? data : NULL;
}

static bool is_slot_type(GElf_Half machine, GElf_Xword info, bool *ret_is_local)
{
	uint64_t type = GELF_R_TYPE(info);

	if (machine == EM_X86_64) {
		*ret_is_local = type == R_X86_64_IRELATIVE;
		return *ret_is_local || type == R_X86_64_JUMP_SLOT ||
		       type == R_X86_64_GLOB_DAT;
	}
	*ret_is_local = type == R_AARCH64_IRELATIVE;
	return *ret_is_local || type == R_AARCH64_JUMP_SLOT ||
	       type == R_AARCH64_GLOB_DAT;
}

static int add_slot(struct slot_list *list, const struct plt_slot *slot)
{
	if (list->count >= SLOTS_MAX)
		return -EFBIG;
	if (FGT_ARRAY_GROW(list->items, list->count, list->capacity))
		return -ENOMEM;
	list->items[list->count++] = *slot;
	return 0;
}

/* The name of dynamic symbol index, NULL if broken. */
static const char *symbol_name(struct plt *plt, size_t table, size_t index)
{
	Elf_Scn *section = elf_getscn(plt->elf, table);
	GElf_Shdr header;
	Elf_Data *data;
	GElf_Sym symbol;

	if (!section || !gelf_getshdr(section, &header) || index > INT32_MAX)
		return NULL;
	data = load(section, &header);
	if (!data || !gelf_getsym(data, (int)index, &symbol))
		return NULL;
	return elf_strptr(plt->elf, header.sh_link, symbol.st_name);
}

static int scan_relocations(struct plt *plt, Elf_Scn *section,
			    const GElf_Shdr *header, bool is_plt)
{
	Elf_Data *data = load(section, header);
	size_t size = gelf_fsize(plt->elf, ELF_T_RELA, 1, EV_CURRENT);
	int error = 0;

	for (size_t i = 0; data && i < data->d_size / size && !error; i++) {
		struct plt_slot slot = { 0 };
		GElf_Rela relocation;
		bool is_local;

		if (!gelf_getrela(data, (int)i, &relocation))
			break;
		if (!is_slot_type(plt->machine, relocation.r_info, &is_local))
			continue;
		slot.address = relocation.r_offset;
		if (is_local)
			slot.target = (uint64_t)relocation.r_addend;
		else
			slot.name = symbol_name(plt, header->sh_link,
						GELF_R_SYM(relocation.r_info));
		error = add_slot(&plt->slots, &slot);
		if (!error && is_plt)
			error = add_slot(&plt->jumps, &slot);
	}
	return error;
}

static int compare_slots(const void *left, const void *right)
{
	const struct plt_slot *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static const struct plt_slot *find_slot(const struct plt *plt, uint64_t address)
{
	const struct plt_slot key = { .address = address };

	if (!plt->slots.count)
		return NULL;
	return bsearch(&key, plt->slots.items, plt->slots.count, sizeof(key),
		       compare_slots);
}

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* [endbr64] [bnd] jmp *slot(%rip), or [endbr64] push $index (lazy, IBT). */
static const struct plt_slot *decode_x86_64(const struct plt *plt,
					    const uint8_t code[ENTRY_BYTES],
					    uint64_t address)
{
	size_t at = 0;

	if (word_at(code) == 0xfa1e0ff3)
		at += 4;
	if (code[at] == 0x68) {
		uint32_t index = word_at(code + at + 1);

		return index < plt->jumps.count ? &plt->jumps.items[index]
						: NULL;
	}
	if (code[at] == 0xf2)
		at++;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return NULL;
	return find_slot(plt,
			 address + at + 6 +
				 (uint64_t)(int32_t)word_at(code + at + 2));
}

/* [bti c] adrp x16, page; ldr x17, [x16, #offset]. */
static const struct plt_slot *decode_aarch64(const struct plt *plt,
					     const uint8_t code[ENTRY_BYTES],
					     uint64_t address)
{
	size_t at = word_at(code) == 0xd503245f ? 4 : 0;
	uint32_t page = word_at(code + at), load_word = word_at(code + at + 4);
	int64_t pages;

	if ((page & 0x9f00001f) != 0x90000010 ||
	    (load_word & 0xffc003ff) != 0xf9400211)
		return NULL;
	pages = (int64_t)((uint64_t)((page >> 5 & 0x7ffff) << 2 |
				     (page >> 29 & 3))
			  << 43) >>
		43;
	return find_slot(plt, ((address + at) & ~0xfffull) +
				      ((uint64_t)pages << 12) +
				      (load_word >> 10 & 0xfff) * 8);
}

static int scan_code(struct plt *plt, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = load(section, header);
	size_t step = header->sh_entsize == 8 ? 8 : ENTRY_BYTES;
	int error = 0;

	for (size_t at = 0; data && at < data->d_size && !error; at += step) {
		uint8_t code[ENTRY_BYTES] = { 0 };
		uint64_t address = header->sh_addr + at;
		size_t left = data->d_size - at;
		const struct plt_slot *slot;
		struct plt_slot entry;

		memcpy(code, (const uint8_t *)data->d_buf + at,
		       left < step ? left : step);
		slot = plt->machine == EM_X86_64
			       ? decode_x86_64(plt, code, address)
			       : decode_aarch64(plt, code, address);
		if (!slot)
			continue;
		entry = *slot;
		entry.address = address;
		error = add_slot(&plt->entries, &entry);
	}
	return error;
}

static bool is_code(const GElf_Shdr *header, const char *name)
{
	return header->sh_type == SHT_PROGBITS &&
	       (!strncmp(name, ".plt", 4) || !strcmp(name, ".iplt"));
}

static bool is_relocations(const GElf_Shdr *header)
{
	return header->sh_type == SHT_RELA && (header->sh_flags & SHF_ALLOC);
}

/* Reads the relocations, or the code, of all sections. */
static int scan_sections(struct plt *plt, bool want_code)
{
	Elf_Scn *section = NULL;
	size_t names;
	int error = 0;

	if (elf_getshdrstrndx(plt->elf, &names))
		return 0;
	while (!error && (section = elf_nextscn(plt->elf, section))) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(section, &header))
			return -EBADMSG;
		name = elf_strptr(plt->elf, names, header.sh_name);
		if (name && want_code && is_code(&header, name))
			error = scan_code(plt, section, &header);
		if (name && !want_code && is_relocations(&header))
			error = scan_relocations(plt, section, &header,
						 !strcmp(name, ".rela.plt") &&
							 !plt->jumps.items);
	}
	return error;
}

static int add_entries(struct plt *plt)
{
	int error = 0;

	/* Local targets first: adding spoils the order that find() needs. */
	for (size_t i = 0; i < plt->entries.count; i++) {
		struct plt_slot *entry = &plt->entries.items[i];

		if (!entry->name)
			entry->name = fgt_elf_symbols_find(plt->symbols,
							   entry->target);
	}
	for (size_t i = 0; i < plt->entries.count && !error; i++) {
		const struct plt_slot *entry = &plt->entries.items[i];
		char name[FGT_STRING_MAX];

		if (!entry->name || !entry->name[0])
			continue;
		snprintf(name, sizeof(name), "%.*s@plt", FGT_STRING_MAX - 8,
			 entry->name);
		error = fgt_elf_symbols_add_one(plt->symbols, entry->address,
						ENTRY_BYTES, name);
	}
	return error;
}

int fgt_elf_plt_add(struct fgt_elf_symbols *symbols, struct Elf *elf)
{
	FGT_AUTO(plt_done) struct plt plt = { .symbols = symbols, .elf = elf };
	GElf_Ehdr header;
	int error;

	if (!gelf_getehdr(elf, &header))
		return -EBADMSG;
	plt.machine = header.e_machine;
	if (plt.machine != EM_X86_64 && plt.machine != EM_AARCH64)
		return 0;
	if (gelf_getclass(elf) != ELFCLASS64)
		return 0;
	error = scan_sections(&plt, false);
	if (error)
		return error;
	FGT_ARRAY_SORT(plt.slots.items, plt.slots.count, compare_slots);
	error = scan_sections(&plt, true);
	return error ? error : add_entries(&plt);
}
