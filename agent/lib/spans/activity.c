/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live file that FGTRACE_ACTIVITY names: one thread reads the span log and
 * writes. It alone waits where the file's disk or reader is slow; what is
 * overwritten in the log meanwhile is lost to the file, counted and told there
 * where it would have been. Must not touch anything that a span needs.
 *
 * Signals are blocked in it, which also keeps SIGPIPE of a reader that left
 * from the program.
 *
 * A file has one writer, who holds its flock(2): two arrays in one would be
 * none. It stays with the process that had it first, not with its children.
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

#define ROUND_NS    UINT64_C(50000000) /* between two looks at the log */
#define LAST_NS	    UINT64_C(400000000) /* for what is left at the end */
#define PATIENCE_NS UINT64_C(500000000) /* of a program's begin and end */
#define BUFFER	    (64u << 10)
#define STACK_BYTES (192 << 10)
#define OWNER	    "FGTRACE_ACTIVITY_PID" /* and the path; see own.h */

static struct {
	char path[PATH_MAX];
	pthread_t thread;
	sem_t wake, started, left;
	atomic_bool is_leaving;
	bool is_running; /* before any thread of the program, until a fork */
	_Atomic int32_t tid; /* the thread's word; 0: it is not there */
	struct fgt_file_id errors; /* standard error, as it was at first */
	/* Overwritten or dropped. The thread's; relaxed: a mere number. */
	_Atomic uint64_t lost;

	/* The thread's. */
	int fd; /* -1: not open (now) */
	struct fgt_file_id file; /* the program may have closed its number */
	bool is_begun; /* what is in it already stays there */
	bool is_kept; /* what is in it when it is opened first, too */
	bool is_anothers; /* who writes it: nothing is written here any more */
	struct fgt_span_reader *reader;
	uint64_t taken, lost_told; /* records; the latter told in events */
	uint64_t lost_written; /* of which the file has these */
	uint64_t unread; /* of those lost: they were taken for who left */
	size_t head_end, gap_end; /* of no event, of that which tells those */
	int error; /* why it cannot be written, 0 */
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

/* One more event, and that some are missing before it. */
static bool has_room(void)
{
	return sizeof(live_bytes) - live.end >= 2 * FGT_ACTIVITY_EVENT_MAX;
}

static void put_gap(uint64_t mono_ns)
{
	uint64_t lost = atomic_load_explicit(&live.lost, memory_order_relaxed);

	if (lost == live.lost_told || !has_room())
		return;
	(void)fgt_activity_put_lost(lost - live.lost_told, getpid(), mono_ns,
				    &buffer_sink);
	live.lost_told = lost;
	live.gap_end = live.end;
}

/* Oldest first: what has been overwritten was before. */
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
	ssize_t len = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

	if (len > 1)
		name[len - 1] = 0; /* the newline */
	(void)fgt_activity_put_head(getpid(), name, fgt_now(),
				    fgt_clock_ns(CLOCK_REALTIME), &buffer_sink);
}

/* ---- Writing ------------------------------------------------------------ */

static bool is_ours(void)
{
	return fgt_file_id_is(&live.file, live.fd);
}

/* Makes it this process's own. -EBUSY another one writes it. */
static int take_file(int fd, struct stat *ret_status)
{
	if (fstat(fd, ret_status) < 0)
		return -errno;
	/* Not /dev/null and its like, which have room for many. */
	if (!S_ISREG(ret_status->st_mode) && !S_ISFIFO(ret_status->st_mode))
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	/* Of an earlier run: nobody writes it, unless there are no locks. */
	if (S_ISREG(ret_status->st_mode) && !live.is_kept &&
	    ftruncate(fd, 0) < 0)
		return -errno;
	return fstat(fd, ret_status) < 0 ? -errno : 0;
}

/* Appending: what others write to it, whoever they are, is not destroyed. */
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
	/* Not where it has been emptied, or another one has its name. */
	if (S_ISREG(status.st_mode))
		live.is_begun = status.st_size > 0;
	live.file = (struct fgt_file_id){ status.st_dev, status.st_ino };
	fgt_fd_apart_begin();
	live.fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

/* To who set the variable: the program may have no log. But it may have put a
 * file of its own where standard error was. */
static void say(const char *format, ...) FGT_PRINTF(1, 2);
static void say(const char *format, ...)
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
		say("fgtrace: FGTRACE_ACTIVITY: %s: %s\n", live.path, why);
	has_complained = true;
}

static const char *explain(int error)
{
	return error == ENXIO	 ? "nobody reads the FIFO"
	       : error == EAGAIN ? "its reader was too slow"
	       : error		 ? strerror(error)
				 : "there was no time";
}

/* Lines of events, which are one for nearly all that is said. */
static uint64_t count_pending(void)
{
	size_t i = live.first > live.head_end ? live.first : live.head_end;
	uint64_t count = 0;

	for (; i < live.end; i++)
		count += live_bytes[i] == '\n';
	return count - (live.first < live.gap_end);
}

/* For a reader who left, or a file that is no more: lost, as no other array may
 * begin with the rest of a line. The next one tells so. */
static void drop_pending(void)
{
	uint64_t lines = count_pending();
	uint64_t count = lines < live.taken ? lines : live.taken;

	live.taken -= count;
	live.unread += count;
	atomic_fetch_add_explicit(&live.lost, count, memory_order_relaxed);
	live.lost_told = live.lost_written;
	live.first = live.end = live.gap_end = 0;
}

/* A FIFO without a reader, a full disk: later again. */
static bool open_file(void)
{
	int r;

	if (is_ours())
		return true;
	live.fd = -1;
	r = open_path();
	live.error = -r;
	live.is_anothers = r == -EBUSY;
	if (r == -EBUSY)
		complain("another process is writing it, so this one does not: "
			 "'{pid}' in the name gives each its own");
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

/* True once nothing is left to be written. */
static bool write_out(void)
{
	while (live.first < live.end) {
		ssize_t n = write(live.fd, live_bytes + live.first,
				  live.end - live.first);

		live.error = n < 0 ? errno : 0;
		if (n > 0) {
			live.first += (size_t)n;
			if (live.first >= live.gap_end)
				live.lost_written = live.lost_told;
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
	fgt_report("FGTRACE_ACTIVITY: events were lost, the file could not be "
		   "written as fast as they came: %s",
		   explain(live.error));
}

/* One look at the log; true: it may hold more. */
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

/* What is not in the file at the end, nor told there. */
static void tell_rest(void)
{
	struct fgt_span_log *log = fgt_journal_log();
	struct fgt_span_log_counts counts = { 0 };
	uint64_t known = live.taken + live.lost_written;
	uint64_t missing = count_pending();

	if (!log || live.is_anothers)
		return;
	fgt_span_log_get_counts(log, &counts);
	/* Threads may go on, and the count lag behind. */
	if (counts.appended + counts.lost > known)
		missing += counts.appended + counts.lost - known;
	if (missing)
		say("fgtrace: FGTRACE_ACTIVITY: %s: some %llu events up to the "
		    "end are not in it: %s\n",
		    live.path, (unsigned long long)missing,
		    explain(live.error));
}

static void wait_for(sem_t *semaphore, uint64_t ns)
{
	const struct timespec when = fgt_timespec_of(fgt_now() + ns);

	while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &when) < 0 &&
	       errno == EINTR)
		;
}

static void rest(uint64_t ns)
{
	struct pollfd reader = { .fd = live.fd, .events = POLLOUT };

	if (live.is_full && live.fd >= 0)
		(void)poll(&reader, 1, (int)(ns / 1000000));
	else
		wait_for(&live.wake, ns);
}

static void *run(void *unused)
{
	uint64_t until_ns = UINT64_MAX;

	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-activity");
	atomic_store_explicit(&live.tid, gettid(), memory_order_relaxed);
	(void)open_file(); /* now, as what main() starts might be faster */
	(void)sem_post(&live.started);
	while (!live.is_anothers) {
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
		rest(is_leaving ? ROUND_NS / 10 : ROUND_NS);
	}
	tell_rest();
	atomic_store_explicit(&live.tid, 0, memory_order_relaxed);
	(void)sem_post(&live.left);
	return NULL;
}

/* ---- Life --------------------------------------------------------------- */

static void in_child(void)
{
	live.is_running = false;
	atomic_store_explicit(&live.tid, 0, memory_order_relaxed);
	if (is_ours())
		close(live.fd);
	live.fd = -1;
	atomic_store_explicit(&live.lost, 0, memory_order_relaxed);
}

static void add_status(struct fgt_status *status)
{
	status->activity_lost =
		atomic_load_explicit(&live.lost, memory_order_relaxed);
}

static int32_t own_tid(void)
{
	return atomic_load_explicit(&live.tid, memory_order_relaxed);
}

const struct fgt_part fgt_activity_part = { .add_status = add_status,
					    .own_tid = own_tid };

/* False: it is that of who started this program, or of nobody. */
static bool choose_path(const char *text)
{
	enum fgt_own_file whose;
	bool is_numbered;
	int r = fgt_own_file_path(text, live.path, sizeof(live.path),
				  &is_numbered);

	if (r < 0) {
		say("fgtrace: FGTRACE_ACTIVITY: %s\n", strerror(-r));
		return false;
	}
	whose = fgt_own_file_take(OWNER, live.path);
	live.is_kept = whose == FGT_OWN_FILE_MINE;
	return whose != FGT_OWN_FILE_ANOTHERS;
}

/* Before main(), so that nothing is missed. secure_getenv: never in a program
 * that has more rights than who started it. */
__attribute__((constructor)) static void start(void)
{
	const char *path = secure_getenv("FGTRACE_ACTIVITY");

	(void)fgt_file_id_get(STDERR_FILENO, &live.errors);
	if (!path || !*path || !choose_path(path) ||
	    fgt_journal_open(FGT_SPAN_LOG_BYTES_DEFAULT) < 0 ||
	    fgt_span_reader_new(fgt_journal_log(), &live.reader) < 0)
		return;
	sem_init(&live.wake, 0, 0);
	sem_init(&live.started, 0, 0);
	sem_init(&live.left, 0, 0);
	(void)pthread_atfork(NULL, NULL, in_child);
	live.is_running =
		fgt_own_thread_start(STACK_BYTES, run, &live.thread) == 0;
	if (live.is_running)
		wait_for(&live.started, PATIENCE_NS);
}

/* What was said is in the file at a regular end, unless it is stuck. */
__attribute__((destructor)) static void stop(void)
{
	if (!live.is_running)
		return;
	/* Release: pairs with the acquire in run(). */
	atomic_store_explicit(&live.is_leaving, true, memory_order_release);
	(void)sem_post(&live.wake);
	wait_for(&live.left, PATIENCE_NS);
}
