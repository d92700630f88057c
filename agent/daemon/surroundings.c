/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the daemon's process. Runs in the main thread, before there are
 * other threads; must not take away what a later step needs.
 */
#include "agent/daemon/surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/config/config.h"

/* Blocks of this size and more go back to the kernel when they are freed. */
#define MMAP_THRESHOLD_BYTES (128 << 10)

/* Without them the next file that is opened becomes standard error. */
static int open_standard_descriptors(struct fgt_why *why)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* Not CLOEXEC: it stands for a descriptor that is inherited. */
		if (open("/dev/null", O_RDWR) != fd)
			return fgt_why_set(why, -EBADF,
					   "cannot open /dev/null for the "
					   "closed descriptor %d: %m: create "
					   "it",
					   fd);
	}
	return 0;
}

/*
 * Those of the service unit, where each has its reason. *ret_kept: deliveries
 * may get two more, CAP_SYS_ADMIN to go into another network, and CAP_SETPCAP to
 * empty their bounding set. Before Linux 5.9, where the others are not enough,
 * the daemon uses these too.
 */
static void choose_capabilities(uint64_t *ret_used, uint64_t *ret_kept)
{
	static const unsigned int used[] = {
		CAP_SYS_PTRACE,
		CAP_PERFMON,
		CAP_BPF,
		CAP_DAC_READ_SEARCH,
		CAP_CHECKPOINT_RESTORE,
		CAP_SYS_NICE,
		CAP_SETUID,
		CAP_SETGID,
		CAP_KILL,
	};

	*ret_used = 0;
	for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++)
		*ret_used |= UINT64_C(1) << used[i];
	*ret_kept = *ret_used | UINT64_C(1) << CAP_SYS_ADMIN |
		    UINT64_C(1) << CAP_SETPCAP;
	if (prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE) < 0)
		*ret_used = *ret_kept;
}

/* Of this thread, and of those that it starts. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 } };
	uint64_t used, kept;

	choose_capabilities(&used, &kept);
	for (unsigned int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!(kept >> i & 1))
			(void)prctl(PR_CAPBSET_DROP, i);
	if (syscall(SYS_capget, &head, data) < 0)
		return;
	for (unsigned int i = 0; i < 2; i++) {
		data[i].effective &= (uint32_t)(used >> 32 * i);
		data[i].permitted &= (uint32_t)(kept >> 32 * i);
		data[i].inheritable &= (uint32_t)(kept >> 32 * i);
	}
	(void)syscall(SYS_capset, &head, data);
}

/*
 * Stacks of several users and destinations with keys are in its memory: no
 * core file, no other process of its user reads them. Its children get no
 * rights that it does not have, not even those of the program's file.
 */
static int give_up_rights(bool is_self_sampled, struct fgt_why *why)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	drop_capabilities();
	/* A kernel without filters has none. */
	if (fgt_syscall_filter_spare() == -ENOMEM)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	/* Its procfs files are root's afterwards: another user's daemon could
	 * not read which system calls block its threads. */
	if (geteuid() == 0 || !is_self_sampled)
		prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

bool fgt_is_default_socket(const char *path)
{
	char built_in[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *given = getenv("FGTRACE_SOCKET");

	return !(given && *given) &&
	       fgt_default_socket(built_in, sizeof(built_in)) == 0 &&
	       strcmp(path, built_in) == 0;
}

int fgt_surroundings_prepare(bool is_self_sampled, struct fgt_why *why)
{
	int r;

	/*
	 * glibc raises the threshold to the largest block that was freed: the
	 * tables of a slice, large and hardly touched, would then come from a
	 * heap that keeps them, and calloc() would have to clear them all.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
	r = give_up_rights(is_self_sampled, why);
	return r < 0 ? r : open_standard_descriptors(why);
}
