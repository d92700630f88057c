/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads identity and links from the headers of an ELF file. Runs in the
 * daemon; must not map the file (it may shrink) nor believe a number in it.
 */
#include "agent/symbols/elf/elf_ident.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define SECTIONS_MAX	65536
#define SEGMENTS_MAX	1024
#define NAMES_MAX_BYTES (1u << 20)
#define NOTES_MAX_BYTES (64u << 10)
#define LINK_MAX_BYTES	(FGT_IMAGE_PATH_MAX + 64)
#define ALTLINK_NAME	".gnu_debugaltlink"
#define DEBUGLINK_NAME	".gnu_debuglink"

struct elf_file {
	int fd;
	uint64_t size;
	bool is_64;
	Elf64_Ehdr header; /* 32-bit headers are widened */
	Elf64_Shdr *sections;
	size_t section_count;
	char *names; /* NUL-terminated section names */
	size_t names_len;
};

static void elf_file_done_auto(struct elf_file *file)
{
	free(file->sections);
	free(file->names);
}

/* Exactly len bytes at offset, or -EBADMSG; -EIO if reading fails. */
static int read_at(const struct elf_file *file, void *data, size_t len,
		   uint64_t offset)
{
	size_t done = 0;

	if (offset > file->size || len > file->size - offset)
		return -EBADMSG;
	while (done < len) {
		ssize_t got = pread(file->fd, (char *)data + done, len - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -EIO;
		if (!got)
			return -EBADMSG;
		done += (size_t)got;
	}
	return 0;
}

/* A new buffer with one more byte, a NUL; refused above max. */
static int load_at(const struct elf_file *file, uint64_t offset, uint64_t len,
		   size_t max, char **ret_data)
{
	FGT_AUTO(free) void *data = NULL;
	int error;

	if (len > max)
		return -EBADMSG;
	data = calloc(1, len + 1);
	if (!data)
		return -ENOMEM;
	error = read_at(file, data, len, offset);
	if (error)
		return error;
	*ret_data = FGT_TAKE(data);
	return 0;
}

static void widen_header(const Elf32_Ehdr *from, Elf64_Ehdr *to)
{
	to->e_type = from->e_type;
	to->e_phoff = from->e_phoff;
	to->e_shoff = from->e_shoff;
	to->e_phentsize = from->e_phentsize;
	to->e_phnum = from->e_phnum;
	to->e_shentsize = from->e_shentsize;
	to->e_shnum = from->e_shnum;
	to->e_shstrndx = from->e_shstrndx;
}

static int read_header(struct elf_file *file)
{
	const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
					    ? ELFDATA2LSB
					    : ELFDATA2MSB;
	unsigned char ident[EI_NIDENT];
	Elf32_Ehdr narrow;

	if (read_at(file, ident, sizeof(ident), 0))
		return -ENOEXEC;
	if (memcmp(ident, ELFMAG, SELFMAG) || ident[EI_DATA] != order)
		return -ENOEXEC;
	file->is_64 = ident[EI_CLASS] == ELFCLASS64;
	if (file->is_64)
		return read_at(file, &file->header, sizeof(file->header), 0);
	if (ident[EI_CLASS] != ELFCLASS32)
		return -ENOEXEC;
	if (read_at(file, &narrow, sizeof(narrow), 0))
		return -EBADMSG;
	widen_header(&narrow, &file->header);
	return 0;
}

static int read_section(const struct elf_file *file, size_t index,
			Elf64_Shdr *ret_section)
{
	uint64_t entry = file->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	uint64_t offset = file->header.e_shoff + index * entry;
	Elf32_Shdr narrow;
	int error;

	if (file->header.e_shentsize != entry || offset < index * entry)
		return -EBADMSG;
	if (file->is_64)
		return read_at(file, ret_section, entry, offset);
	error = read_at(file, &narrow, entry, offset);
	if (error)
		return error;
	ret_section->sh_name = narrow.sh_name;
	ret_section->sh_type = narrow.sh_type;
	ret_section->sh_offset = narrow.sh_offset;
	ret_section->sh_size = narrow.sh_size;
	ret_section->sh_link = narrow.sh_link;
	return 0;
}

static int read_sections(struct elf_file *file)
{
	uint64_t count = file->header.e_shnum;
	uint32_t names = file->header.e_shstrndx;
	Elf64_Shdr first = { 0 };
	int error;

	if (!file->header.e_shoff)
		return 0;
	error = read_section(file, 0, &first);
	if (error)
		return error;
	if (!count)
		count = first.sh_size;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	if (count > SECTIONS_MAX || names >= count)
		return -EBADMSG;
	file->sections = calloc(count, sizeof(*file->sections));
	if (!file->sections)
		return -ENOMEM;
	for (size_t i = 0; i < count && !error; i++)
		error = read_section(file, i, &file->sections[i]);
	if (error)
		return error;
	file->section_count = count;
	file->names_len = file->sections[names].sh_size;
	if (file->sections[names].sh_type == SHT_NOBITS)
		return -EBADMSG;
	return load_at(file, file->sections[names].sh_offset, file->names_len,
		       NAMES_MAX_BYTES, &file->names);
}

/* Takes the build id if these notes hold one. Returns true if they do. */
static bool scan_notes(const char *notes, size_t len,
		       struct fgt_elf_ident *ident)
{
	size_t at = 0;
	Elf64_Nhdr note; /* same layout as Elf32_Nhdr */

	while (len - at >= sizeof(note)) {
		uint64_t name_len, desc_len;
		const char *name = notes + at + sizeof(note);

		memcpy(&note, notes + at, sizeof(note));
		name_len = ((uint64_t)note.n_namesz + 3) & ~3ull;
		desc_len = ((uint64_t)note.n_descsz + 3) & ~3ull;
		at += sizeof(note);
		if (name_len > len - at || note.n_descsz > len - at - name_len)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(name, ELF_NOTE_GNU, 4) &&
		    note.n_descsz <= FGT_BUILD_ID_MAX) {
			memcpy(ident->build_id, name + name_len, note.n_descsz);
			ident->build_id_len = note.n_descsz;
			return true;
		}
		if (desc_len > len - at - name_len)
			return false;
		at += name_len + desc_len;
	}
	return false;
}

static int scan_notes_at(const struct elf_file *file, uint64_t offset,
			 uint64_t len, struct fgt_elf_ident *ident)
{
	char *notes = NULL;
	int error;

	if (ident->build_id_len || len > NOTES_MAX_BYTES)
		return 0;
	error = load_at(file, offset, len, NOTES_MAX_BYTES, &notes);
	if (error)
		return error == -ENOMEM ? error : 0;
	scan_notes(notes, len, ident);
	free(notes);
	return 0;
}

static int scan_segments(const struct elf_file *file,
			 struct fgt_elf_ident *ident)
{
	const Elf64_Ehdr *header = &file->header;
	size_t entry = file->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	int error = 0;

	if (header->e_phentsize != entry)
		return 0;
	for (size_t i = 0; i < header->e_phnum && i < SEGMENTS_MAX && !error;
	     i++) {
		uint64_t offset = header->e_phoff + i * entry;
		Elf64_Phdr segment;
		Elf32_Phdr narrow;

		if (read_at(file, file->is_64 ? (void *)&segment : &narrow,
			    entry, offset))
			return -EBADMSG;
		if (!file->is_64) {
			segment.p_type = narrow.p_type;
			segment.p_offset = narrow.p_offset;
			segment.p_filesz = narrow.p_filesz;
		}
		if (segment.p_type == PT_NOTE)
			error = scan_notes_at(file, segment.p_offset,
					      segment.p_filesz, ident);
	}
	return error;
}

static void take_debuglink(const char *data, size_t len,
			   struct fgt_elf_ident *ident)
{
	size_t name_len = strnlen(data, len);
	size_t crc_at = (name_len + 4) & ~(size_t)3;

	if (!name_len || name_len >= sizeof(ident->debuglink) ||
	    memchr(data, '/', name_len) || crc_at + 4 > len)
		return;
	memcpy(ident->debuglink, data, name_len + 1);
	memcpy(&ident->debuglink_crc, data + crc_at, 4);
}

static void take_altlink(const char *data, size_t len,
			 struct fgt_elf_ident *ident)
{
	size_t name_len = strnlen(data, len);
	size_t id_len;

	if (!name_len || name_len >= len || name_len >= sizeof(ident->altlink))
		return;
	id_len = len - name_len - 1;
	if (!id_len || id_len > FGT_BUILD_ID_MAX)
		return;
	memcpy(ident->altlink, data, name_len + 1);
	memcpy(ident->altlink_build_id, data + name_len + 1, id_len);
	ident->altlink_build_id_len = (uint32_t)id_len;
}

static int take_link(const struct elf_file *file, const Elf64_Shdr *section,
		     const char *name, struct fgt_elf_ident *ident)
{
	char *data = NULL;
	int error = load_at(file, section->sh_offset, section->sh_size,
			    LINK_MAX_BYTES, &data);

	if (error)
		return error == -ENOMEM ? error : 0;
	if (!strcmp(name, DEBUGLINK_NAME))
		take_debuglink(data, section->sh_size, ident);
	else
		take_altlink(data, section->sh_size, ident);
	free(data);
	return 0;
}

static int scan_section(const struct elf_file *file, const Elf64_Shdr *section,
			struct fgt_elf_ident *ident)
{
	const char *name = section->sh_name < file->names_len
				   ? file->names + section->sh_name
				   : "";

	if (section->sh_type == SHT_NOBITS || !section->sh_size)
		return 0;
	if (section->sh_type == SHT_SYMTAB)
		ident->has_symtab = true;
	if (section->sh_type == SHT_NOTE)
		return scan_notes_at(file, section->sh_offset, section->sh_size,
				     ident);
	if (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))
		ident->has_debug_info = true;
	if (!strcmp(name, DEBUGLINK_NAME) || !strcmp(name, ALTLINK_NAME))
		return take_link(file, section, name, ident);
	return 0;
}

int fgt_elf_ident_read(int fd, struct fgt_elf_ident *ret_ident)
{
	FGT_AUTO(elf_file_done) struct elf_file file = { .fd = fd };
	struct fgt_elf_ident ident = { 0 };
	struct stat status;
	int error;

	if (fstat(fd, &status) < 0)
		return -EIO;
	file.size = status.st_size > 0 ? (uint64_t)status.st_size : 0;
	error = read_header(&file);
	if (error)
		return error;
	error = read_sections(&file);
	if (error == -ENOMEM || error == -EIO)
		return error;
	/* Headers of sections may be missing or broken: segments then do. */
	for (size_t i = 0; i < file.section_count && !error; i++)
		error = scan_section(&file, &file.sections[i], &ident);
	if (!ident.build_id_len && (!error || error == -EBADMSG))
		error = scan_segments(&file, &ident);
	if (error)
		return error;
	*ret_ident = ident;
	return 0;
}
