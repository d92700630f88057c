/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF headers, notes and section headers with bounded copies. Runs in any
 * thread; must not map files, and must check every count.
 */
#include "agent/unwind/elf/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX	 256u
#define SECTIONS_MAX	 8192u
#define NOTE_BYTES_MAX	 4096u
#define SECTION_NAME_MAX 20u
#define PAGE_MASK	 0xfffull

int fgt_elf_source_read(const struct fgt_elf_source *source, uint64_t offset,
			void *buffer, size_t len)
{
	uint8_t *out = buffer;
	ssize_t got;

	if (offset > source->len || len > source->len - offset)
		return -ENODATA;
	if (source->bytes) {
		memcpy(out, source->bytes + offset, len);
		return 0;
	}
	while (len) {
		got = pread(source->fd, out, len, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return -ENODATA; /* truncated since fstat */
		out += got;
		offset += (uint64_t)got;
		len -= (size_t)got;
	}
	return 0;
}

int fgt_elf_find_bias(const struct fgt_elf *elf, uint64_t start,
		      uint64_t offset, bool is_executable, uint64_t *ret_bias)
{
	const struct fgt_elf_load *found = NULL;

	for (uint32_t i = 0; i < elf->load_count; i++) {
		const struct fgt_elf_load *load = &elf->loads[i];
		uint64_t first = load->offset & ~PAGE_MASK;

		if (offset < first ||
		    offset - first >=
			    load->file_size + (load->offset & PAGE_MASK))
			continue;
		/* Segments may share a page: the flags decide. */
		if (!found || (load->is_executable == is_executable &&
			       found->is_executable != is_executable))
			found = load;
	}
	if (!found)
		return -ENOENT;
	*ret_bias = start - (found->address + (offset - found->offset));
	return 0;
}

static void take_load(struct fgt_elf *elf, const Elf64_Phdr *segment)
{
	struct fgt_elf_load *load;

	if (elf->load_count == FGT_ELF_LOADS_MAX || !segment->p_memsz)
		return;
	/* Sums that wrap round would make every later check a lie. */
	if (segment->p_vaddr + segment->p_memsz < segment->p_vaddr ||
	    segment->p_offset + segment->p_filesz < segment->p_offset ||
	    segment->p_filesz > segment->p_memsz)
		return;
	load = &elf->loads[elf->load_count++];
	load->address = segment->p_vaddr;
	load->offset = segment->p_offset;
	load->file_size = segment->p_filesz;
	load->is_executable = segment->p_flags & PF_X;
	load->is_writable = segment->p_flags & PF_W;
}

/* Looks for the GNU build id among notes; address 0: not in memory. */
static void scan_notes(struct fgt_elf *elf, const struct fgt_elf_source *source,
		       uint64_t offset, uint64_t size, uint64_t align,
		       uint64_t address)
{
	uint8_t notes[NOTE_BYTES_MAX];
	size_t len = size < sizeof(notes) ? size : sizeof(notes), at = 0;
	Elf64_Nhdr note;

	if (elf->build_id_len ||
	    fgt_elf_source_read(source, offset, notes, len) < 0)
		return;
	align = align == 8 ? 8 : 4;
	while (len - at >= sizeof(note)) {
		size_t name, desc, next;

		memcpy(&note, notes + at, sizeof(note));
		if (note.n_namesz > len || note.n_descsz > len)
			return;
		name = at + sizeof(note);
		desc = (name + note.n_namesz + align - 1) & ~(align - 1);
		next = (desc + note.n_descsz + align - 1) & ~(align - 1);
		if (desc > len || note.n_descsz > len - desc)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz > 0 &&
		    note.n_descsz <= sizeof(elf->build_id)) {
			memcpy(elf->build_id, notes + desc, note.n_descsz);
			elf->build_id_len = note.n_descsz;
			elf->build_id_address = address ? address + desc : 0;
			return;
		}
		if (next > len)
			return;
		at = next;
	}
}

static void note_segment(struct fgt_elf_tls_segments *segments,
			 const Elf64_Phdr *segment)
{
	if (segment->p_type == PT_TLS) {
		segments->tls_size = segment->p_memsz;
		segments->tls_align = segment->p_align;
	}
	if (segment->p_type == PT_DYNAMIC) {
		segments->dynamic_offset = segment->p_offset;
		segments->dynamic_size = segment->p_filesz;
	}
	if (segment->p_type == PT_INTERP)
		segments->is_program = true;
}

static int parse_segments(struct fgt_elf *elf,
			  const struct fgt_elf_source *source,
			  const Elf64_Ehdr *header)
{
	struct fgt_elf_tls_segments segments = {
		.is_program = header->e_type == ET_EXEC,
	};
	Elf64_Phdr segment;
	int r;

	/* Files that dwz made have sections only. */
	if (!header->e_phnum)
		return 0;
	if (header->e_phentsize != sizeof(segment) ||
	    header->e_phnum > SEGMENTS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < header->e_phnum; i++) {
		uint64_t offset = header->e_phoff + i * sizeof(segment);

		r = fgt_elf_source_read(source, offset, &segment,
					sizeof(segment));
		if (r < 0)
			return -EBADMSG;
		note_segment(&segments, &segment);
		if (segment.p_type == PT_LOAD)
			take_load(elf, &segment);
		if (segment.p_type == PT_NOTE)
			scan_notes(elf, source, segment.p_offset,
				   segment.p_filesz, segment.p_align,
				   segment.p_vaddr);
		if (segment.p_type == PT_GNU_EH_FRAME) {
			elf->eh_frame_hdr.address = segment.p_vaddr;
			elf->eh_frame_hdr.offset = segment.p_offset;
			elf->eh_frame_hdr.size = segment.p_filesz;
		}
	}
	fgt_elf_find_tls(source, elf, &segments, &elf->thread_context);
	return 0;
}

static struct fgt_elf_range *range_of(struct fgt_elf *elf, const char *name)
{
	if (!strcmp(name, ".eh_frame"))
		return &elf->eh_frame;
	if (!strcmp(name, ".debug_frame"))
		return &elf->debug_frame;
	if (!strcmp(name, ".gnu_debuglink"))
		return &elf->debuglink;
	if (!strcmp(name, ".gnu_debugaltlink"))
		return &elf->altlink;
	if (!strcmp(name, ".eh_frame_hdr") && !elf->eh_frame_hdr.size)
		return &elf->eh_frame_hdr;
	return NULL;
}

static void take_section(struct fgt_elf *elf,
			 const struct fgt_elf_source *source,
			 const Elf64_Shdr *section, const char *name)
{
	struct fgt_elf_range *range = range_of(elf, name);

	if (section->sh_type == SHT_NOBITS || !section->sh_size ||
	    section->sh_addr + section->sh_size < section->sh_addr)
		return;
	if (section->sh_type == SHT_SYMTAB)
		elf->has_symtab = true;
	if (section->sh_type == SHT_NOTE)
		scan_notes(elf, source, section->sh_offset, section->sh_size,
			   section->sh_addralign, 0);
	if (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))
		elf->has_debug_info = true;
	if (!range)
		return;
	range->address = section->sh_addr;
	range->offset = section->sh_offset;
	range->size = section->sh_size;
	range->is_compressed = section->sh_flags & SHF_COMPRESSED;
}

/* Section headers are optional: a broken one ends the search. */
static void parse_sections(struct fgt_elf *elf,
			   const struct fgt_elf_source *source,
			   const Elf64_Ehdr *header)
{
	char name[SECTION_NAME_MAX + 1] = "";
	Elf64_Shdr names, section;

	if (header->e_shentsize != sizeof(section) || !header->e_shoff ||
	    header->e_shnum > SECTIONS_MAX ||
	    header->e_shstrndx >= header->e_shnum)
		return;
	if (fgt_elf_source_read(source,
				header->e_shoff +
					header->e_shstrndx * sizeof(names),
				&names, sizeof(names)) < 0)
		return;
	for (uint32_t i = 1; i < header->e_shnum; i++) {
		size_t len = SECTION_NAME_MAX;

		if (fgt_elf_source_read(source,
					header->e_shoff + i * sizeof(section),
					&section, sizeof(section)) < 0)
			return;
		if (section.sh_name >= names.sh_size)
			continue;
		if (len > names.sh_size - section.sh_name)
			len = names.sh_size - section.sh_name;
		if (fgt_elf_source_read(source,
					names.sh_offset + section.sh_name, name,
					len) < 0)
			continue;
		name[len] = 0;
		take_section(elf, source, &section, name);
	}
}

int fgt_elf_parse(const struct fgt_elf_source *source, struct fgt_elf *ret_elf)
{
	struct fgt_elf elf = { 0 };
	Elf64_Ehdr header;
	int r;

	if (fgt_elf_source_read(source, 0, &header, sizeof(header)) < 0 ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	elf.machine = header.e_machine;
	r = parse_segments(&elf, source, &header);
	if (r < 0)
		return r;
	parse_sections(&elf, source, &header);
	*ret_elf = elf;
	return 0;
}
