/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks one symbol up in the hash table of an ELF file, and for the relocations
 * that refer to it. Runs in any thread; must check every count and offset, and
 * bound each loop.
 */
#include "agent/unwind/elf/elf_tls.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "agent/unwind/elf/elf_file.h"

#define NAME		"otel_thread_ctx_v1"
#define DYNAMIC_MAX	256u
#define CHAIN_MAX	4096u
#define RELOCATIONS_MAX (1u << 18)
#define RELOCATIONS	64u /* read at once */
#define ALIGN_MAX	(UINT64_C(1) << 20)

struct tls_tables {
	const struct fgt_elf_source *source;
	const struct fgt_elf *elf;
	uint64_t hash, symbols, names; /* ELF addresses */
	uint64_t relocations[2], relocation_bytes[2];
};

static bool read_at(const struct tls_tables *table, uint64_t address,
		    void *buffer, size_t len)
{
	for (uint32_t i = 0; i < table->elf->load_count; i++) {
		const struct fgt_elf_load *load = &table->elf->loads[i];

		if (address < load->address ||
		    address - load->address >= load->file_size ||
		    load->file_size - (address - load->address) < len)
			continue;
		return fgt_elf_source_read(table->source,
					   load->offset +
						   (address - load->address),
					   buffer, len) == 0;
	}
	return false;
}

static void take_entry(struct tls_tables *table, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_GNU_HASH:
		table->hash = entry->d_un.d_ptr;
		break;
	case DT_SYMTAB:
		table->symbols = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		table->names = entry->d_un.d_ptr;
		break;
	case DT_RELA:
		table->relocations[0] = entry->d_un.d_ptr;
		break;
	case DT_RELASZ:
		table->relocation_bytes[0] = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		table->relocations[1] = entry->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		table->relocation_bytes[1] = entry->d_un.d_val;
		break;
	default:
		break;
	}
}

static bool read_dynamic(struct tls_tables *table,
			 const struct fgt_elf_tls_segments *segments)
{
	uint64_t count = segments->dynamic_size / sizeof(Elf64_Dyn);

	for (uint64_t i = 0; i < count && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;

		if (fgt_elf_source_read(table->source,
					segments->dynamic_offset +
						i * sizeof(entry),
					&entry, sizeof(entry)) < 0 ||
		    entry.d_tag == DT_NULL)
			break;
		take_entry(table, &entry);
	}
	return table->hash && table->symbols && table->names;
}

/* ---- The symbol ---------------------------------------------------------- */

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (uint8_t)*name++;
	return hash;
}

/* Is that the symbol of that index? */
static bool is_wanted(const struct tls_tables *table, uint32_t index,
		      Elf64_Sym *ret_symbol)
{
	char name[sizeof(NAME)];

	return read_at(table, table->symbols + index * sizeof(*ret_symbol),
		       ret_symbol, sizeof(*ret_symbol)) &&
	       ELF64_ST_TYPE(ret_symbol->st_info) == STT_TLS &&
	       ret_symbol->st_shndx != SHN_UNDEF &&
	       read_at(table, table->names + ret_symbol->st_name, name,
		       sizeof(name)) &&
	       !memcmp(name, NAME, sizeof(name));
}

static bool find_symbol(const struct tls_tables *table, uint32_t *ret_index,
			Elf64_Sym *ret_symbol)
{
	struct {
		uint32_t buckets, first, bloom_words, bloom_shift;
	} head;
	uint32_t hash = hash_name(NAME), index, other;
	uint64_t buckets, chains;

	if (!read_at(table, table->hash, &head, sizeof(head)) || !head.buckets)
		return false;
	buckets = table->hash + sizeof(head) + head.bloom_words * 8ull;
	chains = buckets + head.buckets * 4ull;
	if (!read_at(table, buckets + hash % head.buckets * 4ull, &index,
		     sizeof(index)) ||
	    index < head.first)
		return false;
	for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
		if (!read_at(table, chains + (index - head.first) * 4ull,
			     &other, sizeof(other)))
			return false;
		if ((other | 1) == (hash | 1) &&
		    is_wanted(table, index, ret_symbol)) {
			*ret_index = index;
			return true;
		}
		if (other & 1)
			return false;
	}
	return false;
}

/* ---- Its relocations ------------------------------------------------------ */

/* Relocations of a symbol that the file binds to itself have its offset in the
 * place of its index. */
static bool take_relocation(const Elf64_Rela *relocation, uint32_t index,
			    struct fgt_elf_tls *tls)
{
	uint64_t symbol = ELF64_R_SYM(relocation->r_info);
	bool is_same = symbol ? symbol == index
			      : (uint64_t)relocation->r_addend == tls->offset;

	switch (ELF64_R_TYPE(relocation->r_info)) {
	case R_X86_64_TLSDESC:
		tls->kind = FGT_ELF_TLS_DESCRIPTOR;
		break;
	case R_X86_64_TPOFF64:
		tls->kind = FGT_ELF_TLS_POINTER;
		break;
	case R_X86_64_DTPMOD64:
		tls->kind = FGT_ELF_TLS_MODULE;
		is_same |= !symbol;
		break;
	default:
		return false;
	}
	tls->word = relocation->r_offset;
	return is_same;
}

static bool find_relocation(const struct tls_tables *table, int which,
			    uint32_t index, struct fgt_elf_tls *tls)
{
	Elf64_Rela batch[RELOCATIONS];
	uint64_t count = table->relocation_bytes[which] / sizeof(*batch);

	if (count > RELOCATIONS_MAX)
		return false;
	for (uint64_t at = 0, n; at < count; at += n) {
		n = count - at < RELOCATIONS ? count - at : RELOCATIONS;
		if (!read_at(table,
			     table->relocations[which] + at * sizeof(*batch),
			     batch, n * sizeof(*batch)))
			return false;
		for (uint64_t i = 0; i < n; i++)
			if (take_relocation(&batch[i], index, tls))
				return true;
	}
	return false;
}

void fgt_elf_find_tls(const struct fgt_elf_source *source,
		      const struct fgt_elf *elf,
		      const struct fgt_elf_tls_segments *segments,
		      struct fgt_elf_tls *ret_tls)
{
	struct tls_tables table = { .source = source, .elf = elf };
	uint64_t size = segments->tls_size, align = segments->tls_align;
	struct fgt_elf_tls tls = { 0 };
	Elf64_Sym symbol;
	uint32_t index;

	*ret_tls = tls;
	if (elf->machine != EM_X86_64 || !size || align > ALIGN_MAX ||
	    !read_dynamic(&table, segments) ||
	    !find_symbol(&table, &index, &symbol) || symbol.st_value >= size)
		return;
	tls.offset = symbol.st_value;
	if (find_relocation(&table, 0, index, &tls) ||
	    find_relocation(&table, 1, index, &tls)) {
		*ret_tls = tls;
		return;
	}
	if (!segments->is_program)
		return;
	if (align > 1)
		size = (size + align - 1) / align * align;
	ret_tls->kind = FGT_ELF_TLS_PROGRAM;
	ret_tls->offset = symbol.st_value - size;
}
