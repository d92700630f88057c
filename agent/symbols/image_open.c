/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an image of a slice to the file that was mapped.
 * Runs where slices are resolved; never takes another file that lies at the
 * same path now.
 */
#include "agent/symbols/image_open.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/unwind/rootfs.h"

#define HEADERS_MAX 256
#define NOTES_MAX   65536

static int read_fully(int fd, void *buffer, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX - len)
		return -EBADMSG;
	while (done < len) {
		ssize_t got = pread(fd, (char *)buffer + done, len - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EBADMSG;
		done += (size_t)got;
	}
	return 0;
}

static bool find_note(const uint8_t *notes, size_t len, uint8_t *ret_build_id,
		      size_t *ret_len)
{
	size_t at = 0;

	while (len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, content, next;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		content = name + ((uint64_t)note.n_namesz + 3) / 4 * 4;
		next = content + ((uint64_t)note.n_descsz + 3) / 4 * 4;
		if (next > len)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) &&
		    note.n_descsz <= FGT_BUILD_ID_MAX) {
			memcpy(ret_build_id, notes + content, note.n_descsz);
			*ret_len = note.n_descsz;
			return true;
		}
		at = (size_t)next;
	}
	return false;
}

int fgt_image_read_build_id(int fd, uint8_t *ret_build_id, size_t *ret_len)
{
	Elf64_Ehdr header;

	*ret_len = 0;
	if (read_fully(fd, &header, sizeof(header), 0) < 0 ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return -EBADMSG;
	if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (unsigned int i = 0; i < header.e_phnum && i < HEADERS_MAX; i++) {
		FGT_AUTO(free) void *notes = NULL;
		Elf64_Phdr segment;

		if (read_fully(fd, &segment, sizeof(segment),
			       header.e_phoff + i * sizeof(segment)) < 0)
			return -EBADMSG;
		if (segment.p_type != PT_NOTE || segment.p_filesz > NOTES_MAX)
			continue;
		notes = malloc(segment.p_filesz + 1);
		if (!notes)
			return -ENOMEM;
		if (read_fully(fd, notes, segment.p_filesz, segment.p_offset) ==
			    0 &&
		    find_note(notes, segment.p_filesz, ret_build_id, ret_len))
			return 0;
	}
	return 0;
}

static bool is_same_file(int fd, const struct fgt_slice_image *image)
{
	uint8_t build_id[FGT_BUILD_ID_MAX];
	struct stat status;
	size_t len;

	if (image->build_id_len)
		return fgt_image_read_build_id(fd, build_id, &len) == 0 &&
		       len == image->build_id_len &&
		       !memcmp(build_id, image->build_id, len);
	return fstat(fd, &status) == 0 && image->ino &&
	       status.st_ino == image->ino && status.st_dev == image->dev;
}

/* Our own vDSO as a file; the same kernel shows the same one to everybody. */
static int open_vdso(int *ret_fd)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	Elf64_Ehdr header;
	size_t size;

	if (!vdso)
		return -ENOENT;
	memcpy(&header, vdso, sizeof(header));
	size = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, vdso, size) != (ssize_t)size)
		return -EIO;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

static int open_by_path(const char *path, int root_fd, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int host_root = -1;

	if (path[0] != '/')
		return -ENOENT;
	if (root_fd >= 0 && fgt_rootfs_open(root_fd, path, ret_fd) == 0)
		return 0;
	host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host_root < 0)
		return -errno;
	return fgt_rootfs_open(host_root, path, ret_fd);
}

int fgt_image_open(const struct fgt_symbolizer_options *options,
		   const struct fgt_slice *slice,
		   const struct fgt_slice_image *image, int root_fd,
		   int *ret_fd, enum fgt_symbol_reason *ret_reason)
{
	const char *path = fgt_slice_string(slice, image->path);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int r;

	*ret_reason = FGT_SYMBOL_NO_FILE;
	if (options->open_image &&
	    options->open_image(options->context, slice, image, &fd) == 0) {
		*ret_fd = FGT_TAKE_FD(fd);
		return 0;
	}
	r = strcmp(path, "[vdso]") ? open_by_path(path, root_fd, &fd)
				   : open_vdso(&fd);
	if (r < 0)
		return -ENOENT;
	if (!is_same_file(fd, image)) {
		*ret_reason = FGT_SYMBOL_OTHER_FILE;
		return -ENOENT;
	}
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}
