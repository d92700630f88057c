/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the unwind sections of one ELF file and searches them. Runs in any
 * thread; must not map a file: it may be cut off.
 */
#include "agent/unwind/cfi/cfi_table.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/unwind/cfi/cfi_entry.h"
#include "ringbuf/base/array.h"

#define SECTION_BYTES_MAX (64u << 20)
#define LAZY_BYTES_MIN	  16384u /* smaller ones are read at once */
#define INDEX_ENTRIES_MAX (4u << 20)

/* .eh_frame_hdr: version, encodings, eh_frame_ptr, fde_count, table. */
#define HDR_LEN		   12u
#define HDR_ENTRY_LEN	   8u
#define HDR_ENC_PCREL_S4   0x1b
#define HDR_ENC_UDATA4	   0x03
#define HDR_ENC_DATAREL_S4 0x3b

struct index_entry {
	uint64_t start;
	uint32_t offset; /* of the FDE */
};

/* One section with the sorted list of its FDEs, if one was needed. */
struct indexed_section {
	struct fgt_cfi_section section;
	struct index_entry *entries;
	size_t count;
};

struct fgt_cfi_table {
	struct indexed_section eh_frame, debug_frame;
	struct fgt_cfi_section hdr; /* .eh_frame_hdr; len 0: none */
	size_t hdr_count; /* of entries in its search table, if usable */
};

static void free_section(struct fgt_cfi_section *section)
{
	if (section->lazy)
		fgt_lazy_bytes_free(section->lazy);
	else
		free(section->bytes);
}

void fgt_cfi_table_free(struct fgt_cfi_table *table)
{
	if (!table)
		return;
	free_section(&table->eh_frame.section);
	free(table->eh_frame.entries);
	free_section(&table->debug_frame.section);
	free(table->debug_frame.entries);
	free_section(&table->hdr);
	free(table);
}

static size_t section_size(const struct fgt_cfi_section *section)
{
	return section->lazy ? fgt_lazy_bytes_size(section->lazy)
			     : section->len;
}

size_t fgt_cfi_table_size(const struct fgt_cfi_table *table)
{
	return sizeof(*table) + section_size(&table->hdr) +
	       section_size(&table->eh_frame.section) +
	       section_size(&table->debug_frame.section) +
	       (table->eh_frame.count + table->debug_frame.count) *
		       sizeof(struct index_entry);
}

size_t fgt_cfi_table_room(const struct fgt_cfi_table *table)
{
	return table->hdr.len + table->eh_frame.section.len +
	       table->debug_frame.section.len;
}

static int check_range(const struct fgt_elf_source *source,
		       const struct fgt_elf_range *range)
{
	if (!range->size)
		return -ENOENT;
	/* Compare with the file before allocating: a hostile size must not cost
	 * memory. */
	if (range->offset > source->len ||
	    range->size > source->len - range->offset)
		return -ENODATA;
	return range->size > SECTION_BYTES_MAX ? -EFBIG : 0;
}

static int read_range(const struct fgt_elf_source *source,
		      const struct fgt_elf_range *range, void **ret_bytes)
{
	FGT_AUTO(free) void *bytes = malloc(range->size);
	int r;

	if (!bytes)
		return -ENOMEM;
	r = fgt_elf_source_read(source, range->offset, bytes, range->size);
	if (r < 0)
		return r;
	*ret_bytes = FGT_TAKE(bytes);
	return 0;
}

/* Unpacks an SHF_COMPRESSED section; the size that it claims is a limit. */
static int load_packed(const struct fgt_elf_source *source,
		       const struct fgt_elf_range *range, size_t whole_max,
		       struct fgt_cfi_section *section)
{
	FGT_AUTO(free) void *packed = NULL;
	FGT_AUTO(free) void *bytes = NULL;
	Elf64_Chdr header;
	uLongf len;
	int r;

	if (range->size < sizeof(header))
		return -EBADMSG;
	r = read_range(source, range, &packed);
	if (r < 0)
		return r;
	memcpy(&header, packed, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB)
		return -ENOTSUP;
	/* Deflate packs at most 1032 : 1. */
	if (!header.ch_size || header.ch_size > SECTION_BYTES_MAX ||
	    header.ch_size / 1040 > range->size)
		return -EFBIG;
	if (header.ch_size > whole_max)
		return -ENOBUFS;
	bytes = malloc(header.ch_size);
	if (!bytes)
		return -ENOMEM;
	len = header.ch_size;
	if (uncompress(bytes, &len, (const uint8_t *)packed + sizeof(header),
		       range->size - sizeof(header)) != Z_OK)
		return -EBADMSG;
	section->len = len;
	section->bytes = FGT_TAKE(bytes);
	return 0;
}

static int load_section(const struct fgt_elf_source *source,
			const struct fgt_elf_range *range, size_t whole_max,
			struct fgt_cfi_section *section)
{
	int r = check_range(source, range);
	void *bytes = NULL;

	if (r < 0)
		return r;
	section->len = range->size;
	section->address = range->address;
	if (range->is_compressed)
		r = load_packed(source, range, whole_max, section);
	else if (range->size >= LAZY_BYTES_MIN)
		r = fgt_lazy_bytes_new(source, range->offset, range->size,
				       &section->lazy);
	else
		r = read_range(source, range, &bytes);
	if (section->lazy)
		section->bytes = fgt_lazy_bytes_get(section->lazy);
	else if (bytes)
		section->bytes = bytes;
	if (r < 0)
		section->len = 0;
	return r;
}

/* Finds .eh_frame without section headers: hdr points at it. */
static void find_eh_frame(const struct fgt_elf *elf, uint64_t address,
			  struct fgt_elf_range *range)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const struct fgt_elf_load *load = &elf->loads[i];
		uint64_t distance = address - load->address;

		if (address < load->address || distance >= load->file_size)
			continue;
		range->address = address;
		range->offset = load->offset + distance;
		range->size = load->file_size - distance;
		return;
	}
}

/* False where the file cannot be read. */
static bool read_hdr(const struct fgt_cfi_table *table, size_t at,
		     int32_t *ret_value)
{
	if (!fgt_cfi_section_need(&table->hdr, at, sizeof(*ret_value)))
		return false;
	memcpy(ret_value, table->hdr.bytes + at, sizeof(*ret_value));
	return true;
}

/*
 * Keeps .eh_frame_hdr if its table has the one shape that linkers write.
 * *ret_eh_frame is the start of .eh_frame by its header, 0 if unknown.
 */
static int load_hdr(struct fgt_cfi_table *table, const struct fgt_elf *elf,
		    const struct fgt_elf_source *source, uint64_t *ret_eh_frame)
{
	const struct fgt_elf_range *range = &elf->eh_frame_hdr;
	int32_t distance, count;
	const uint8_t *hdr;
	int r;

	*ret_eh_frame = 0;
	if (range->size < HDR_LEN || range->is_compressed)
		return 0;
	r = load_section(source, range, 0, &table->hdr);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || !read_hdr(table, 4, &distance) ||
	    !read_hdr(table, 8, &count))
		return 0;
	hdr = table->hdr.bytes;
	if (hdr[0] == 1 && hdr[1] == HDR_ENC_PCREL_S4)
		*ret_eh_frame =
			range->address + 4 + (uint64_t)(int64_t)distance;
	if (hdr[0] == 1 && hdr[2] == HDR_ENC_UDATA4 &&
	    hdr[3] == HDR_ENC_DATAREL_S4)
		table->hdr_count = (uint32_t)count;
	if (table->hdr_count > (range->size - HDR_LEN) / HDR_ENTRY_LEN)
		table->hdr_count = (range->size - HDR_LEN) / HDR_ENTRY_LEN;
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct index_entry *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return 0;
}

static int append_entry(struct indexed_section *indexed, size_t *capacity,
			uint64_t start, uint64_t offset)
{
	if (indexed->count == INDEX_ENTRIES_MAX)
		return -EFBIG;
	if (FGT_ARRAY_GROW(indexed->entries, indexed->count, *capacity))
		return -ENOMEM;
	indexed->entries[indexed->count].start = start;
	indexed->entries[indexed->count].offset = (uint32_t)offset;
	indexed->count++;
	return 0;
}

/* Lists all FDEs by start address; a broken entry ends the list. */
static int build_index(struct indexed_section *indexed, size_t whole_max)
{
	const struct fgt_cfi_section *section = &indexed->section;
	struct fgt_cfi_entry entry;
	struct fgt_cfi_rule rule;
	uint64_t offset = 0;
	size_t capacity = 0;
	int r;

	if (section->len > whole_max)
		return -ENOBUFS;
	/* Reads the whole section at once: the index needs all of it. */
	if (!fgt_cfi_section_need(section, 0, section->len))
		return -EIO;
	while (offset < section->len &&
	       fgt_cfi_entry_read(section, offset, &entry) == 0) {
		/* A zero length ends a piece; crtend's is not the last. */
		if (!entry.is_end && !entry.is_cie &&
		    fgt_cfi_rule_read(section, offset, &rule) == 0) {
			r = append_entry(indexed, &capacity, rule.start,
					 offset);
			if (r < 0)
				return r;
		}
		offset = entry.next;
	}
	if (indexed->count)
		qsort(indexed->entries, indexed->count,
		      sizeof(*indexed->entries), compare_entries);
	return 0;
}

int fgt_cfi_table_load(const struct fgt_elf *elf,
		       const struct fgt_elf_source *source, size_t whole_max,
		       struct fgt_cfi_table **ret_table)
{
	FGT_AUTO(fgt_cfi_table_free) struct fgt_cfi_table *table = NULL;
	struct fgt_elf_range range = elf->eh_frame;
	uint64_t eh_frame;
	int r;

	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	r = load_hdr(table, elf, source, &eh_frame);
	if (r < 0)
		return r;
	if (!range.size && eh_frame)
		find_eh_frame(elf, eh_frame, &range);
	r = load_section(source, &range, whole_max, &table->eh_frame.section);
	if (r == -ENOMEM || r == -ENOBUFS)
		return r;
	table->eh_frame.section.data_base = table->hdr.address;
	r = load_section(source, &elf->debug_frame, whole_max,
			 &table->debug_frame.section);
	if (r == -ENOMEM || r == -ENOBUFS)
		return r;
	table->debug_frame.section.is_debug_frame = true;
	if (!table->eh_frame.section.len && !table->debug_frame.section.len)
		return -ENOENT;
	if (!table->hdr_count) {
		r = build_index(&table->eh_frame, whole_max);
		if (r < 0)
			return r;
	}
	r = build_index(&table->debug_frame, whole_max);
	if (r < 0)
		return r;
	*ret_table = FGT_TAKE(table);
	return 0;
}

/* Takes the FDE at an offset if it covers the address. */
static int take_if_covering(const struct fgt_cfi_section *section,
			    uint64_t offset, uint64_t address,
			    struct fgt_cfi_rule *ret_rule)
{
	struct fgt_cfi_rule rule;
	int r;

	r = fgt_cfi_rule_read(section, offset, &rule);
	if (r < 0)
		return r;
	if (address < rule.start || address >= rule.end)
		return -ENOENT;
	*ret_rule = rule;
	return 0;
}

static int find_by_hdr(const struct fgt_cfi_table *table, uint64_t address,
		       struct fgt_cfi_rule *ret_rule)
{
	int64_t wanted = (int64_t)(address - table->hdr.address);
	size_t low = 0, high = table->hdr_count;
	int32_t start, offset;
	uint64_t fde;

	/* The last entry that starts at or below the address. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (!read_hdr(table, HDR_LEN + middle * HDR_ENTRY_LEN, &start))
			return -EIO;
		if (start <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	if (!read_hdr(table, HDR_LEN + (low - 1) * HDR_ENTRY_LEN + 4, &offset))
		return -EIO;
	fde = table->hdr.address + (uint64_t)(int64_t)offset;
	if (fde < table->eh_frame.section.address)
		return -EBADMSG;
	return take_if_covering(&table->eh_frame.section,
				fde - table->eh_frame.section.address, address,
				ret_rule);
}

static int find_by_index(const struct indexed_section *indexed,
			 uint64_t address, struct fgt_cfi_rule *ret_rule)
{
	size_t count = FGT_ARRAY_BISECT(at, indexed->count,
					indexed->entries[at].start <= address);

	if (!count)
		return -ENOENT;
	return take_if_covering(&indexed->section,
				indexed->entries[count - 1].offset, address,
				ret_rule);
}

int fgt_cfi_table_find(const struct fgt_cfi_table *table, uint64_t address,
		       struct fgt_cfi_rule *ret_rule)
{
	int r;

	if (table->hdr_count)
		r = find_by_hdr(table, address, ret_rule);
	else
		r = find_by_index(&table->eh_frame, address, ret_rule);
	if (r < 0 && find_by_index(&table->debug_frame, address, ret_rule) == 0)
		return 0;
	return r;
}
