/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a child. Runs in the child (here: helper) while it has one thread;
 * must come before the first byte of a file is read.
 */
#include "agent/children/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/children/free_uid.h"
#include "ringbuf/base/owner.h"

#define MEMORY_MAX_BYTES (1536ull << 20) /* on top of what is mapped */
/* Where no better one is free, or a user namespace does not have it. Processes
 * of this user can stop and kill the helper. */
#define UID_NO_RIGHTS 65534

/* Where memory is short the kernel kills the helper, not the daemon. */
void fgt_confinement_offer(void)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* then it is killed as likely as other processes */
}

static void drop_descriptors(int kept_fd)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fd < 0 || dup2(fd, i) < 0)
			close(i);
	close_range(STDERR_FILENO + 1, (unsigned int)kept_fd - 1, 0);
	close_range((unsigned int)kept_fd + 1, ~0u, 0);
}

static void reset_signals(void)
{
	static const int reset[] = { SIGALRM, SIGXCPU, SIGTERM };
	static const int ignored[] = { SIGPIPE, SIGINT, SIGHUP };

	for (size_t i = 0; i < sizeof(reset) / sizeof(*reset); i++)
		signal(reset[i], SIG_DFL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
}

void fgt_confinement_limit(int resource, unsigned long long limit)
{
	struct rlimit value;

	if (getrlimit((__rlimit_resource_t)resource, &value))
		return;
	value.rlim_cur = limit < value.rlim_max ? limit : value.rlim_max;
	setrlimit((__rlimit_resource_t)resource, &value);
}

void fgt_confinement_limit_memory(unsigned long long more_bytes)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (file && fscanf(file, "%llu", &pages) == 1)
		fgt_confinement_limit(
			RLIMIT_AS,
			pages * (unsigned long long)sysconf(_SC_PAGESIZE) +
				more_bytes);
}

static void limit_resources(const struct fgt_confinement_limits *limits)
{
	fgt_confinement_limit_memory(limits->memory_bytes);
	fgt_confinement_limit(RLIMIT_NOFILE, limits->files);
	fgt_confinement_limit(RLIMIT_CORE, 0);
	fgt_confinement_limit(RLIMIT_FSIZE, 0);
}

static int become(uint32_t uid)
{
	return setresgid(uid, uid, uid) < 0   ? -errno
	       : setresuid(uid, uid, uid) < 0 ? -errno
					      : 0;
}

/*
 * The user goes first: it needs the capabilities that go then. Where a service
 * unit or a container forbids it, only the filter is left.
 */
static void drop_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 } };
	uint32_t uid;
	int failed = 0;

	if (geteuid() == 0) {
		failed |= setgroups(0, NULL);
		if (fgt_free_uid_find((uint32_t)getpid() * 31, &uid) < 0 ||
		    become(uid) < 0)
			failed |= become(UID_NO_RIGHTS);
	}
	failed |= (int)syscall(SYS_capset, &head, none);
	(void)failed;
	/* After setresuid(), which sets it again. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void fgt_confinement_drop(int kept_fd,
			  const struct fgt_confinement_limits *limits)
{
	fgt_confinement_offer();
	drop_descriptors(kept_fd);
	reset_signals();
	limit_resources(limits);
	drop_rights();
}

bool fgt_confinement_enter_within(int kept_fd,
				  const struct fgt_confinement_limits *limits)
{
	fgt_confinement_drop(kept_fd, limits);
	return fgt_syscall_filter_set() == 0;
}

bool fgt_confinement_enter(int kept_fd)
{
	static const struct fgt_confinement_limits usual = {
		.memory_bytes = MEMORY_MAX_BYTES,
		.files = FGT_CONFINEMENT_FILES,
	};

	return fgt_confinement_enter_within(kept_fd, &usual);
}
