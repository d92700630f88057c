/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large numbers for descriptors. Any thread; async-signal-safe.
 */
#include "ringbuf/fd_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's table grows with the largest number: not beyond this. */
#define TABLE_MAX 1024u
#define ROOM	  128u /* for ours, below the end of the table */
#define PLACES	  256u /* some more than there are descriptors of ours */

static atomic_bool has_begun;

/* What ours are. A number's place is given by its low bits; where two have the
 * same one, the first is not known any more, and closed as any other. */
static struct {
	atomic_int number; /* + 1; 0: none. Release and acquire: the rest */
	_Atomic uint64_t device, inode;
} places[PLACES];

void fgt_fd_apart_begin(void)
{
	atomic_store_explicit(&has_begun, true, memory_order_relaxed);
}

/* 0: there are too few numbers. */
static int first_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 2 * ROOM)
		return 0;
	if (limit.rlim_cur > TABLE_MAX)
		limit.rlim_cur = TABLE_MAX;
	return (int)(limit.rlim_cur - ROOM);
}

static void remember(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return;
	atomic_store_explicit(&places[fd % PLACES].device, status.st_dev,
			      memory_order_relaxed);
	atomic_store_explicit(&places[fd % PLACES].inode, status.st_ino,
			      memory_order_relaxed);
	atomic_store_explicit(&places[fd % PLACES].number, fd + 1,
			      memory_order_release);
}

/* The number's place is its own. */
static bool is_same(int fd)
{
	int saved_errno = errno;
	struct stat status;
	bool is_same = fstat(fd, &status) == 0 &&
		       status.st_dev ==
			       atomic_load_explicit(&places[fd % PLACES].device,
						    memory_order_relaxed) &&
		       status.st_ino ==
			       atomic_load_explicit(&places[fd % PLACES].inode,
						    memory_order_relaxed);

	errno = saved_errno;
	return is_same;
}

static bool is_known(int fd)
{
	/* Acquire: pairs with the release in remember(). */
	return atomic_load_explicit(&places[fd % PLACES].number,
				    memory_order_acquire) == fd + 1;
}

bool fgt_fd_apart_is_ours(int fd)
{
	return fd < 0 || !is_known(fd) || is_same(fd);
}

bool fgt_fd_apart_has_lost(int fd)
{
	int number = fd + 1;
	bool is_lost;

	if (fd < 0 || !is_known(fd))
		return false;
	/* Before the place is free for another one. */
	is_lost = !is_same(fd);
	(void)atomic_compare_exchange_strong_explicit(
		&places[fd % PLACES].number, &number, 0, memory_order_relaxed,
		memory_order_relaxed);
	return is_lost;
}

/*
 * Another number for the file that is not below the first. Those that the
 * program has closed are left out until their holders have noticed: two that
 * hold one number would close each other's file.
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
