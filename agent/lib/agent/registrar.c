/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers with the agent. Runs in fgt_start() on the program's thread, then
 * on the worker only, so that its connection needs no lock.
 */
#include "agent/lib/agent/registrar.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/spans/journal.h"

#define MS_NS	  UINT64_C(1000000)
#define SECOND_NS UINT64_C(1000000000)
/* Pauses after an agent that is full, one that refuses, one that hangs. */
#define FULL_NS	   (3 * SECOND_NS)
#define REFUSED_NS (10 * SECOND_NS)
#define HUNG_NS	   (30 * SECOND_NS)

#define SYSTEM_SOCKET "/run/fgtrace/agent.sock"
#define SOCKET_SIZE   108 /* of sockaddr_un, NUL included */
#define HZ_MAX	      1e6

static const struct fgt_options *const options = &fgt_library.settings.options;

static struct {
	int ring_fd; /* -1: none */
	struct fgt_file_id ring; /* of ring_fd: the program may close it */
	struct fgt_channel channel;
	uint64_t retry_ns; /* no try before */
	atomic_bool is_registered;
	/* 0, or why the last connection failed: a registered program may have
	 * changed its root or its user since. Relaxed: no other field depends
	 * on it. */
	atomic_int connect_error;
	/* Protects what follows; innermost. */
	pthread_mutex_t lock;
	double hz; /* of the agent; 0: not registered */
	char limitation[256]; /* why it is not registered, or the agent's */
} registrar = {
	.channel = { .fd = -1 },
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

uint64_t fgt_registrar_deadline(void)
{
	return fgt_now() + options->timeout_ms * MS_NS;
}

static void log_line(const char *line)
{
	if (registrar.ring_fd < 0)
		fgt_report_line(NULL, line);
}

static void set_state(bool is_registered, double hz, const char *limitation)
{
	pthread_mutex_lock(&registrar.lock);
	registrar.hz = hz;
	snprintf(registrar.limitation, sizeof(registrar.limitation), "%.*s",
		 (int)sizeof(registrar.limitation) - 1, limitation);
	pthread_mutex_unlock(&registrar.lock);
	atomic_store_explicit(&registrar.is_registered, is_registered,
			      memory_order_relaxed);
}

void fgt_registrar_begin(int ring_fd)
{
	registrar.ring_fd = ring_fd;
	(void)fgt_file_id_get(ring_fd, &registrar.ring);
	registrar.retry_ns = 0;
	atomic_store_explicit(&registrar.connect_error, 0,
			      memory_order_relaxed);
	atomic_store_explicit(&fgt_library.has_default_destination, false,
			      memory_order_relaxed);
	set_state(false, 0, "");
}

/* ---- Connecting -------------------------------------------------------- */

/* False: the path would be too long. */
static bool user_socket(char *path, size_t size)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int len;

	if (runtime && *runtime == '/')
		len = snprintf(path, size, "%s/fgtrace/agent.sock", runtime);
	else
		len = snprintf(path, size, "/tmp/fgtrace-%u/agent.sock",
			       geteuid());
	return len > 0 && (size_t)len < size;
}

/*
 * Without a socket in the options: this user's agent, then the system's. Each
 * is checked, since any user can make a folder in /tmp first.
 */
static int connect_to_agent(const char *socket, uint64_t deadline_ns,
			    struct fgt_channel *ret_channel)
{
	char path[SOCKET_SIZE];

	if (socket)
		return fgt_channel_open(socket, false, deadline_ns,
					ret_channel);
	if (geteuid() != 0 && user_socket(path, sizeof(path)) &&
	    fgt_channel_open(path, true, deadline_ns, ret_channel) == 0)
		return 0;
	return fgt_channel_open(SYSTEM_SOCKET, true, deadline_ns, ret_channel);
}

int fgt_registrar_connect(uint64_t deadline_ns, struct fgt_channel *ret_channel)
{
	int r = connect_to_agent(options->socket, deadline_ns, ret_channel);
	/* -ECONNREFUSED: it has ended; the open connection reports that. */
	bool is_blocked = r == -ENOENT || r == -ENOTDIR || r == -EACCES ||
			  r == -EPERM;

	atomic_store_explicit(&registrar.connect_error, is_blocked ? r : 0,
			      memory_order_relaxed);
	return r;
}

/* ---- Registering ------------------------------------------------------- */

static int make_request(int spans_fd, struct fgt_builder **ret_request)
{
	struct fgt_builder *request;
	int r = fgt_builder_new_request("register", &request);

	if (r < 0)
		return r;
	fgt_builder_string(request, "mode",
			   registrar.ring_fd < 0 ? "agent" : "embedded");
	fgt_builder_string(request, "destination", options->destination);
	fgt_builder_string(request, "release", options->release);
	fgt_builder_string(request, "environment", options->environment);
	fgt_builder_bool(request, "spans", spans_fd >= 0);
	fgt_builder_bool(request, "ring", registrar.ring_fd >= 0);
	*ret_request = request;
	return 0;
}

/* Sends the request with its descriptors; the reply as fgt_channel_call(). */
static int ask(uint64_t deadline_ns, struct fgt_message **ret_reply,
	       struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	int spans_fd = fgt_journal_fd();
	int fds[FGT_CHANNEL_FDS_MAX];
	unsigned int fd_count = 0;
	int r = make_request(spans_fd, &request);

	if (spans_fd >= 0)
		fds[fd_count++] = spans_fd;
	if (registrar.ring_fd >= 0)
		fds[fd_count++] = registrar.ring_fd;
	if (r == 0)
		r = fgt_channel_send(&registrar.channel, request, fds, fd_count,
				     deadline_ns);
	return r < 0 ? r
		     : fgt_channel_receive_reply(&registrar.channel,
						 deadline_ns, ret_reply, why);
}

/* The agent's rate and limitation. */
static int take_reply(const struct fgt_message *reply)
{
	const char *limitation = "";
	struct fgt_why printable;
	bool has_default = false;
	double hz = 0;

	if (fgt_message_get_double(reply, "hz", &hz) == -EINVAL ||
	    !(hz >= 0 && hz <= HZ_MAX) ||
	    fgt_message_get_bool(reply, "has_default", &has_default) ==
		    -EINVAL ||
	    fgt_message_get_string(reply, "limitation", &limitation) == -EINVAL)
		return -EBADMSG;
	/* An embedded recorder delivers itself. */
	atomic_store_explicit(&fgt_library.has_default_destination,
			      has_default && registrar.ring_fd < 0,
			      memory_order_relaxed);
	(void)fgt_why_set(&printable, 0, "%s", limitation);
	set_state(true, hz, printable.text);
	return 0;
}

static const char *socket_name(void)
{
	return options->socket ? options->socket : "its usual socket";
}

/*
 * Keeps cause and remedy for fgt_get_status() and the program's log. why: of
 * the agent's reply, "" if there was none.
 */
static void explain(int error, bool is_optional, struct fgt_why *why)
{
	bool is_absent = !why->text[0] &&
			 (error == -ENOENT || error == -ECONNREFUSED);

	const struct fgt_why reply_why = *why;

	if (!why->text[0])
		(void)fgt_channel_explain(error, socket_name(), why);
	else if (error != -EPROTONOSUPPORT)
		(void)fgt_why_set(why, error, "the agent refuses: %s",
				  reply_why.text);
	set_state(false, 0, why->text);
	if (!is_absent || !is_optional)
		log_line(why->text);
}

/* The pause after an error in a reply. */
static uint64_t pause_ns(int error)
{
	if (error == -EBUSY) /* at the next refresh */
		return 0;
	return error == -EUSERS || error == -ENOSPC ? FULL_NS : REFUSED_NS;
}

/* True if the program has closed it. */
static bool is_ring_lost(void)
{
	return registrar.ring_fd >= 0 &&
	       !fgt_file_id_is(&registrar.ring, registrar.ring_fd);
}

/*
 * A program whose user could not trace it: the agent believes that it is the
 * one that registered by a request that can only have been made after that.
 */
static int confirm(const struct fgt_message *reply, uint64_t deadline_ns,
		   struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *answer = NULL;
	bool is_wanted = false;
	int r;

	if (fgt_message_get_bool(reply, "confirm", &is_wanted) == -EINVAL)
		return -EBADMSG;
	if (!is_wanted)
		return 0;
	r = fgt_builder_new_request("confirm", &request);
	return r < 0 ? r
		     : fgt_channel_call(&registrar.channel, request,
					deadline_ns, &answer, why);
}

int fgt_registrar_register(bool is_optional)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	uint64_t deadline_ns = fgt_registrar_deadline();
	struct fgt_why why = { "" };
	int r;

	/* The agent would have nothing to keep. */
	if (is_ring_lost()) {
		registrar.retry_ns = UINT64_MAX;
		return -EBADF;
	}
	r = fgt_registrar_connect(deadline_ns, &registrar.channel);
	if (r == 0)
		r = ask(deadline_ns, &reply, &why);
	if (r == 0)
		r = confirm(reply, deadline_ns, &why);
	if (r == 0)
		r = take_reply(reply);
	if (r == 0)
		return 0;
	fgt_channel_close(&registrar.channel);
	registrar.retry_ns = 0;
	if (reply)
		registrar.retry_ns = fgt_now() + pause_ns(r);
	/* The worker also delivers: it must not wait here all the time. */
	else if (r == -ETIMEDOUT && registrar.ring_fd >= 0)
		registrar.retry_ns = fgt_now() + HUNG_NS;
	explain(r, is_optional, &why);
	return r;
}

/* After a time-out too: a late reply would be taken for the next one's. */
static void disconnect(int error)
{
	struct fgt_why cause, why;

	if (error == -ETIMEDOUT)
		(void)fgt_why_set(&why, error,
				  "the agent did not answer within %u ms and "
				  "was disconnected: restart it, or raise "
				  "timeout_ms; it is tried once a second",
				  options->timeout_ms);
	else
		(void)fgt_why_set(
			&why, fgt_channel_explain(error, socket_name(), &cause),
			"%s; it is tried once a second", cause.text);
	fgt_channel_close(&registrar.channel);
	set_state(false, 0, why.text);
	log_line(why.text);
}

/* False: the last connection could be made. */
static bool explain_connect_error(char *ret_text, size_t len)
{
	int error = atomic_load_explicit(&registrar.connect_error,
					 memory_order_relaxed);

	if (!error || !fgt_registrar_is_registered())
		return false;
	snprintf(ret_text, len,
		 "no slices: the agent's socket is out of reach: %s (after "
		 "chroot(2), a change of user, a system call filter?): call "
		 "fgt_stop(), then fgt_start() where it can be reached",
		 strerror(-error));
	return true;
}

void fgt_registrar_refresh(void)
{
	char text[256];

	if (fgt_registrar_is_registered() &&
	    fgt_channel_is_dead(&registrar.channel))
		disconnect(-ECONNRESET);
	if (explain_connect_error(text, sizeof(text)))
		log_line(text);
	if (!fgt_registrar_is_registered() && fgt_now() >= registrar.retry_ns)
		(void)fgt_registrar_register(false);
}

int fgt_registrar_call(struct fgt_builder *request, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const uint8_t *bytes;
	size_t len;
	int r;

	if (!fgt_registrar_is_registered())
		return -ENOTCONN;
	r = fgt_builder_finish(request, &bytes, &len);
	if (r < 0)
		return r;
	r = fgt_channel_call(&registrar.channel, request,
			     fgt_registrar_deadline(), &reply, why);
	if (r < 0 && (!reply || r == -EBADMSG))
		disconnect(r);
	return r;
}

/* ---- The end ----------------------------------------------------------- */

/* Does not wait: an agent that does not read it sees the connection's end. */
static void send_bye(void)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;

	if (fgt_builder_new_request("bye", &request) == 0)
		(void)fgt_channel_send(&registrar.channel, request, NULL, 0, 0);
}

void fgt_registrar_end(void)
{
	if (fgt_registrar_is_registered())
		send_bye();
	fgt_channel_close(&registrar.channel);
}

void fgt_registrar_forked(void)
{
	/* With a copy open, the agent would not see the parent's end. */
	fgt_channel_close(&registrar.channel);
	pthread_mutex_init(&registrar.lock, NULL);
}

/* ---- Getters ------------------------------------------------------------ */

bool fgt_registrar_is_registered(void)
{
	return atomic_load_explicit(&registrar.is_registered,
				    memory_order_relaxed);
}

double fgt_registrar_hz(void)
{
	double hz;

	pthread_mutex_lock(&registrar.lock);
	hz = registrar.hz;
	pthread_mutex_unlock(&registrar.lock);
	return hz;
}

void fgt_registrar_get_limitation(char *ret_text, size_t len)
{
	if (explain_connect_error(ret_text, len))
		return;
	pthread_mutex_lock(&registrar.lock);
	snprintf(ret_text, len, "%s", registrar.limitation);
	pthread_mutex_unlock(&registrar.lock);
}
