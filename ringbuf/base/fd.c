/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: identity, shared memory, large numbers. Runs in any thread;
 * async-signal-safe.
 */
#include "ringbuf/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

/* The kernel's table grows with the largest number: not beyond this. */
#define TABLE_MAX 1024u
#define ROOM	  128u /* for moved descriptors, below the end of the table */
#define PLACES	  256u /* more than there are moved descriptors */

int fgt_file_id_get(int fd, struct fgt_file_id *ret_id)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return -errno;
	ret_id->device = status.st_dev;
	ret_id->inode = status.st_ino;
	return 0;
}

bool fgt_file_id_is(const struct fgt_file_id *id, int fd)
{
	struct fgt_file_id now;

	return fd >= 0 && id->inode != 0 && fgt_file_id_get(fd, &now) == 0 &&
	       now.device == id->device && now.inode == id->inode;
}

ssize_t fgt_fd_pread(int *fd, void *buffer, size_t size, off_t offset)
{
	ssize_t got = pread(*fd, buffer, size, offset);

	if (got < 0 && (errno == EBADF || errno == ESPIPE))
		*fd = -1;
	return got;
}

int fgt_memfd_open(const char *name, size_t len_bytes, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct rlimit limit;

	/* The kernel would send SIGXFSZ, which ends the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < len_bytes)
		return -EFBIG;
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)len_bytes))
		return -errno;
	*ret_fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

int fgt_memfd_seal(int fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (!fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) ||
	    !fcntl(fd, F_ADD_SEALS, seals))
		return 0;
	return -errno;
}

bool fgt_memfd_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs system;

	return seals >= 0 && (seals & F_SEAL_SHRINK) &&
	       fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

static atomic_bool has_begun;

/* The files of the moved descriptors. The low bits of a number are its place;
 * where two numbers have the same place, the first is forgotten and closed like
 * any other. */
static struct {
	atomic_int number; /* + 1; 0: none. Release and acquire: the rest */
	_Atomic uint64_t device, inode;
} places[PLACES];

void fgt_fd_apart_begin(void)
{
	atomic_store_explicit(&has_begun, true, memory_order_relaxed);
}

/* One past the largest number that is handed out. */
static unsigned int table_end(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > TABLE_MAX)
		return TABLE_MAX;
	return (unsigned int)limit.rlim_cur;
}

/* 0: there are too few numbers. */
static int first_number(void)
{
	unsigned int end = table_end();

	return end < 2 * ROOM ? 0 : (int)(end - ROOM);
}

static unsigned int count_free_in_table(unsigned int enough)
{
	int saved_errno = errno;
	unsigned int count = 0;

	for (int fd = (int)table_end(); fd-- > 0 && count < enough;)
		count += fcntl(fd, F_GETFD) < 0 && errno == EBADF;
	errno = saved_errno;
	return count;
}

unsigned int fgt_fd_apart_count_free(unsigned int enough)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur >= (rlim_t)TABLE_MAX + enough)
		return enough;
	return count_free_in_table(enough);
}

/* Counts instead of opening: a small number that is taken for an instant may be
 * the one that the program is about to use. */
bool fgt_fd_apart_has_room(int fd)
{
	int saved_errno = errno, probe;
	bool has_room = count_free_in_table(1) > 0;

	if (has_room)
		return true;
	/* Beyond the table. EINVAL: the limit is below it. */
	probe = fcntl(fd, F_DUPFD_CLOEXEC, TABLE_MAX);
	has_room = probe >= 0 || (errno != EMFILE && errno != EINVAL);
	if (probe >= 0)
		close(probe);
	errno = saved_errno;
	return has_room;
}

static void remember(int fd)
{
	struct fgt_file_id id;

	if (fgt_file_id_get(fd, &id) < 0)
		return;
	atomic_store_explicit(&places[fd % PLACES].device, id.device,
			      memory_order_relaxed);
	atomic_store_explicit(&places[fd % PLACES].inode, id.inode,
			      memory_order_relaxed);
	atomic_store_explicit(&places[fd % PLACES].number, fd + 1,
			      memory_order_release);
}

/* Only for a number that is_known(). */
static bool is_same(int fd)
{
	const struct fgt_file_id id = {
		.device = atomic_load_explicit(&places[fd % PLACES].device,
					       memory_order_relaxed),
		.inode = atomic_load_explicit(&places[fd % PLACES].inode,
					      memory_order_relaxed),
	};
	int saved_errno = errno;
	bool is_same = fgt_file_id_is(&id, fd);

	errno = saved_errno;
	return is_same;
}

static bool is_known(int fd)
{
	/* Acquire: pairs with the release in remember(). */
	return atomic_load_explicit(&places[fd % PLACES].number,
				    memory_order_acquire) == fd + 1;
}

bool fgt_fd_apart_is_kept(int fd)
{
	return fd < 0 || !is_known(fd) || is_same(fd);
}

/*
 * True if fd is from fgt_fd_apart() and the program has closed it: it may be
 * of a file of the program now, and must not be closed. Forgets the number.
 */
static bool has_lost(int fd)
{
	int number = fd + 1;
	bool is_lost;

	if (fd < 0 || !is_known(fd))
		return false;
	/* Compare before the place is freed for another descriptor. */
	is_lost = !is_same(fd);
	(void)atomic_compare_exchange_strong_explicit(
		&places[fd % PLACES].number, &number, 0, memory_order_relaxed,
		memory_order_relaxed);
	return is_lost;
}

void fgt_fd_close(int fd)
{
	int saved_errno = errno;

	if (fd >= 0 && !has_lost(fd))
		close(fd);
	errno = saved_errno;
}

/*
 * Moves fd to a number that is not below first. Skips numbers that the program
 * has closed and that still have an owner here: two owners of one number would
 * close each other's file.
 */
static int move(int fd, int first)
{
	int moved = fd;

	while (moved < first || is_known(moved)) {
		int next = fcntl(fd, F_DUPFD_CLOEXEC,
				 moved < first ? first : moved + 1);

		if (moved != fd)
			close(moved);
		if (next < 0)
			return fd;
		moved = next;
	}
	if (moved != fd)
		close(fd);
	return moved;
}

int fgt_fd_apart(int fd)
{
	int saved_errno = errno;

	if (fd < 0 || !atomic_load_explicit(&has_begun, memory_order_relaxed))
		return fd;
	fd = move(fd, first_number());
	if (!is_known(fd))
		remember(fd);
	errno = saved_errno;
	return fd;
}

/* ---- Descriptors of other libraries ------------------------------------- */

void fgt_fd_fill_begin(struct fgt_fd_fill *ret_fill)
{
	int saved_errno = errno, fd, first = first_number();

	*ret_fill = (struct fgt_fd_fill){ .taken = { 0 } };
	if (!atomic_load_explicit(&has_begun, memory_order_relaxed))
		return;
	if (!first)
		first = STDERR_FILENO + 1;
	fd = open("/", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd < first) {
		ret_fill->taken[fd / 64] |= UINT64_C(1) << fd % 64;
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (fd >= 0)
		close(fd);
	errno = saved_errno;
}

void fgt_fd_fill_end(const struct fgt_fd_fill *fill)
{
	int saved_errno = errno;

	for (int fd = 0; fd < (int)FGT_FD_FILL_NUMBERS; fd++) {
		int flags = fill->taken[fd / 64] >> fd % 64 & 1
				    ? fcntl(fd, F_GETFL)
				    : 0;

		/* Else the program has put a file there. */
		if (flags > 0 && (flags & O_PATH))
			close(fd);
	}
	errno = saved_errno;
}
