/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a child. Runs in the child while it has one thread; must come before
 * the first byte of another user is read.
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
#include "agent/children/self_child.h"
#include "ringbuf/base/owner.h"

/* Where no better one is free, or a user namespace does not have it. Processes
 * of this user can stop and kill the child. */
#define UID_NO_RIGHTS 65534

/* Where memory is short the kernel kills the child, not the daemon. */
void fgt_confinement_offer(void)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* then it is killed as likely as other processes */
}

static void drop_descriptors(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fd < 0 || dup2(fd, i) < 0)
			close(i);
	close_range(FGT_SELF_CHILD_FD + 1, ~0u, 0);
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

static void limit_resources(const struct fgt_confinement *confinement)
{
	fgt_confinement_limit_memory(confinement->memory_bytes);
	fgt_confinement_limit(RLIMIT_NOFILE, confinement->files);
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

bool fgt_confinement_enter(const struct fgt_confinement *confinement)
{
	fgt_confinement_offer();
	drop_descriptors();
	reset_signals();
	limit_resources(confinement);
	drop_rights();
	return confinement->set_filter() == 0;
}
