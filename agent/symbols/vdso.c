/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies our own vDSO, which the kernel mapped whole, section headers
 * included. Runs in the daemon; reads no other process.
 */
#include "agent/symbols/vdso.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/owner.h"

int fgt_vdso_open(int *ret_fd)
{
	const ElfW(Ehdr) *header = (void *)getauxval(AT_SYSINFO_EHDR);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	const char *bytes = (const char *)header;
	size_t len, done = 0;

	if (!header)
		return -ENOENT;
	len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = memfd_create("fgt-vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (done < len) {
		ssize_t put = write(fd, bytes + done, len - done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		done += (size_t)put;
	}
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}
