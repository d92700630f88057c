/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the vDSO of this process, which the kernel mapped whole, section
 * headers included. Runs in the daemon; reads no other process.
 */
#include "agent/symbols/elf/vdso.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

int fgt_vdso_open(int *ret_fd)
{
	const ElfW(Ehdr) *header = (void *)getauxval(AT_SYSINFO_EHDR);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	size_t len;
	int r;

	if (!header)
		return -ENOENT;
	len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = memfd_create("fgt-vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fgt_fd_write(fd, header, len);
	if (r < 0)
		return r;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}
