/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live file of FGTRACE_ACTIVITY: one thread reads the span log and writes
 * the file. Only this thread waits for a slow disk or reader. Records that are
 * overwritten in the log meanwhile are lost: they are counted, and an event in
 * the file has their number. Must not touch what spans need.
 *
 * All signals are blocked in the thread, also SIGPIPE of a FIFO without reader.
 *
 * A file has one writer, which holds its flock(2): two arrays in one file would
 * be invalid. It belongs to the process that opened it first, not to children.
 */
#include "agent/lib/spans/activity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/library.h"
#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "agent/lib/spans/journal.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/thread.h"

#define ROUND_NS    UINT64_C(50000000) /* between two reads of the log */
#define LAST_NS	    UINT64_C(400000000) /* for the rest at the end */
#define PATIENCE_NS UINT64_C(500000000) /* limit at begin and end */
#define BUFFER	    (64u << 10)
#define STACK_BYTES (192 << 10)
#define OWNER	    "FGTRACE_ACTIVITY_PID" /* and the path; see own.h */

static struct {
	char path[PATH_MAX];
	pthread_t thread;
	sem_t wake, started, left;
	atomic_bool is_leaving;
	bool is_running; /* set before main(), until a fork */
	_Atomic int32_t tid; /* written by the thread; 0: there is none */
	struct fgt_file_id errors; /* standard error at the start */
	/* Records overwritten or dropped. Written by the thread; relaxed:
	 * only a number. */
	_Atomic uint64_t lost;

	/* Used by the thread only. */
	int fd; /* -1: not open */
	struct fgt_file_id file; /* of fd, which the program may close */
	bool is_begun; /* has the head of an array: append */
	bool is_kept; /* do not empty it when it is opened */
	bool is_anothers; /* another process writes it: write nothing */
	struct fgt_span_reader *reader;
	uint64_t taken,
		lost_reported; /* records; lost_reported: reported in events */
	uint64_t lost_written; /* part of lost_reported that is in the file */
	uint64_t unread; /* part of lost: taken, but not read from the FIFO */
	size_t head_end, gap_end; /* ends of the head and of the last gap */
	int error; /* of the last write, 0 */
	bool is_full; /* the reader has to catch up first */
	bool is_behind; /* there may be more to write */
	size_t first, end; /* range of live_bytes that is to be written */
} live = { .fd = -1 };
/* A part of live that is outside of the struct, because zeroes take no space in
 * the file of the library. */
static char live_bytes[BUFFER];

/* ---- Gathering ---------------------------------------------------------- */

/* -ENOBUFS cannot happen: has_room() is called before. */
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

/* Room for one event and a gap before it. */
static bool has_room(void)
{
	return sizeof(live_bytes) - live.end >= 2 * FGT_ACTIVITY_EVENT_MAX;
}

static void put_gap(uint64_t mono_ns)
{
	uint64_t lost = atomic_load_explicit(&live.lost, memory_order_relaxed);

	if (lost == live.lost_reported || !has_room())
		return;
	(void)fgt_activity_put_lost(lost - live.lost_reported, getpid(),
				    mono_ns, &buffer_sink);
	live.lost_reported = lost;
	live.gap_end = live.end;
}

/* Oldest first: overwritten records come before this one. */
static int visit(void *context, const struct fgt_span_record *record)
{
	(void)context;
	if (!has_room())
		return 1;
	put_gap(record->end_ns ? record->end_ns : record->begin_ns);
	(void)fgt_activity_put(record, getpid(), &buffer_sink);
	live.taken++;
	return 0;
}

static void put_head(void)
{
	char name[32] = "process";
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : pread(fd, name, sizeof(name) - 1, 0);

	if (len > 1)
		name[len - 1] = 0; /* the newline */
	(void)fgt_activity_put_head(getpid(), name, fgt_now(),
				    fgt_clock_ns(CLOCK_REALTIME), &buffer_sink);
}

/* ---- Writing ------------------------------------------------------------ */

static bool is_same_file(void)
{
	return fgt_file_id_is(&live.file, live.fd);
}

/* Locks the file. -EBUSY: another process writes it. */
static int take_file(int fd, struct stat *ret_status)
{
	if (fstat(fd, ret_status) < 0)
		return -errno;
	/* Devices as /dev/null may have several writers. */
	if (!S_ISREG(ret_status->st_mode) && !S_ISFIFO(ret_status->st_mode))
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	/* From an earlier run: without a lock it has no writer. */
	if (S_ISREG(ret_status->st_mode) && !live.is_kept &&
	    ftruncate(fd, 0) < 0)
		return -errno;
	return fstat(fd, ret_status) < 0 ? -errno : 0;
}

/* With O_APPEND, so that writes of other processes are not overwritten. */
static int open_path(void)
{
	struct stat status;
	FGT_AUTO(fgt_fd_close)
	int fd = open(live.path,
		      O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK |
			      O_CLOEXEC,
		      0644);
	int r = fd < 0 ? -errno : take_file(fd, &status);

	if (r < 0)
		return r;
	live.is_kept = true;
	/* An empty file needs a head, also if it replaced the first one. */
	if (S_ISREG(status.st_mode))
		live.is_begun = status.st_size > 0;
	live.file = (struct fgt_file_id){ status.st_dev, status.st_ino };
	fgt_fd_apart_begin();
	live.fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

/* To standard error, for the user who set the variable: the program may have no
 * log. Not if the program has replaced standard error. */
static void print(const char *format, ...) FGT_PRINTF(1, 2);
static void print(const char *format, ...)
{
	va_list arguments;

	if (!fgt_file_id_is(&live.errors, STDERR_FILENO))
		return;
	va_start(arguments, format);
	(void)vdprintf(STDERR_FILENO, format, arguments);
	va_end(arguments);
}

static void complain(const char *why)
{
	static bool has_complained;

	if (!has_complained)
		print("fgtrace: FGTRACE_ACTIVITY: %s: %s\n", live.path, why);
	has_complained = true;
}

static const char *explain(int error)
{
	return error == ENXIO	 ? "the FIFO has no reader"
	       : error == EAGAIN ? "its reader was too slow"
	       : error		 ? strerror(error)
				 : "there was no time";
}

/* Lines that are not written yet: about one for each record. */
static uint64_t count_pending(void)
{
	size_t i = live.first > live.head_end ? live.first : live.head_end;
	uint64_t count = 0;

	for (; i < live.end; i++)
		count += live_bytes[i] == '\n';
	return count - (live.first < live.gap_end);
}

/* After a reader has left, or the file was removed: pending records are lost,
 * because a new array must not begin with the rest of a line. The next array
 * reports them. */
static void drop_pending(void)
{
	uint64_t lines = count_pending();
	uint64_t count = lines < live.taken ? lines : live.taken;

	live.taken -= count;
	live.unread += count;
	atomic_fetch_add_explicit(&live.lost, count, memory_order_relaxed);
	live.lost_reported = live.lost_written;
	live.first = live.end = live.gap_end = 0;
}

/* False: not now, a FIFO has no reader or the disk is full. */
static bool open_file(void)
{
	int r;

	if (is_same_file())
		return true;
	live.fd = -1;
	r = open_path();
	live.error = -r;
	live.is_anothers = r == -EBUSY;
	if (r == -EBUSY)
		complain("another process writes this file: put '{pid}' in the "
			 "name, so that each process has its own");
	else if (r < 0 && r != -ENXIO)
		complain(strerror(-r));
	if (r < 0)
		return false;
	if (live.is_begun)
		return true;
	live.is_begun = true;
	drop_pending();
	put_head();
	live.head_end = live.end;
	return true;
}

/* True: all is written. */
static bool write_out(void)
{
	while (live.first < live.end) {
		ssize_t n = write(live.fd, live_bytes + live.first,
				  live.end - live.first);

		live.error = n < 0 ? errno : 0;
		if (n > 0) {
			live.first += (size_t)n;
			if (live.first >= live.gap_end)
				live.lost_written = live.lost_reported;
			continue;
		}
		if (n < 0 && errno == EPIPE) {
			/* The next reader begins with a new array. */
			fgt_fd_close(FGT_TAKE_FD(live.fd));
			live.is_begun = false;
		} else if (n < 0 && errno == EAGAIN) {
			live.is_full = true;
		} else if (n < 0 && errno != EINTR) {
			complain(strerror(errno));
		}
		return false;
	}
	live.first = live.end = live.gap_end = live.head_end = 0;
	return true;
}

static void count_lost(struct fgt_span_log *log)
{
	uint64_t lost,
		before = atomic_load_explicit(&live.lost, memory_order_relaxed);
	struct fgt_span_log_counts counts;

	fgt_span_log_get_counts(log, &counts);
	lost = counts.lost + fgt_span_reader_missed(log, live.reader) +
	       live.unread;
	if (lost <= before)
		return;
	atomic_store_explicit(&live.lost, lost, memory_order_relaxed);
	if (live.error && live.error != EAGAIN)
		complain(explain(live.error));
	fgt_report(
		"FGTRACE_ACTIVITY: events were lost: the file cannot be written "
		"fast enough: %s",
		explain(live.error));
}

/* Reads the log once. True: there may be more. */
static bool do_round(void)
{
	struct fgt_span_log *log = fgt_journal_log();
	int r;

	live.is_full = false;
	live.is_behind = true;
	if (!log)
		return false;
	count_lost(log);
	if (!open_file() || !write_out())
		return false;
	r = fgt_span_log_read(log, live.reader, visit, NULL);
	if (r == 0)
		put_gap(fgt_now());
	live.is_behind = !write_out() || r > 0;
	return live.is_behind && live.first == live.end;
}

/* Prints how many records are neither in the file nor reported there. */
static void print_missing(void)
{
	struct fgt_span_log *log = fgt_journal_log();
	struct fgt_span_log_counts counts = { 0 };
	uint64_t known = live.taken + live.lost_written;
	uint64_t missing = count_pending();

	if (!log || live.is_anothers)
		return;
	fgt_span_log_get_counts(log, &counts);
	/* Other threads may still write, so the count may lag behind. */
	if (counts.appended + counts.lost > known)
		missing += counts.appended + counts.lost - known;
	if (missing)
		print("fgtrace: FGTRACE_ACTIVITY: %s: about %llu events at the "
		      "end are missing: %s\n",
		      live.path, (unsigned long long)missing,
		      explain(live.error));
}

static void rest(uint64_t ns)
{
	struct pollfd reader = { .fd = live.fd, .events = POLLOUT };

	if (live.is_full && live.fd >= 0)
		(void)poll(&reader, 1, (int)(ns / 1000000));
	else
		fgt_own_wait(&live.wake, fgt_now() + ns);
}

static void *run(void *unused)
{
	uint64_t until_ns = UINT64_MAX;

	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-activity");
	atomic_store_explicit(&live.tid, gettid(), memory_order_relaxed);
	(void)open_file(); /* before a child that main() starts opens it */
	(void)sem_post(&live.started);
	while (!live.is_anothers) {
		/* Acquire: records from before the end are in the log. */
		bool is_leaving = atomic_load_explicit(&live.is_leaving,
						       memory_order_acquire);

		if (is_leaving && until_ns == UINT64_MAX)
			until_ns = fgt_now() + LAST_NS;
		while (do_round() && fgt_now() < until_ns)
			;
		if (is_leaving &&
		    (!live.is_behind || live.fd < 0 || fgt_now() >= until_ns))
			break;
		rest(is_leaving ? ROUND_NS / 10 : ROUND_NS);
	}
	print_missing();
	atomic_store_explicit(&live.tid, 0, memory_order_relaxed);
	(void)sem_post(&live.left);
	return NULL;
}

/* ---- Life --------------------------------------------------------------- */

static void in_child(void)
{
	live.is_running = false;
	atomic_store_explicit(&live.tid, 0, memory_order_relaxed);
	if (is_same_file())
		close(live.fd);
	live.fd = -1;
	atomic_store_explicit(&live.lost, 0, memory_order_relaxed);
}

static void add_status(struct fgt_status *status)
{
	status->activity_lost =
		atomic_load_explicit(&live.lost, memory_order_relaxed);
}

int32_t fgt_activity_tid(void)
{
	return atomic_load_explicit(&live.tid, memory_order_relaxed);
}

const struct fgt_part fgt_activity_part = { .add_status = add_status };

/* False: the file belongs to the process that started this one, or there is no
 * path. */
static bool choose_path(const char *text)
{
	enum fgt_own_file whose;
	bool is_numbered;
	int r = fgt_own_file_path(text, live.path, sizeof(live.path),
				  &is_numbered);

	if (r < 0) {
		print("fgtrace: FGTRACE_ACTIVITY: %s\n", strerror(-r));
		return false;
	}
	whose = fgt_own_file_take(OWNER, live.path);
	live.is_kept = whose == FGT_OWN_FILE_MINE;
	return whose != FGT_OWN_FILE_ANOTHERS;
}

/* Before main(), so that nothing is missed. secure_getenv: not in a program
 * with more privileges than its user. */
__attribute__((constructor)) static void start(void)
{
	const char *path = secure_getenv("FGTRACE_ACTIVITY");

	(void)fgt_file_id_get(STDERR_FILENO, &live.errors);
	if (!path || !*path || !choose_path(path) || fgt_journal_open() < 0 ||
	    fgt_span_reader_new(fgt_journal_log(), &live.reader) < 0)
		return;
	sem_init(&live.wake, 0, 0);
	sem_init(&live.started, 0, 0);
	sem_init(&live.left, 0, 0);
	(void)pthread_atfork(NULL, NULL, in_child);
	live.is_running =
		fgt_thread_start(STACK_BYTES, run, NULL, &live.thread) == 0;
	if (live.is_running)
		fgt_own_wait(&live.started, fgt_now() + PATIENCE_NS);
}

/* At exit all records are written, unless the file blocks. */
__attribute__((destructor)) static void stop(void)
{
	if (!live.is_running)
		return;
	/* Release: pairs with the acquire in run(). */
	atomic_store_explicit(&live.is_leaving, true, memory_order_release);
	(void)sem_post(&live.wake);
	fgt_own_wait(&live.left, fgt_now() + PATIENCE_NS);
}
