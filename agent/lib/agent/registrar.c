/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers with the agent. Runs in fgt_start() on the program's thread, then
 * on the worker only, so that its connection needs no lock.
 */
#include "agent/lib/agent/registrar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS_NS	  UINT64_C(1000000)
#define SECOND_NS UINT64_C(1000000000)
/* Until it is asked again: where it has no room, and where it does not want. */
#define FULL_NS	   (3 * SECOND_NS)
#define REFUSED_NS (10 * SECOND_NS)
#define HUNG_NS	   (30 * SECOND_NS)

static uint64_t deadline(const struct fgt_registrar *registrar)
{
	return fgt_now() + registrar->options.options->timeout_ms * MS_NS;
}

static void tell(const struct fgt_registrar *registrar, const char *line)
{
	registrar->options.log(registrar->options.context, line);
}

void fgt_registrar_init(struct fgt_registrar *registrar,
			const struct fgt_backend_options *options, int ring_fd)
{
	memset(registrar, 0, sizeof(*registrar));
	registrar->options = *options;
	registrar->ring_fd = ring_fd;
	(void)fgt_file_id_get(ring_fd, &registrar->ring);
	registrar->channel.fd = -1;
	atomic_init(&registrar->is_registered, false);
	atomic_init(&registrar->way, 0);
	pthread_mutex_init(&registrar->lock, NULL);
}

static void set_state(struct fgt_registrar *registrar, bool is_registered,
		      double hz, const char *limitation)
{
	pthread_mutex_lock(&registrar->lock);
	registrar->hz = hz;
	snprintf(registrar->limitation, sizeof(registrar->limitation), "%s",
		 limitation);
	pthread_mutex_unlock(&registrar->lock);
	atomic_store_explicit(&registrar->is_registered, is_registered,
			      memory_order_relaxed);
}

/* ---- Registering ------------------------------------------------------- */

static void write_request(const struct fgt_registrar *registrar, int spans_fd,
			  struct fgt_wire *request)
{
	const struct fgt_options *options = registrar->options.options;

	fgt_wire_init(request, "register");
	fgt_wire_text(request, "mode",
		      registrar->ring_fd < 0 ? "agent" : "embedded");
	fgt_wire_text(request, "destination", options->destination);
	fgt_wire_text(request, "release", options->release);
	fgt_wire_text(request, "environment", options->environment);
	fgt_wire_bool(request, "spans", spans_fd >= 0);
	fgt_wire_bool(request, "ring", registrar->ring_fd >= 0);
}

static int ask(struct fgt_registrar *registrar, uint64_t deadline_ns,
	       struct fgt_answer *ret_answer)
{
	int spans_fd = registrar->options.get_spans_fd();
	int fds[FGT_CHANNEL_FDS_MAX];
	unsigned int fd_count = 0;
	struct fgt_wire request;
	int r;

	if (spans_fd >= 0)
		fds[fd_count++] = spans_fd;
	if (registrar->ring_fd >= 0)
		fds[fd_count++] = registrar->ring_fd;
	write_request(registrar, spans_fd, &request);
	r = fgt_agent_call(&registrar->channel, &request, fds, fd_count,
			   deadline_ns, ret_answer);
	fgt_wire_done(&request);
	return r;
}

/* Keeps cause and remedy for fgt_get_status() and the program's log. */
static void explain(struct fgt_registrar *registrar, int error, const char *why)
{
	const char *socket = registrar->options.options->socket;
	bool is_absent = !why[0] &&
			 (error == -ENOENT || error == -ECONNREFUSED);
	char text[256];

	if (!socket)
		socket = "its usual socket";
	if (why[0])
		snprintf(text, sizeof(text), "the agent refuses: %.*s",
			 (int)sizeof(text) - 20, why);
	else if (is_absent)
		snprintf(text, sizeof(text),
			 "no agent listens on %s: start one with "
			 "'fgtrace-agent daemon', or name its socket",
			 socket);
	else if (error == -ETIMEDOUT)
		snprintf(text, sizeof(text),
			 "the agent on %s does not answer within %u ms: it is "
			 "stopped, hung or overloaded; start it anew",
			 socket, registrar->options.options->timeout_ms);
	else if (error == -EACCES || error == -EPERM)
		snprintf(text, sizeof(text),
			 "not permitted to use the agent on %s: run it as this "
			 "user or as root",
			 socket);
	else
		snprintf(text, sizeof(text), "the agent on %s: %s", socket,
			 strerror(-error));
	set_state(registrar, false, 0, text);
	if (!is_absent || !registrar->is_optional)
		tell(registrar, text);
}

/* How long to leave alone an agent that has answered with an error. */
static uint64_t patience_ns(int error)
{
	if (error == -EBUSY) /* the next refresh will do */
		return 0;
	return error == -EUSERS || error == -ENOSPC ? FULL_NS : REFUSED_NS;
}

/* The program has closed it, or there is none. */
static bool is_ring_lost(const struct fgt_registrar *registrar)
{
	return registrar->ring_fd >= 0 &&
	       !fgt_file_id_is(&registrar->ring, registrar->ring_fd);
}

int fgt_registrar_register(struct fgt_registrar *registrar)
{
	uint64_t deadline_ns = deadline(registrar);
	struct fgt_answer answer = { 0 };
	int r;

	/* Nothing is left that an agent could keep. */
	if (is_ring_lost(registrar)) {
		registrar->retry_ns = UINT64_MAX;
		return -EBADF;
	}
	r = fgt_agent_connect(registrar->options.options, deadline_ns,
			      &registrar->channel);
	if (r == 0)
		r = ask(registrar, deadline_ns, &answer);
	if (r == 0) {
		fgt_registrar_set_way(registrar, 0);
		set_state(registrar, true, answer.hz, answer.limitation);
		return 0;
	}
	fgt_channel_close(&registrar->channel);
	registrar->retry_ns = 0;
	if (answer.has_ok)
		registrar->retry_ns = fgt_now() + patience_ns(r);
	/* The worker, which delivers by itself, shall not wait all the time. */
	else if (r == -ETIMEDOUT && registrar->ring_fd >= 0)
		registrar->retry_ns = fgt_now() + HUNG_NS;
	explain(registrar, r, answer.why);
	return r;
}

/* Who is late is not waited for again: its answer would be taken for that of
 * the next request. */
static void lose(struct fgt_registrar *registrar, int error)
{
	char text[256];

	if (error == -ETIMEDOUT)
		snprintf(text, sizeof(text),
			 "the agent did not answer within %u ms, so the "
			 "connection was closed (is it stopped, hung or "
			 "overloaded?): it is looked for once a second; start "
			 "it anew, or give it more with timeout_ms",
			 registrar->options.options->timeout_ms);
	else if (error == -EBADMSG)
		snprintf(text, sizeof(text),
			 "the agent's answer made no sense, so the connection "
			 "was closed: it is looked for once a second; use an "
			 "agent of this version");
	else if (error == -ECONNRESET || error == -EPIPE)
		snprintf(text, sizeof(text),
			 "the agent has closed the connection: it is looked "
			 "for once a second");
	else
		snprintf(text, sizeof(text),
			 "the connection to the agent was closed: %s: it is "
			 "looked for once a second",
			 strerror(-error));
	fgt_channel_close(&registrar->channel);
	set_state(registrar, false, 0, text);
	tell(registrar, text);
}

/* False: nothing is in the way, as far as is known. */
static bool explain_way(struct fgt_registrar *registrar, char *ret_text,
			size_t len)
{
	int way = atomic_load_explicit(&registrar->way, memory_order_relaxed);

	if (!way || !fgt_registrar_is_registered(registrar))
		return false;
	snprintf(ret_text, len,
		 "slices cannot be fetched, the agent's socket is out of "
		 "reach: %s (by chroot(2), a change of user, a filter of "
		 "system calls?): call fgt_stop() and fgt_start() again where "
		 "it can be reached",
		 strerror(-way));
	return true;
}

void fgt_registrar_refresh(struct fgt_registrar *registrar)
{
	char text[256];

	if (fgt_registrar_is_registered(registrar) &&
	    fgt_channel_is_dead(&registrar->channel))
		lose(registrar, -ECONNRESET);
	if (explain_way(registrar, text, sizeof(text)))
		tell(registrar, text);
	if (!fgt_registrar_is_registered(registrar) &&
	    fgt_now() >= registrar->retry_ns)
		(void)fgt_registrar_register(registrar);
}

int fgt_registrar_call(struct fgt_registrar *registrar,
		       struct fgt_wire *request, struct fgt_answer *ret_answer)
{
	int r;

	memset(ret_answer, 0, sizeof(*ret_answer));
	if (!fgt_registrar_is_registered(registrar))
		return -ENOTCONN;
	if (request->error) /* none of it has been sent */
		return request->error;
	r = fgt_agent_call(&registrar->channel, request, NULL, 0,
			   deadline(registrar), ret_answer);
	if (r < 0 && !ret_answer->has_ok)
		lose(registrar, r);
	return r;
}

/* ---- The end ----------------------------------------------------------- */

static void say_bye(struct fgt_registrar *registrar)
{
	struct fgt_wire request;
	const uint8_t *bytes;
	size_t len;

	fgt_wire_init(&request, "bye");
	/* Not waited for: whoever does not read it will see the end. */
	if (fgt_wire_finish(&request, &bytes, &len) == 0)
		(void)fgt_channel_send(&registrar->channel, bytes, len, NULL, 0,
				       0);
	fgt_wire_done(&request);
}

void fgt_registrar_done(struct fgt_registrar *registrar)
{
	if (fgt_registrar_is_registered(registrar))
		say_bye(registrar);
	fgt_channel_close(&registrar->channel);
	pthread_mutex_destroy(&registrar->lock);
}

void fgt_registrar_forked(struct fgt_registrar *registrar)
{
	/* As long as a copy is open, the agent would not see the parent die. */
	fgt_channel_close(&registrar->channel);
}

/* ---- For others -------------------------------------------------------- */

void fgt_registrar_set_way(struct fgt_registrar *registrar, int way)
{
	/* -ECONNREFUSED: it has ended, as the connection is about to tell. */
	bool is_blocked = way == -ENOENT || way == -ENOTDIR || way == -EACCES ||
			  way == -EPERM;

	atomic_store_explicit(&registrar->way, is_blocked ? way : 0,
			      memory_order_relaxed);
}

bool fgt_registrar_is_registered(const struct fgt_registrar *registrar)
{
	return atomic_load_explicit(&registrar->is_registered,
				    memory_order_relaxed);
}

double fgt_registrar_hz(struct fgt_registrar *registrar)
{
	double hz;

	pthread_mutex_lock(&registrar->lock);
	hz = registrar->hz;
	pthread_mutex_unlock(&registrar->lock);
	return hz;
}

void fgt_registrar_get_limitation(struct fgt_registrar *registrar,
				  char *ret_text, size_t len)
{
	if (explain_way(registrar, ret_text, len))
		return;
	pthread_mutex_lock(&registrar->lock);
	snprintf(ret_text, len, "%s", registrar->limitation);
	pthread_mutex_unlock(&registrar->lock);
}
