/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the HTTP process alive and hands it connections. Runs in the daemon's
 * loop; must not wait for the process, nor believe what it sends.
 */
#include "agent/daemon/http/http_service.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/children/self_child.h"
#include "agent/daemon/http/token_file.h"
#include "agent/daemon/loop/log.h"
#include "agent/http/address.h"
#include "agent/http/http_child.h"
#include "ringbuf/base/fd_message.h"

#define MS	     UINT64_C(1000000)
#define PAUSE_MS     100 /* before it is started again, then twice as long */
#define PAUSE_MAX_MS 60000
#define STEADY_MS    60000 /* it lived so long: pauses are short again */
#define TOKEN_FILE   "http-token"
#define LOOK_MS	     1000 /* at a killed one that has not gone */

struct fgt_web_service {
	struct fgt_loop *loop;
	struct fgt_control *control;
	struct fgt_control_verb *verbs;
	struct fgt_web_setup setup;
	char address[FGT_WEB_ADDRESS_TEXT];
	char token_path[PATH_MAX]; /* "": no file */
	int listen_fd;
	int pid_fd; /* -1: none */
	struct fgt_watch socket; /* to it; its fd is -1: none */
	struct fgt_timer timer; /* of the next start */
	uint64_t started_ns;
	unsigned int failures; /* since it lived for long */
	uint64_t restarts;
};

static void start(struct fgt_web_service *service);

/* ---- Its life ------------------------------------------------------------ */

static void start_later(struct fgt_web_service *service, const char *what)
{
	unsigned int shift = service->failures < 10 ? service->failures : 10;
	uint64_t pause_ms = (uint64_t)PAUSE_MS << shift;

	if (pause_ms > PAUSE_MAX_MS)
		pause_ms = PAUSE_MAX_MS;
	service->failures++;
	service->restarts++;
	fgt_log(FGT_LOG_WARNING, "http_failed",
		"the process that serves HTTP %s: it is started again in %llu "
		"ms",
		what, (unsigned long long)pause_ms);
	fgt_loop_arm(service->loop, &service->timer,
		     fgt_loop_now() + pause_ms * MS);
}

static void end(struct fgt_web_service *service)
{
	fgt_loop_disarm(service->loop, &service->timer);
	fgt_loop_unwatch(service->loop, &service->socket);
	fgt_fd_close(FGT_TAKE_FD(service->socket.fd));
	fgt_self_child_kill(service->pid_fd);
}

static void fail(struct fgt_web_service *service, const char *what)
{
	end(service);
	if (fgt_loop_now() - service->started_ns > STEADY_MS * MS)
		service->failures = 0;
	start_later(service, what);
}

static void expired(void *context)
{
	struct fgt_web_service *service = context;

	if (!fgt_self_child_reap(service->pid_fd)) {
		fgt_loop_arm(service->loop, &service->timer,
			     fgt_loop_now() + LOOK_MS * MS);
		return;
	}
	service->pid_fd = -1;
	start(service);
}

static int send_setup(const struct fgt_web_service *service)
{
	const struct iovec part = { (void *)(uintptr_t)&service->setup,
				    sizeof(service->setup) };
	ssize_t n = fgt_fd_message_send(service->socket.fd, &part, 1,
					&service->listen_fd, 1, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

static void start(struct fgt_web_service *service)
{
	static const struct fgt_self_child child = {
		.name = FGT_WEB_CHILD_NAME,
		.verb = FGT_WEB_CHILD_VERB,
		.socket_type = SOCK_SEQPACKET,
	};

	service->started_ns = fgt_loop_now();
	if (fgt_self_child_start(&child, &service->socket.fd,
				 &service->pid_fd) < 0) {
		service->socket.fd = service->pid_fd = -1;
		start_later(service, "cannot be started (raise TasksMax=, "
				     "ulimit -u or LimitNOFILE=)");
		return;
	}
	if (send_setup(service) < 0 ||
	    fgt_loop_watch(service->loop, &service->socket, EPOLLIN) < 0)
		fail(service, "takes no setup");
}

/* ---- Its connections ----------------------------------------------------- */

static void handle(void *context, struct fgt_control_client *client,
		   const struct fgt_request *request)
{
	struct fgt_web_service *service = context;

	if (request->verb == FGT_REQUEST_STATUS ||
	    request->verb == FGT_REQUEST_TARGETS ||
	    request->verb == FGT_REQUEST_SLICE)
		fgt_control_dispatch(service->verbs, client, request);
	else
		fgt_control_fail(client, -EPERM,
				 "the HTTP server may ask for status, targets "
				 "and slices: use the control socket");
}

/* It gets one end, the control has the other. Without a descriptor in the
 * answer there is none: it must not wait for one. */
static void hand_over(struct fgt_web_service *service)
{
	char byte = 0;
	const struct iovec part = { &byte, 1 };
	int pair[2] = { -1, -1 };
	bool is_made =
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
	ssize_t n = fgt_fd_message_send(service->socket.fd, &part, 1, &pair[1],
					is_made, MSG_DONTWAIT);

	fgt_fd_close(pair[1]);
	if (is_made && n == 1)
		fgt_control_adopt(service->control, pair[0], FGT_FRONT_HTTP,
				  handle, service);
	else
		fgt_fd_close(pair[0]);
}

static void hear(void *context, uint32_t events)
{
	struct fgt_web_service *service = context;
	char byte;
	ssize_t n = recv(service->socket.fd, &byte, 1, MSG_DONTWAIT);

	(void)events;
	if (n == 1)
		hand_over(service);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		fgt_self_child_lose(service->socket.fd, service->pid_fd);
		fail(service, "has ended");
	}
}

/* ---- Beginning and end --------------------------------------------------- */

static int listen_on(struct fgt_web_service *service,
		     const struct fgt_config *config, struct fgt_why *why)
{
	struct fgt_web_guard *guard = &service->setup.guard;
	struct fgt_web_address address, bound;
	int r = fgt_web_address_parse(config->http.listen, &address, why);

	if (r == 0)
		r = fgt_web_address_listen(&address, &service->listen_fd,
					   &bound, why);
	if (r < 0)
		return r;
	fgt_web_address_write(&bound, service->address);
	guard->port = fgt_web_address_port(&bound);
	guard->is_remote = !bound.is_loopback;
	for (size_t i = 0; i < config->http.name_count; i++)
		snprintf(guard->names[i], sizeof(guard->names[i]), "%s",
			 config->http.names[i]);
	guard->name_count = (uint8_t)config->http.name_count;
	return 0;
}

/* In the folder of the socket, unless the configuration names a file. */
static int make_token(struct fgt_web_service *service,
		      const struct fgt_web_service_options *options,
		      struct fgt_why *why)
{
	const char *file = options->config->http.token_file;
	const char *slash = strrchr(options->socket_path, '/');
	char *token = service->setup.guard.token;
	int r;

	if (options->config->http.token == FGT_WEB_TOKEN_OFF)
		return 0;
	r = fgt_token_new(token);
	if (r < 0)
		return fgt_why_set(why, r,
				   "the kernel gives no random bits: "
				   "start the agent again");
	if (file)
		snprintf(service->token_path, sizeof(service->token_path), "%s",
			 file);
	else
		snprintf(service->token_path, sizeof(service->token_path),
			 "%.*s" TOKEN_FILE,
			 slash ? (int)(slash - options->socket_path) + 1 : 0,
			 options->socket_path);
	r = fgt_token_file_write(service->token_path, token, why);
	if (r < 0)
		service->token_path[0] = '\0';
	return r;
}

static void log_start(const struct fgt_web_service *service)
{
	const struct fgt_web_guard *guard = &service->setup.guard;

	fgt_log(guard->is_remote || !guard->token[0] ? FGT_LOG_WARNING
						     : FGT_LOG_INFO,
		"http", "serves HTTP on %s%s%s%s", service->address,
		guard->token[0] ? ", token in " : "",
		guard->token[0] ? service->token_path
				: ", without token: every user of this "
				  "machine sees the stacks of all targets",
		guard->is_remote ? "; it is no loopback address, and what it "
				   "sends is not encrypted"
				 : "");
}

int fgt_web_service_new(const struct fgt_web_service_options *options,
			struct fgt_web_service **ret_service,
			struct fgt_why *why)
{
	FGT_AUTO(fgt_web_service_free)
	struct fgt_web_service *service = calloc(1, sizeof(*service));
	int r;

	if (!service)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	service->loop = options->loop;
	service->control = options->control;
	service->verbs = options->verbs;
	service->setup.state_frames =
		(uint32_t)options->config->sampling.state_frames;
	service->listen_fd = service->pid_fd = -1;
	service->socket = (struct fgt_watch){ .fd = -1,
					      .ready = hear,
					      .context = service };
	service->timer =
		(struct fgt_timer){ .expired = expired, .context = service };
	r = listen_on(service, options->config, why);
	if (r == 0)
		r = make_token(service, options, why);
	if (r < 0)
		return r;
	log_start(service);
	start(service);
	*ret_service = FGT_TAKE(service);
	return 0;
}

void fgt_web_service_leave(struct fgt_web_service *service)
{
	if (!service)
		return;
	fgt_loop_disarm(service->loop, &service->timer);
	fgt_loop_unwatch(service->loop, &service->socket);
}

void fgt_web_service_free(struct fgt_web_service *service)
{
	if (!service)
		return;
	end(service);
	fgt_self_child_end(service->pid_fd);
	fgt_fd_close(service->listen_fd);
	if (service->token_path[0])
		(void)unlink(service->token_path);
	explicit_bzero(&service->setup, sizeof(service->setup));
	free(service);
}

void fgt_web_service_put(const struct fgt_web_service *service, bool is_owner,
			 struct fgt_builder *reply)
{
	char url[FGT_WEB_ADDRESS_TEXT + FGT_WEB_TOKEN_LEN + 32];
	const char *token;

	if (!service)
		return;
	token = service->setup.guard.token;
	fgt_builder_string(reply, "http_address", service->address);
	fgt_builder_uint(reply, "http_restarts", service->restarts);
	if (!is_owner)
		return;
	snprintf(url, sizeof(url), "http://%s/%s%s", service->address,
		 token[0] ? "?token=" : "", token);
	fgt_builder_string(reply, "http_url", url);
	explicit_bzero(url, sizeof(url));
}
