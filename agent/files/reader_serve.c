/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader: opens what it is asked for until the daemon closes the socket.
 * Runs in a separate process with the daemon's rights to read; must not parse
 * what is in a file, nor keep anything of the daemon, since it may have to be
 * left behind, waiting for a file system for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "agent/files/reader.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/owner.h"

#define FIRST_BYTES 4096
#define NICE	    (-10) /* the sampler, which waits for it, goes before all */

/* Everything else is given up. Before Linux 5.9 map_files needs
 * CAP_SYS_ADMIN. */
static void drop_rights(void)
{
	const int kept_by_5_9[] = { CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE,
				    CAP_CHECKPOINT_RESTORE, CAP_SETUID,
				    CAP_SETGID };
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 } };
	uint32_t kept[2] = { 0, 0 };

	for (size_t i = 0; i < sizeof(kept_by_5_9) / sizeof(*kept_by_5_9); i++)
		kept[kept_by_5_9[i] / 32] |= 1u << (kept_by_5_9[i] % 32);
	if (prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE) < 0)
		kept[CAP_SYS_ADMIN / 32] |= 1u << (CAP_SYS_ADMIN % 32);
	/* Of root, while it opens files as other users. */
	(void)setgroups(0, NULL);
	if (syscall(SYS_capget, &head, data) == 0) {
		for (size_t i = 0; i < 2; i++) {
			data[i].permitted &= kept[i];
			data[i].effective &= kept[i];
			data[i].inheritable = 0;
		}
		/* With more rights it does the same. */
		(void)syscall(SYS_capset, &head, data);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0);
}

/* Where it never ends, it must not hold a file, a pipe or a folder for it. */
static void let_go(void)
{
	static const int ignored[] = { SIGPIPE, SIGINT, SIGHUP };
	const struct rlimit none = { 0, 0 };
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fd < 0 || dup2(fd, i) < 0)
			close(i);
	close_range(FGT_SELF_CHILD_FD + 1, ~0u, 0);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	setrlimit(RLIMIT_CORE, &none);
	(void)!chdir("/");
}

/* The descriptor that came with the order, or -1. Ends with the daemon. */
static int receive(struct fgt_reader_order *order)
{
	const struct iovec part = { order, sizeof(*order) };
	int fd;

	memset(order, 0, sizeof(*order));
	if (fgt_fd_message_receive(FGT_SELF_CHILD_FD, &part, 1, &fd, 1, 0) <=
	    (ssize_t)offsetof(struct fgt_reader_order, path))
		_exit(0);
	order->path[sizeof(order->path) - 1] = '\0';
	return fd;
}

static void send_answer(const struct fgt_reader_answer *answer, int fd)
{
	const struct iovec part = { (void *)(uintptr_t)answer,
				    sizeof(*answer) };

	if (fgt_fd_message_send(FGT_SELF_CHILD_FD, &part, 1, &fd, fd >= 0, 0) <
	    0)
		_exit(0);
}

/*
 * A file system may open files and then not read or close them: both are tried
 * here first. Closing any descriptor of a file asks its file system.
 */
static int try_out(int fd)
{
	char bytes[FIRST_BYTES];
	int copy;

	if (pread(fd, bytes, sizeof(bytes), 0) < 0)
		return -errno;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	close(copy);
	return 0;
}

static void serve_one(const struct fgt_reader_order *order, int dir_fd)
{
	const struct fgt_open_request request = {
		.place = (enum fgt_open_place)order->place,
		.dir_fd = dir_fd,
		.path = order->path,
		.is_link_refused = order->is_link_refused,
		.is_copied = order->is_copied,
		.uid = order->uid,
		.is_of_user = order->is_of_user,
		.is_by_user = order->is_by_user,
		.size_max = order->size_max,
		.dev = order->dev,
		.ino = order->ino,
		.known = order->has_known ? &order->known : NULL,
	};
	struct fgt_opened_file file = { .fd = -1 };
	struct fgt_reader_answer answer = { .error = 0 };

	answer.error = fgt_open_here(&request, &file);
	if (!answer.error) {
		answer.status = file.status;
		if (!request.is_copied && !fgt_open_is_path(&request))
			answer.error = try_out(file.fd);
	}
	send_answer(&answer, answer.error ? -1 : file.fd);
	fgt_fd_close(file.fd);
	fgt_fd_close(dir_fd);
}

void fgt_reader_serve_if_asked(int argc, char **argv)
{
	static struct fgt_reader_order order;
	static const char ready;

	if (!fgt_self_child_is_asked(argc, argv, FGT_READER_NAME,
				     FGT_READER_VERB))
		return;
	let_go();
	/* Ordinary users are refused, and do without. */
	setpriority(PRIO_PROCESS, 0, NICE);
	drop_rights();
	for (;;) {
		int dir_fd;

		if (send(FGT_SELF_CHILD_FD, &ready, 1, MSG_NOSIGNAL) != 1)
			_exit(0);
		dir_fd = receive(&order);
		serve_one(&order, dir_fd);
	}
}
