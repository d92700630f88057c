/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps readers, asks them, gives up those that do not answer. Runs in any
 * thread; must bound every wait, and must not hold the lock in one.
 */
#include "agent/files/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define MS UINT64_C(1000000)
/*
 * For all users: while a request lasts, no other one has its reader, which
 * keeps nothing of it, and a reader that is late is not used again. So the
 * files of one user delay no other user's. A reader for each user would cost a
 * process each, and divide nothing that is shared here.
 */
#define READERS_MAX	 24u
#define READERS_TRUSTED	 4u /* of these, for files that are trusted */
#define SPARE_MAX	 2u /* that wait for work */
#define LOST_OF_USER_MAX 4u
#define LOST_MAX	 8u /* then only users whose files answered may ask */
#define ANSWER_URGENT_MS 200
#define ANSWER_MS	 1000
#define ANSWER_LONG_MS	 2000 /* a disk that starts to turn; all bytes */
#define CLOSE_SHORT_MS	 20 /* usually microseconds */
#define CLOSE_MAX_MS	 1000
#define TRIES		 3
#define START_URGENT_MS	 300
#define START_MAX_MS	 3000

/* Protects the readers that no thread has, and the users; nests inside nothing
 * and is not held in a wait. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fgt_reader readers[READERS_MAX];
static bool is_begun; /* set before there are threads */
static void (*explain)(uint32_t uid, const char *text);

static uint64_t now_ns(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

/* ---- All readers; lock held ---------------------------------------------- */

static void lose(struct fgt_reader *reader, bool is_charged)
{
	fgt_self_child_kill(reader->pid_fd);
	/* What it has sent and was not received is closed without asking. */
	fgt_fd_close(FGT_TAKE_FD(reader->fd));
	reader->state = FGT_READER_LOST;
	reader->is_charged = is_charged;
}

static bool is_late(const struct fgt_reader *reader, uint64_t now)
{
	uint64_t most_ms = reader->is_charged ? CLOSE_MAX_MS : START_MAX_MS;

	return now - reader->since_ns >= most_ms * MS;
}

static unsigned int count(enum fgt_reader_state state)
{
	unsigned int found = 0;

	for (size_t i = 0; i < READERS_MAX; i++)
		found += readers[i].state == state;
	return found;
}

static void look_after(struct fgt_reader *reader, uint64_t now)
{
	int r;

	if (reader->state == FGT_READER_LOST &&
	    fgt_self_child_reap(reader->pid_fd))
		reader->state = FGT_READER_ABSENT;
	if (reader->state != FGT_READER_UNREADY)
		return;
	r = fgt_reader_is_ready(reader);
	if (r > 0 && count(FGT_READER_READY) >= SPARE_MAX) {
		lose(reader, false);
	} else if (r > 0) {
		reader->state = FGT_READER_READY;
	} else if (r < 0) {
		fgt_self_child_lose(reader->fd, reader->pid_fd);
		lose(reader, false);
	} else if (is_late(reader, now)) {
		if (reader->is_charged)
			fgt_reader_user_fail(
				fgt_reader_user_get(reader->uid, now), now);
		lose(reader, reader->is_charged);
	}
}

static unsigned int count_lost(const struct fgt_reader_user *user)
{
	unsigned int found = 0;

	for (size_t i = 0; i < READERS_MAX; i++)
		found += readers[i].state == FGT_READER_LOST &&
			 readers[i].is_charged &&
			 (!user || readers[i].uid == user->uid);
	return found;
}

static int may_ask(struct fgt_reader_user *user,
		   const struct fgt_open_request *request, uint64_t now)
{
	unsigned int of_user =
		count_lost(user) + fgt_close_count_slow(user->uid, now);

	if (!request->is_trusted && (of_user >= LOST_OF_USER_MAX ||
				     (of_user && count_lost(NULL) >= LOST_MAX)))
		return -EBUSY;
	return fgt_reader_user_may_ask(user, request, now);
}

/* A ready one, else one that is about to be, else the place of a new one. */
static struct fgt_reader *choose(const struct fgt_open_request *request,
				 uint64_t now)
{
	struct fgt_reader *soon = NULL, *absent = NULL;
	unsigned int left = 0;

	for (size_t i = 0; i < READERS_MAX; i++) {
		struct fgt_reader *reader = &readers[i];

		if (reader->state == FGT_READER_READY)
			return reader;
		if (reader->state == FGT_READER_UNREADY &&
		    (!reader->is_charged ||
		     now - reader->since_ns < CLOSE_SHORT_MS * MS))
			soon = reader;
		if (reader->state == FGT_READER_ABSENT) {
			absent = reader;
			left++;
		}
	}
	if (soon)
		return soon;
	return request->is_trusted || left > READERS_TRUSTED ? absent : NULL;
}

/* The reader that the caller has now, NULL: there is none. */
static int take(const struct fgt_open_request *request, struct fgt_reader **ret,
		enum fgt_reader_state *ret_former)
{
	uint64_t now = now_ns();
	struct fgt_reader *reader = NULL;
	int r;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < READERS_MAX; i++)
		look_after(&readers[i], now);
	r = may_ask(fgt_reader_user_get(request->uid, now), request, now);
	if (r == 0) {
		reader = choose(request, now);
		r = reader ? 0 : -EAGAIN;
	}
	if (r == 0) {
		*ret_former = reader->state;
		reader->state = FGT_READER_BUSY;
		*ret = reader;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* One that has not closed its file yet is no spare one: it may never do so, and
 * is charged then. */
static void put(struct fgt_reader *reader, enum fgt_reader_state state)
{
	uint64_t now = now_ns();

	pthread_mutex_lock(&lock);
	reader->state = state;
	for (size_t i = 0; i < READERS_MAX; i++)
		look_after(&readers[i], now);
	pthread_mutex_unlock(&lock);
}

/* It has ended. */
static void give_back(struct fgt_reader *reader)
{
	pthread_mutex_lock(&lock);
	fgt_self_child_lose(reader->fd, reader->pid_fd);
	lose(reader, false);
	pthread_mutex_unlock(&lock);
}

/* So that the next request need not wait for its start. */
static void start_spare(void)
{
	struct fgt_reader *absent = NULL;
	unsigned int left = 0;
	int r;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < READERS_MAX; i++)
		if (readers[i].state == FGT_READER_ABSENT) {
			absent = &readers[i];
			left++;
		}
	if (left <= READERS_TRUSTED || count(FGT_READER_READY) ||
	    count(FGT_READER_UNREADY))
		absent = NULL;
	if (absent)
		absent->state = FGT_READER_BUSY;
	pthread_mutex_unlock(&lock);
	if (!absent)
		return;
	r = fgt_reader_start(absent);
	put(absent, r < 0 ? FGT_READER_ABSENT : FGT_READER_UNREADY);
}

/* ---- A request ------------------------------------------------------------ */

/* Takes a reader that is ready for an order. -EPIPE: ask for another one. */
static int take_ready(const struct fgt_open_request *request,
		      struct fgt_reader **ret)
{
	uint64_t most_ms = request->is_urgent ? START_URGENT_MS : START_MAX_MS;
	enum fgt_reader_state former;
	int r = take(request, ret, &former);

	if (r < 0 || former == FGT_READER_READY)
		return r;
	if (former == FGT_READER_ABSENT && fgt_reader_start(*ret) < 0) {
		put(*ret, FGT_READER_ABSENT);
		return -EAGAIN;
	}
	if ((*ret)->is_charged)
		most_ms = CLOSE_SHORT_MS;
	if (!fgt_reader_wait((*ret)->fd, now_ns() + most_ms * MS)) {
		r = (*ret)->is_charged ? -EPIPE : -EAGAIN;
		put(*ret, FGT_READER_UNREADY);
		return r;
	}
	r = fgt_reader_is_ready(*ret);
	if (r > 0)
		return 0;
	give_back(*ret);
	return -EPIPE;
}

static uint64_t allowed_ms(const struct fgt_open_request *request)
{
	uint64_t most_ms = request->is_trusted || request->is_copied
				   ? ANSWER_LONG_MS
			   : request->is_urgent ? ANSWER_URGENT_MS
						: ANSWER_MS;

	if (request->left_ms && (uint64_t)*request->left_ms < most_ms)
		return (uint64_t)*request->left_ms;
	return most_ms;
}

/* Names the file; procfs knows where its links lead, without asking there.
 * stopped: the reader's pid, if that is why it did not answer; 0. */
static void report(const struct fgt_open_request *request, int stopped)
{
	char path[FGT_OPEN_PATH_MAX] = "", text[FGT_OPEN_PATH_MAX + 256];
	char reason[100];
	const char *name = request->path ? request->path : "/";

	if (!explain)
		return;
	if (request->place == FGT_OPEN_LINK &&
	    readlinkat(request->dir_fd, name, path, sizeof(path) - 1) > 0)
		name = path;
	if (stopped)
		snprintf(reason, sizeof(reason),
			 "was not opened: process %d (%s), which opens files, "
			 "has been stopped",
			 stopped, FGT_READER_NAME);
	snprintf(text, sizeof(text),
		 "file %s %s: stacks and names of user %u lack it, and for "
		 "some time other files%s",
		 name, stopped ? reason : "does not answer", request->uid,
		 stopped ? "" : ": end or unmount its file system (FUSE, NFS)");
	explain(request->uid, text);
}

static void give_up(struct fgt_reader *reader,
		    const struct fgt_open_request *request)
{
	uint64_t now = now_ns();
	int pid;
	char state = fgt_reader_look(reader, &pid);
	/* That the machine is busy is not the file's fault. */
	bool is_charged = !request->is_trusted && state != 'R';
	bool is_first = false;

	pthread_mutex_lock(&lock);
	reader->uid = request->uid;
	lose(reader, is_charged);
	if (is_charged)
		is_first = fgt_reader_user_fail(
			fgt_reader_user_get(request->uid, now), now);
	pthread_mutex_unlock(&lock);
	start_spare();
	if (is_first)
		report(request, state == 'T' ? pid : 0);
}

static void spend(const struct fgt_open_request *request, uint64_t began_ns)
{
	uint64_t now = now_ns();

	if (request->left_ms)
		*request->left_ms -= (int64_t)((now - began_ns) / MS);
	if (!request->is_urgent || request->is_trusted)
		return;
	pthread_mutex_lock(&lock);
	fgt_reader_user_spend(fgt_reader_user_get(request->uid, now),
			      now - began_ns);
	pthread_mutex_unlock(&lock);
}

/* -EPIPE: the reader has ended by itself. */
static int ask(struct fgt_reader *reader,
	       const struct fgt_open_request *request,
	       struct fgt_opened_file *ret_file)
{
	uint64_t began_ns = now_ns();
	int r = fgt_reader_send(reader, request);

	if (r == 0 &&
	    !fgt_reader_wait(reader->fd, began_ns + allowed_ms(request) * MS))
		r = -ETIMEDOUT;
	else if (r == 0)
		r = fgt_reader_receive(reader, ret_file);
	spend(request, began_ns);
	if (r == -ETIMEDOUT) {
		give_up(reader, request);
	} else if (r == -EPIPE) {
		give_back(reader);
	} else if (r == -ENAMETOOLONG) {
		put(reader, FGT_READER_READY);
	} else {
		reader->uid = request->uid;
		reader->is_charged = !request->is_trusted;
		reader->since_ns = now_ns();
		put(reader, FGT_READER_UNREADY);
	}
	return r;
}

static int open_by_reader(const struct fgt_open_request *request,
			  struct fgt_opened_file *ret_file)
{
	struct fgt_reader *reader;
	int r = -EPIPE;

	/* One that was killed is replaced. */
	for (int i = 0; i < TRIES && r == -EPIPE; i++) {
		if (request->left_ms && *request->left_ms <= 0)
			return -ETIME;
		r = take_ready(request, &reader);
		if (r == 0)
			r = ask(reader, request, ret_file);
	}
	return r == -EPIPE ? -EAGAIN : r;
}

int fgt_file_open(const struct fgt_open_request *request,
		  struct fgt_opened_file *ret_file)
{
	struct fgt_open_request here = *request;

	if (is_begun && !(request->is_trusted && request->ino))
		return open_by_reader(request, ret_file);
	/* Who may wait for the file may wait for its bytes. */
	here.is_copied = false;
	return fgt_open_here(&here, ret_file);
}

void fgt_file_close_of(int fd, uint32_t uid)
{
	if (is_begun)
		fgt_close_aside(fd, uid);
	else
		fgt_fd_close(fd);
}

void fgt_file_fail(uint32_t uid)
{
	uint64_t now = now_ns();

	pthread_mutex_lock(&lock);
	fgt_reader_user_fail(fgt_reader_user_get(uid, now), now);
	pthread_mutex_unlock(&lock);
}

bool fgt_file_may_come(int error)
{
	return error == -ETIMEDOUT || error == -EBUSY || error == -EAGAIN;
}

void fgt_reader_begin(void (*explain_function)(uint32_t uid, const char *text))
{
	explain = explain_function;
	is_begun = true;
	start_spare();
}

void fgt_reader_end(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < READERS_MAX; i++) {
		struct fgt_reader *reader = &readers[i];

		if (reader->state == FGT_READER_READY ||
		    reader->state == FGT_READER_UNREADY)
			lose(reader, false);
		/* One that waits for a file system is left to the kernel. */
		if (reader->state == FGT_READER_LOST && !reader->is_charged)
			fgt_self_child_end(FGT_TAKE_FD(reader->pid_fd));
		reader->state = FGT_READER_ABSENT;
	}
	is_begun = false;
	pthread_mutex_unlock(&lock);
}

unsigned int fgt_reader_count_lost(void)
{
	unsigned int found;

	pthread_mutex_lock(&lock);
	found = count_lost(NULL);
	pthread_mutex_unlock(&lock);
	return found;
}
