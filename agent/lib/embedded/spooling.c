/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When which destination gets what waits in the spool. The worker's thread;
 * must not log a destination, which may be a secret.
 */
#include "agent/lib/embedded/spooling.h"

#include <errno.h>
#include <string.h>

#include "agent/lib/report.h"
#include "agent/lib/settings.h"
#include "ringbuf/base/hash.h"

#define SECOND_NS     UINT64_C(1000000000)
#define PAUSE_MIN_NS  (5 * SECOND_NS) /* the first one, doubled */
#define PAUSE_MAX_NS  (600 * SECOND_NS)
#define DOUBLINGS_MAX 7
#define KNOWN_MAX     8 /* destinations of one program */
#define AT_ONCE	      16 /* sent in one second */

struct known_destination {
	char text[FGT_SETTINGS_DESTINATION + 1]; /* "": free */
	bool is_waited_for; /* there may be entries for it */
	unsigned int failures; /* since it last answered */
	uint64_t due_ns;
	struct fgt_embed_server server;
};

static struct {
	const struct fgt_embed_ops *ops;
	const char *path;
	struct known_destination known[KNOWN_MAX];
	unsigned int next; /* is replaced if all are used */
} spooling;

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

void fgt_spooling_start(const struct fgt_embed_ops *ops, const char *path,
			const char *destination)
{
	explicit_bzero(&spooling, sizeof(spooling));
	spooling.ops = ops;
	spooling.path = path;
	if (path && destination)
		know(destination)->is_waited_for = true;
}

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

	known->is_waited_for = r != -ENOENT;
	if (r == -EALREADY) /* another process sends */
		known->due_ns = fgt_now() + SECOND_NS;
	if (r == 0 || r == -ENOENT || r == -EALREADY) {
		known->failures = 0;
		return r == 0 && !is_limited(known);
	}
	if (why.text[0])
		fgt_report_line(NULL, why.text);
	if (r != -EAGAIN) { /* it has gone */
		known->due_ns = fgt_now() + asked_ns;
		return !is_limited(known) && asked_ns == 0;
	}
	pause_ns = choose_pause(known->failures++);
	known->due_ns = fgt_now() + (asked_ns > pause_ns ? asked_ns : pause_ns);
	return false;
}

static void send_due(struct known_destination *known,
		     const struct fgt_upload_limits *limits)
{
	int left = AT_ONCE;

	while (*known->text && known->is_waited_for &&
	       known->due_ns <= fgt_now() && left-- > 0 &&
	       send_one(known, limits))
		;
}

void fgt_spooling_tend(const struct fgt_upload_limits *limits)
{
	for (size_t i = 0; spooling.path && i < KNOWN_MAX; i++)
		send_due(&spooling.known[i], limits);
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
	known = know(delivery->destination);
	known->is_waited_for = true;
	send_due(known, limits);
	return 0;
}
