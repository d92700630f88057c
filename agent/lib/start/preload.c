/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do not use the library: LD_PRELOAD=libfgtrace.so with
 * FGTRACE_OUT=FILE records from the start of main(), and writes the last
 * seconds to FILE at exit, or at SIGUSR2 if the program has no handler for it.
 * Runs before and after main(), in a signal handler (which sets a flag), and in
 * the worker. Prints errors to standard error, because the program has no log.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/own.h"
#include "agent/lib/start/start.h"
#include "upload/format/format_list.h"

#define FIRST_NS 100000000u /* no slice before this age of the program */
#define OWNER	 "FGTRACE_PID" /* the process that writes FGTRACE_OUT */

static struct {
	/* Set before main(), then constant. */
	char path[PATH_MAX];
	enum fgt_format format;
	pid_t pid; /* 0: not active */
	/* Only the thread that starts prints why it failed. */
	pthread_t starter;
	atomic_bool is_starting;
	bool has_printed;
	uint64_t begin_ns; /* when recording began */
	/* Protects the file. */
	pthread_mutex_t lock;
	atomic_bool is_asked; /* by SIGUSR2 */
} preload = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void print_error(const char *what, const char *why)
{
	char line[PATH_MAX + 256];
	int len = snprintf(line, sizeof(line), "fgtrace: %s%s%s\n", what,
			   why ? ": " : "", why ? why : "");

	if (len > (int)sizeof(line) - 1)
		len = sizeof(line) - 1;
	if (write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* there is no other place for errors */
}

/* ---- The file ---------------------------------------------------------- */

static int write_to(const struct fgt_slice *slice)
{
	char temporary[PATH_MAX + 32];
	int fd, rc;

	snprintf(temporary, sizeof(temporary), "%s.%d.tmp", preload.path,
		 (int)preload.pid);
	(void)unlink(temporary);
	fd = open(temporary,
		  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = fgt_slice_write(slice, preload.format, fd);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(temporary, preload.path) < 0)
		rc = -errno;
	if (rc < 0)
		(void)unlink(temporary);
	return rc;
}

static void write_slice(void)
{
	struct fgt_slice *slice = NULL;
	int rc;

	pthread_mutex_lock(&preload.lock);
	rc = fgt_get_slice(preload.begin_ns, fgt_now(), &slice);
	if (rc == 0)
		rc = write_to(slice);
	fgt_slice_free(slice);
	pthread_mutex_unlock(&preload.lock);
	/* -ESHUTDOWN: the slice of the exit replaces this one. -ENODATA is
	 * printed to terminals only: scripts may read standard error of short
	 * programs. */
	if (rc == -ESHUTDOWN || (rc == -ENODATA && !isatty(STDERR_FILENO)))
		return;
	if (rc < 0)
		print_error(preload.path, rc == -ENODATA
						  ? "nothing was recorded: "
						    "the program is too short"
						  : strerror(-rc));
}

/* ---- SIGUSR2 ----------------------------------------------------------- */

static void ask(int number)
{
	(void)number;
	atomic_store_explicit(&preload.is_asked, true, memory_order_relaxed);
	fgt_library_wake();
}

static bool is_handler(void (*handler)(int))
{
	struct sigaction action;

	return sigaction(SIGUSR2, NULL, &action) == 0 &&
	       !(action.sa_flags & SA_SIGINFO) && action.sa_handler == handler;
}

static void take_signal(void)
{
	struct sigaction action = { .sa_handler = ask, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	if (is_handler(SIG_DFL))
		sigaction(SIGUSR2, &action, NULL);
}

static void leave_signal(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	if (is_handler(ask))
		sigaction(SIGUSR2, &action, NULL);
}

/* On the worker, soon after the signal, or after the start. */
static uint64_t work(uint64_t now_ns)
{
	/* Acquire: pairs with the store at the end of begin(). */
	if (atomic_load_explicit(&preload.is_starting, memory_order_acquire) ||
	    !atomic_load_explicit(&preload.is_asked, memory_order_relaxed))
		return UINT64_MAX;
	if (now_ns < preload.begin_ns + FIRST_NS)
		return preload.begin_ns + FIRST_NS;
	if (atomic_exchange_explicit(&preload.is_asked, false,
				     memory_order_relaxed))
		write_slice();
	return UINT64_MAX;
}

/* The child writes nothing, and SIGUSR2 ends it as without the library. */
static void forked(void)
{
	leave_signal();
	preload.pid = 0;
	atomic_store_explicit(&preload.is_asked, false, memory_order_relaxed);
	pthread_mutex_init(&preload.lock, NULL);
}

bool fgt_preload_holds(void)
{
	return preload.pid && preload.pid == getpid();
}

const struct fgt_part fgt_preload_part = { .work = work, .forked = forked };

/* ---- Before and after main() ------------------------------------------- */

static bool choose_format(void)
{
	enum fgt_format_kind kind =
		fgt_format_of_ending(preload.path, strlen(preload.path));

	if (kind == FGT_KIND_COUNT) {
		print_error(
			preload.path,
			"FGTRACE_OUT must end in one of" FGT_FORMAT_ENDINGS);
		return false;
	}
	preload.format = (enum fgt_format)kind;
	return true;
}

static const char *remedy_for_folder(int error)
{
	switch (error) {
	case ENOENT:
		return "create the directory before the program ends";
	case ENOTDIR:
		return "use a directory: this path is a file, or below one";
	case EACCES:
		return "let this user write and search it (chmod, chown), or "
		       "use another directory";
	case EROFS:
		return "use a directory that is not mounted read-only";
	default:
		return "use another directory";
	}
}

/* Only a warning: the directory may be created before the program ends. */
static void check_folder(void)
{
	char folder[PATH_MAX], why[192];
	size_t len = (size_t)(strrchr(preload.path, '/') - preload.path);

	memcpy(folder, preload.path, len);
	folder[len] = '\0';
	if (access(len ? folder : "/", W_OK | X_OK) == 0)
		return;
	snprintf(why, sizeof(why),
		 "%s; FGTRACE_OUT cannot be written there: %s", strerror(errno),
		 remedy_for_folder(errno));
	print_error(folder, why);
}

/* A program that this one starts has the same environment. */
static bool is_child(void)
{
	const char *owner = getenv(OWNER);
	char own[16];

	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (owner && strcmp(owner, own))
		return true;
	/* As fgt_own_file_take(): in dlopen(3) other threads may read it. */
	if (__libc_single_threaded)
		setenv(OWNER, own, 1);
	return false;
}

static unsigned int get_number(const char *name, unsigned int most)
{
	const char *text = getenv(name);
	unsigned long value;
	char *end, why[96];

	if (!text || !*text)
		return 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || !value || value > most) {
		snprintf(why, sizeof(why),
			 "'%.20s' is not a whole number from 1 to %u: the "
			 "default is used",
			 text, most);
		print_error(name, why);
		return 0;
	}
	return (unsigned int)value;
}

/* Prints errors of the start only, from its thread. */
static void print_reason(void *context, const char *line)
{
	(void)context;
	if (!atomic_load_explicit(&preload.is_starting, memory_order_relaxed) ||
	    !pthread_equal(pthread_self(), preload.starter))
		return;
	print_error("cannot record", line);
	preload.has_printed = true;
}

__attribute__((constructor)) static void begin(void)
{
	const char *out = getenv("FGTRACE_OUT");
	struct fgt_options options = { .size = sizeof(options),
				       .mode = FGT_EMBEDDED,
				       .log = print_reason };
	bool is_numbered;
	int rc;

	if (!out || !*out || getauxval(AT_SECURE))
		return;
	rc = fgt_own_file_path(out, preload.path, sizeof(preload.path),
			       &is_numbered);
	if (rc < 0)
		print_error("cannot make a path of FGTRACE_OUT",
			    rc == -ENAMETOOLONG
				    ? "it is too long: choose a shorter one"
				    : strerror(-rc));
	if (rc < 0 || !choose_format())
		return;
	if (!is_numbered && is_child())
		return;
	check_folder();
	options.hz = get_number("FGTRACE_HZ", 1000);
	options.ring_seconds = get_number("FGTRACE_SECONDS", 3600);
	/* A SIGUSR2 during the start is served after it. */
	take_signal();
	preload.starter = pthread_self();
	atomic_store(&preload.is_starting, true);
	rc = fgt_start(&options);
	if (rc < 0 && !preload.has_printed)
		print_error("cannot record", strerror(-rc));
	if (rc < 0) {
		atomic_store(&preload.is_starting, false);
		leave_signal();
		return;
	}
	preload.pid = getpid();
	preload.begin_ns = fgt_now();
	atomic_store(&preload.is_starting, false);
	if (atomic_load(&preload.is_asked))
		fgt_library_wake();
}

__attribute__((destructor)) void fgt_preload_end(void)
{
	if (!fgt_preload_holds())
		return;
	write_slice();
	preload.pid = 0;
	fgt_stop();
}
