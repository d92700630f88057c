/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When which destination gets what waits in the spool. The worker puts
 * deliveries there, and a second thread, which is a user of the library while
 * it works, sends them: a server that hangs keeps no transaction from the
 * disk. Must not log a destination, which may be a secret.
 */
#include "agent/lib/embedded/spooling.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/settings.h"
#include "ringbuf/base/hash.h"
#include "ringbuf/base/thread.h"
#include "upload/deliver/sentry_upload.h"

#define SECOND_NS     UINT64_C(1000000000)
#define PAUSE_MIN_NS  (5 * SECOND_NS) /* the first one, doubled */
#define PAUSE_MAX_NS  (600 * SECOND_NS)
#define DOUBLINGS_MAX 7
#define KNOWN_MAX     8 /* destinations of one program */
#define AT_ONCE	      16 /* sent to one before the next one's turn */
#define STACK_BYTES   (256 << 10)

struct known_destination {
	char text[FGT_SETTINGS_DESTINATION + 1]; /* "": free */
	bool is_waited_for; /* there may be entries for it */
	unsigned int puts; /* entries for it, since it is known */
	unsigned int failures; /* since it last answered */
	uint64_t due_ns;
	struct fgt_embed_server server;
};

static struct {
	const struct fgt_embed_ops *ops;
	struct fgt_own_threads own;
	const char *path; /* NULL: there is no spool, and no sender */
	pthread_t sender;
	int32_t tid; /* of it; written before the post of started */
	atomic_bool *is_ended; /* on its stack, likewise */
	sem_t started, wake;

	/* Protects all below. Innermost. */
	pthread_mutex_t lock;
	bool is_busy; /* the sender; it is a user of the library then */
	struct fgt_upload_limits limits;
	struct known_destination known[KNOWN_MAX];
	unsigned int next; /* is replaced if all are used */
} spooling;

/* Under the lock. */
static struct known_destination *know(const char *text)
{
	struct known_destination *known;

	for (size_t i = 0; i < KNOWN_MAX; i++) {
		known = &spooling.known[i];
		if (!*known->text)
			break;
		if (strcmp(known->text, text) == 0)
			return known;
	}
	if (*known->text)
		known = &spooling.known[spooling.next++ % KNOWN_MAX];
	*known = (struct known_destination){ .failures = 0 };
	fgt_settings_copy_text(known->text, sizeof(known->text), text);
	return known;
}

static bool is_due(const struct known_destination *known)
{
	return *known->text && known->is_waited_for &&
	       known->due_ns <= fgt_now();
}

/* Under the lock. */
static bool is_any_due(void)
{
	for (size_t i = 0; i < KNOWN_MAX; i++)
		if (is_due(&spooling.known[i]))
			return true;
	return false;
}

/* ---- The sender ---------------------------------------------------------- */

/* From a half of the pause to all of it. */
static uint64_t choose_pause(unsigned int failures)
{
	unsigned int doublings = failures < DOUBLINGS_MAX ? failures
							  : DOUBLINGS_MAX;
	uint64_t pause_ns = PAUSE_MIN_NS << doublings;

	if (pause_ns > PAUSE_MAX_NS)
		pause_ns = PAUSE_MAX_NS;
	return pause_ns / 2 + fgt_hash_number(fgt_now()) % (pause_ns / 2);
}

/* The server wants nothing now: what is in the spool waits until it does. */
static bool is_limited(struct known_destination *known)
{
	uint64_t until_ns =
		known->server.pauses.until_ns[FGT_CATEGORY_TRANSACTION];

	if (known->due_ns < until_ns)
		known->due_ns = until_ns;
	return until_ns > fgt_now();
}

/* True: there may be another one. */
static bool send_one(struct known_destination *known,
		     const struct fgt_upload_limits *limits)
{
	const struct fgt_embed_spool spool = { .path = spooling.path,
					       .destination = known->text,
					       .server = &known->server,
					       .limits = limits };
	struct fgt_why why = { "" };
	unsigned int wait_s = 0;
	int r = spooling.ops->spool_send(&spool, &why, &wait_s);
	uint64_t pause_ns, asked_ns = wait_s * SECOND_NS;

	if (why.text[0])
		fgt_report_line(NULL, why.text);
	known->is_waited_for = r != -ENOENT;
	if (r == -EALREADY) /* another process sends */
		known->due_ns = fgt_now() + SECOND_NS;
	if (r == 0 || r == -ENOENT || r == -EALREADY) {
		known->failures = 0;
		return r == 0 && !is_limited(known);
	}
	if (r != -EAGAIN) { /* it has gone */
		known->due_ns = fgt_now() + asked_ns;
		return !is_limited(known) && asked_ns == 0;
	}
	pause_ns = choose_pause(known->failures++);
	known->due_ns = fgt_now() + (asked_ns > pause_ns ? asked_ns : pause_ns);
	return false;
}

/* Works on a copy, so that the worker need not wait. */
static void send_due(size_t index)
{
	struct known_destination *kept = &spooling.known[index];
	struct known_destination known;
	struct fgt_upload_limits limits;
	int left = AT_ONCE;

	pthread_mutex_lock(&spooling.lock);
	known = *kept;
	limits = spooling.limits;
	pthread_mutex_unlock(&spooling.lock);
	while (is_due(&known) && left-- > 0 && send_one(&known, &limits))
		;
	pthread_mutex_lock(&spooling.lock);
	if (strcmp(kept->text, known.text) == 0) {
		known.is_waited_for |= kept->puts != known.puts;
		known.puts = kept->puts;
		*kept = known;
	}
	pthread_mutex_unlock(&spooling.lock);
	explicit_bzero(&known, sizeof(known));
}

static void send_all(void)
{
	bool is_more = true;

	while (is_more) {
		for (size_t i = 0; i < KNOWN_MAX; i++)
			send_due(i);
		pthread_mutex_lock(&spooling.lock);
		is_more = is_any_due() && fgt_library_is_started();
		spooling.is_busy = is_more;
		pthread_mutex_unlock(&spooling.lock);
	}
}

static void *run(void *unused)
{
	void (*leave)(void) = spooling.own.leave;
	atomic_bool is_ended = false;

	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-sender");
	spooling.tid = gettid();
	spooling.is_ended = &is_ended;
	(void)sem_post(&spooling.started);
	while (!atomic_load_explicit(&is_ended, memory_order_acquire)) {
		if (sem_wait(&spooling.wake) < 0 ||
		    atomic_load_explicit(&is_ended, memory_order_acquire))
			continue;
		send_all();
		fgt_library_wake(); /* fgt_flush() may wait for it */
		leave(); /* may call fgt_spooling_stop() */
	}
	return NULL;
}

int fgt_spooling_start(const struct fgt_embed_ops *ops,
		       const struct fgt_own_threads *own, const char *path,
		       const char *destination, int32_t *ret_tid)
{
	int r;

	explicit_bzero(&spooling, sizeof(spooling));
	*ret_tid = 0;
	if (!path)
		return 0;
	pthread_mutex_init(&spooling.lock, NULL);
	sem_init(&spooling.started, 0, 0);
	sem_init(&spooling.wake, 0, 0);
	spooling.ops = ops;
	spooling.own = *own;
	if (destination)
		know(destination)->is_waited_for = true;
	r = fgt_thread_start(STACK_BYTES, run, NULL, &spooling.sender);
	if (r < 0)
		return r;
	while (sem_wait(&spooling.started) < 0)
		; /* interrupted by a signal of the program */
	spooling.path = path;
	*ret_tid = spooling.tid;
	return 0;
}

void fgt_spooling_stop(void)
{
	if (!spooling.path)
		return;
	spooling.path = NULL;
	atomic_store_explicit(spooling.is_ended, true, memory_order_release);
	if (pthread_equal(spooling.sender, pthread_self())) {
		(void)pthread_detach(spooling.sender);
		return;
	}
	(void)sem_post(&spooling.wake);
	(void)pthread_join(spooling.sender, NULL);
}

/* ---- The worker ---------------------------------------------------------- */

void fgt_spooling_tend(const struct fgt_upload_limits *limits)
{
	bool is_woken;

	if (!spooling.path)
		return;
	pthread_mutex_lock(&spooling.lock);
	spooling.limits = *limits;
	is_woken = !spooling.is_busy && is_any_due();
	spooling.is_busy |= is_woken;
	pthread_mutex_unlock(&spooling.lock);
	if (is_woken) {
		spooling.own.hold();
		(void)sem_post(&spooling.wake);
	}
}

bool fgt_spooling_is_idle(void)
{
	bool is_idle = true;

	if (spooling.path) {
		pthread_mutex_lock(&spooling.lock);
		is_idle = !spooling.is_busy;
		pthread_mutex_unlock(&spooling.lock);
	}
	return is_idle;
}

int fgt_spooling_deliver(const struct fgt_delivery *delivery,
			 const struct fgt_upload_limits *limits,
			 struct fgt_why *why)
{
	const struct fgt_embed_spool spool = {
		.path = spooling.path,
		.destination = delivery->destination,
		.limits = limits,
	};
	struct known_destination *known;
	int r;

	if (!spooling.path)
		return -ENODEV;
	r = spooling.ops->spool_put(&spool, delivery->slice->file.bytes,
				    delivery->slice->file.len_bytes,
				    delivery->facts, why);
	if (r < 0)
		return r;
	pthread_mutex_lock(&spooling.lock);
	known = know(delivery->destination);
	known->is_waited_for = true;
	known->puts++;
	pthread_mutex_unlock(&spooling.lock);
	fgt_spooling_tend(limits);
	return 0;
}
