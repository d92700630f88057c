/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live file that FGTRACE_ACTIVITY names: one thread reads the span log and
 * writes. It alone waits where the file's disk or reader is slow; what is
 * overwritten in the log meanwhile is lost to the file, counted and told. Must
 * not touch anything that a span needs.
 *
 * Signals are blocked in it, which also keeps SIGPIPE of a reader that left
 * from the program.
 */
#include "agent/lib/activity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/journal.h"
#include "agent/lib/rights.h"
#include "agent/lib/tell.h"
#include "ringbuf/clock.h"
#include "ringbuf/fd_apart.h"

#define ROUND_NS    UINT64_C(50000000) /* between two looks at the log */
#define LAST_NS	    UINT64_C(400000000) /* for what is left at the end */
#define PATIENCE_NS UINT64_C(500000000) /* of a program's begin and end */
#define BUFFER	    (64u << 10)
#define STACK_BYTES (192 << 10)

static struct {
	char path[PATH_MAX];
	pthread_t thread;
	sem_t wake, started, left;
	atomic_bool is_leaving;
	bool is_running; /* before any thread of the program, until a fork */

	/* The thread's. */
	int fd; /* -1: not open (now) */
	dev_t device; /* of the file: the program may close what is not its */
	ino_t inode; /* own, and get the number again for another file */
	bool is_begun; /* what is in it already stays there */
	struct fgt_span_reader *reader;
	uint64_t lost_told;
	bool is_full; /* whoever reads has to catch up first */
	bool is_behind; /* there may be more to write */
	size_t first, end; /* of what is to be written, within live_bytes */
} live = { .fd = -1 };
/* The thread's, too; apart, as it begins with zeroes, which take no room. */
static char live_bytes[BUFFER];

/* ---- Gathering ---------------------------------------------------------- */

/* -ENOBUFS cannot be: room for the largest event is looked for before. */
static int keep(void *context, const void *bytes, size_t len)
{
	(void)context;
	if (len > sizeof(live_bytes) - live.end)
		return -ENOBUFS;
	memcpy(live_bytes + live.end, bytes, len);
	live.end += len;
	return 0;
}

static const struct fgt_sink buffer_sink = { .write = keep };

static bool has_room(void)
{
	return sizeof(live_bytes) - live.end >= FGT_ACTIVITY_EVENT_MAX;
}

static int visit(void *context, const struct fgt_span_record *record)
{
	(void)context;
	if (!has_room())
		return 1;
	(void)fgt_activity_put(record, getpid(), &buffer_sink);
	return 0;
}

static void tell_lost(struct fgt_span_log *log)
{
	struct fgt_span_log_counts counts;
	uint64_t lost;

	fgt_span_log_get_counts(log, &counts);
	lost = counts.lost + fgt_span_reader_missed(log, live.reader);
	if (lost <= live.lost_told || !has_room())
		return;
	(void)fgt_activity_put_lost(lost - live.lost_told, getpid(), fgt_now(),
				    &buffer_sink);
	live.lost_told = lost;
	fgt_tell("FGTRACE_ACTIVITY: events were lost, the file could not be "
		 "written as fast as they came");
}

static void put_head(void)
{
	char name[32] = "process";
	FGT_AUTO(fgt_fd_close) int fd = -1;
	ssize_t len;

	fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
	if (len > 1)
		name[len - 1] = 0; /* the newline */
	(void)fgt_activity_put_head(getpid(), name, fgt_now(),
				    fgt_clock_ns(CLOCK_REALTIME), &buffer_sink);
}

/* ---- Writing ------------------------------------------------------------ */

static bool is_ours(void)
{
	struct stat status;

	return live.fd >= 0 && fstat(live.fd, &status) == 0 &&
	       status.st_dev == live.device && status.st_ino == live.inode;
}

static int open_path(void)
{
	struct stat status;
	FGT_AUTO(fgt_fd_close)
	int fd = open(live.path,
		      O_WRONLY | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC |
			      (live.is_begun ? O_APPEND : O_TRUNC),
		      0644);

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	live.device = status.st_dev;
	live.inode = status.st_ino;
	fgt_fd_apart_begin();
	live.fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

/* To who set the variable: the program may have no log. */
static void complain(int error)
{
	static bool has_complained;

	if (!has_complained)
		dprintf(STDERR_FILENO, "fgtrace: FGTRACE_ACTIVITY: %s: %s\n",
			live.path, strerror(error));
	has_complained = true;
}

/* A FIFO without a reader, a full disk: later again. */
static bool open_file(void)
{
	int r;

	if (is_ours())
		return true;
	live.fd = -1;
	r = open_path();
	if (r < 0) {
		if (r != -ENXIO)
			complain(-r);
		return false;
	}
	if (live.is_begun)
		return true;
	live.is_begun = true;
	live.first = live.end = 0;
	put_head();
	return true;
}

/* True once nothing is left to be written. */
static bool write_out(void)
{
	while (live.first < live.end) {
		ssize_t n = write(live.fd, live_bytes + live.first,
				  live.end - live.first);

		if (n > 0) {
			live.first += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EPIPE) {
			/* The next reader begins with a new array. */
			close(FGT_TAKE_FD(live.fd));
			live.is_begun = false;
		} else if (n < 0 && errno == EAGAIN) {
			live.is_full = true;
		} else if (n < 0 && errno != EINTR) {
			complain(errno);
		}
		return false;
	}
	live.first = live.end = 0;
	return true;
}

/* One look at the log; true: it may hold more. */
static bool do_round(void)
{
	struct fgt_span_log *log = fgt_journal_log();
	int r;

	live.is_full = false;
	live.is_behind = true;
	if (!log || !open_file() || !write_out())
		return false;
	r = fgt_span_log_read(log, live.reader, visit, NULL);
	tell_lost(log);
	live.is_behind = !write_out() || r > 0;
	return live.is_behind && live.first == live.end;
}

static void rest(uint64_t ns)
{
	struct pollfd reader = { .fd = live.fd, .events = POLLOUT };
	uint64_t when_ns = fgt_now() + ns;
	const struct timespec when = {
		.tv_sec = (time_t)(when_ns / 1000000000),
		.tv_nsec = (long)(when_ns % 1000000000),
	};

	if (live.is_full && live.fd >= 0) {
		(void)poll(&reader, 1, (int)(ns / 1000000));
		return;
	}
	while (sem_clockwait(&live.wake, CLOCK_MONOTONIC, &when) < 0 &&
	       errno == EINTR)
		;
}

static void *run(void *unused)
{
	uint64_t until_ns = UINT64_MAX;

	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-activity");
	fgt_rights_begin(FGT_RIGHTS_ACTIVITY);
	(void)sem_post(&live.started);
	for (;;) {
		/* Acquire: what was said before the end is in the file. */
		bool is_leaving = atomic_load_explicit(&live.is_leaving,
						       memory_order_acquire);

		if (is_leaving && until_ns == UINT64_MAX)
			until_ns = fgt_now() + LAST_NS;
		while (do_round() && fgt_now() < until_ns)
			;
		if (is_leaving &&
		    (!live.is_behind || live.fd < 0 || fgt_now() >= until_ns))
			break;
		(void)fgt_rights_follow(FGT_RIGHTS_ACTIVITY, 0);
		rest(is_leaving ? ROUND_NS / 10 : ROUND_NS);
	}
	(void)sem_post(&live.left);
	return NULL;
}

/* ---- Life --------------------------------------------------------------- */

/* "{pid}" in the name, so that children need not share a file. */
static bool set_path(const char *text)
{
	const char *mark = strstr(text, "{pid}");
	int len;

	if (mark)
		len = snprintf(live.path, sizeof(live.path), "%.*s%d%s",
			       (int)(mark - text), text, getpid(), mark + 5);
	else
		len = snprintf(live.path, sizeof(live.path), "%s", text);
	return len > 0 && (size_t)len < sizeof(live.path);
}

static void in_child(void)
{
	live.is_running = false;
	if (is_ours())
		close(live.fd);
	live.fd = -1;
}

static bool start_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	if (pthread_attr_init(&attributes))
		return false;
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&live.thread, &attributes, run, NULL);
	/* The program's thread-local variables lie on the stack, too. */
	if (error == EINVAL)
		error = pthread_create(&live.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error == 0;
}

static void wait_for(sem_t *semaphore)
{
	uint64_t when_ns = fgt_now() + PATIENCE_NS;
	const struct timespec when = {
		.tv_sec = (time_t)(when_ns / 1000000000),
		.tv_nsec = (long)(when_ns % 1000000000),
	};

	while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &when) < 0 &&
	       errno == EINTR)
		;
}

/* Before main(), so that nothing is missed. secure_getenv: never in a program
 * that has more rights than who started it. */
__attribute__((constructor)) static void start(void)
{
	const char *path = secure_getenv("FGTRACE_ACTIVITY");

	if (!path || !*path || !set_path(path) ||
	    fgt_journal_open(FGT_SPAN_LOG_BYTES_DEFAULT) < 0 ||
	    fgt_span_reader_new(fgt_journal_log(), &live.reader) < 0)
		return;
	sem_init(&live.wake, 0, 0);
	sem_init(&live.started, 0, 0);
	sem_init(&live.left, 0, 0);
	(void)pthread_atfork(NULL, NULL, in_child);
	live.is_running = start_thread();
	if (live.is_running)
		wait_for(&live.started);
}

/* What was said is in the file at a regular end, unless it is stuck. */
__attribute__((destructor)) static void stop(void)
{
	if (!live.is_running)
		return;
	/* Release: pairs with the acquire in run(). */
	atomic_store_explicit(&live.is_leaving, true, memory_order_release);
	(void)sem_post(&live.wake);
	wait_for(&live.left);
}
