/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between libmicrohttpd and the routes. Runs in the threads of connections; the
 * only file that includes microhttpd.h.
 */
#include "agent/http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/http/limits/connections.h"
#include "agent/http/routes.h"
#include "agent/http/upgrade.h"

#define IDLE_S		  30
#define CONNECTION_MEMORY ((size_t)16 << 10) /* of its header, too */
#define STACK_BYTES	  ((size_t)512 << 10)
#define BLOCK_BYTES	  ((size_t)32 << 10) /* of a stream */
#define EVENTS_S	  10 /* to take a block of events, 16 KiB at most */

struct fgt_web_server {
	struct MHD_Daemon *daemon;
	struct fgt_web_guard guard;
	struct fgt_web_site site;
	struct fgt_web_connections connections;
};

/* One request, from its first line on. */
struct request {
	bool is_too_long;
	bool has_headers; /* the first call is over */
	bool has_place; /* it counts among the slices under way */
	struct fgt_web_live *live; /* until it is completed */
	struct fgt_web_server *server;
	struct fgt_web_connection *place; /* NULL: there was none */
	char target[FGT_WEB_TARGET_MAX + 1];
};

/* ---- Answers ------------------------------------------------------------- */

/* Nothing is kept by browsers, shown in frames, or guessed (fault H12). */
static const char *const headers_of_all[][2] = {
	{ "Cache-Control", "no-store" },
	{ "Content-Security-Policy", "default-src 'none'; base-uri 'none'; "
				     "form-action 'none'; frame-ancestors "
				     "'none'" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Referrer-Policy", "no-referrer" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "X-Frame-Options", "DENY" },
};

static ssize_t read_stream(void *context, uint64_t at, char *bytes, size_t size)
{
	ssize_t n = fgt_web_stream_read(context, bytes, size);

	(void)at;
	/* With an error the connection breaks off: the client must not take
	 * what it has for all. */
	return n > 0 ? n
	       : n   ? MHD_CONTENT_READER_END_WITH_ERROR
		     : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *context)
{
	fgt_web_stream_close(context);
}

/* As websockets have it: a limit for each block, none while events are waited
 * for. */
static ssize_t read_live(void *context, uint64_t at, char *bytes, size_t size)
{
	struct request *request = context;
	struct fgt_web_connections *all = &request->server->connections;
	ssize_t n;

	(void)at;
	fgt_web_connections_limit(all, request->place, 0);
	n = fgt_web_live_read(request->live, bytes, size);
	fgt_web_connections_limit(all, request->place, EVENTS_S);
	return n > 0 ? n
	       : n   ? MHD_CONTENT_READER_END_WITH_ERROR
		     : MHD_CONTENT_READER_END_OF_STREAM;
}

static struct MHD_Response *new_response(struct request *request,
					 struct fgt_web_answer *answer)
{
	if (answer->stream)
		return MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream,
			FGT_TAKE(answer->stream), close_stream);
	if (request->live)
		return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN,
							 BLOCK_BYTES, read_live,
							 request, NULL);
	return MHD_create_response_from_buffer(answer->body.len_bytes,
					       answer->body.bytes,
					       MHD_RESPMEM_MUST_COPY);
}

static void add_headers(struct MHD_Response *response,
			const struct fgt_web_answer *answer)
{
	char text[160];

	for (size_t i = 0; i < sizeof(headers_of_all) / sizeof(*headers_of_all);
	     i++)
		MHD_add_response_header(response, headers_of_all[i][0],
					headers_of_all[i][1]);
	if (answer->websocket[0]) {
		MHD_add_response_header(response, "Upgrade", "websocket");
		MHD_add_response_header(response, "Sec-WebSocket-Accept",
					answer->websocket);
		return;
	}
	MHD_add_response_header(response, "Connection", "close");
	MHD_add_response_header(response, "Content-Type", answer->type);
	if (answer->file_name[0]) {
		snprintf(text, sizeof(text), "attachment; filename=\"%s\"",
			 answer->file_name);
		MHD_add_response_header(response, "Content-Disposition", text);
	}
	if (answer->is_gzip)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	if (answer->retry_after_s) {
		snprintf(text, sizeof(text), "%u", answer->retry_after_s);
		MHD_add_response_header(response, "Retry-After", text);
	}
	if (answer->status == 401)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (answer->status == 405)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
}

static void upgraded(void *context, struct MHD_Connection *connection,
		     void *state, const char *extra, size_t extra_len, int fd,
		     struct MHD_UpgradeResponseHandle *handle)
{
	(void)connection;
	(void)state;
	fgt_web_upgraded(context, fd, extra, extra_len);
	(void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection,
				   struct request *request,
				   struct fgt_web_answer *answer)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	request->live = FGT_TAKE(answer->live);
	if (request->live && answer->websocket[0]) {
		response = MHD_create_response_for_upgrade(upgraded,
							   request->live);
		answer->status = MHD_HTTP_SWITCHING_PROTOCOLS;
	} else {
		answer->websocket[0] = '\0';
		response = new_response(request, answer);
	}

	if (!response)
		return MHD_NO; /* without memory the connection is closed */
	add_headers(response, answer);
	result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

/* ---- Requests ------------------------------------------------------------ */

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result count_host(void *context, enum MHD_ValueKind kind,
				  const char *name, const char *value)
{
	(void)kind;
	(void)value;
	*(unsigned int *)context += strcasecmp(name, "Host") == 0;
	return MHD_YES;
}

/* The key of a request for a websocket of the one version that there is. */
static const char *websocket_key(struct MHD_Connection *connection)
{
	const char *upgrade = header(connection, "Upgrade");
	const char *version = header(connection, "Sec-WebSocket-Version");
	const char *key = header(connection, "Sec-WebSocket-Key");

	if (!upgrade || strcasecmp(upgrade, "websocket") != 0)
		return NULL;
	return version && strcmp(version, "13") == 0 && key ? key : "";
}

static bool takes_gzip(struct MHD_Connection *connection)
{
	const char *text = header(connection, "Accept-Encoding");

	return text && strstr(text, "gzip") && !strstr(text, "gzip;q=0");
}

/* What is not a status of 200 is in the answer. */
static const struct fgt_web_route *
choose(struct fgt_web_server *server, const struct fgt_web_headers *headers,
       struct request *request, struct fgt_web_call *call,
       struct fgt_web_query *query, struct fgt_web_answer *answer)
{
	const struct fgt_web_route *route = NULL;
	struct fgt_why why = { "" };
	int r;

	answer->status = fgt_web_guard_check(&server->guard, headers, &why);
	if (answer->status) {
		fgt_web_answer_text(answer, answer->status, why.text);
		return NULL;
	}
	answer->status = 200;
	r = request->is_too_long
		    ? fgt_why_set(&why, -E2BIG,
				  "the target is too long: "
				  "shorten it")
		    : fgt_web_query_parse(request->target, query, &why);
	if (r < 0) {
		fgt_web_answer_fail(answer, r, &why);
		return NULL;
	}
	route = fgt_web_route_find(query->path);
	call->is_known = fgt_web_guard_knows(&server->guard, headers,
					     fgt_web_query_get(query, "token"));
	if (call->is_known && server->guard.token[0] &&
	    fgt_web_query_get(query, "token"))
		call->token = server->guard.token;
	if (!route)
		fgt_web_answer_text(answer, 404,
				    "no such path: / has all there are");
	else if (route->kind != FGT_WEB_OPEN && !call->is_known)
		fgt_web_answer_text(answer, 401,
				    "no token, or a wrong one: 'fgtrace-agent "
				    "status' prints the address with it; send "
				    "it as ?token= or as Authorization: "
				    "Bearer");
	else if (route->kind >= FGT_WEB_SLICE && call->is_head)
		fgt_web_answer_text(answer, 405, "HEAD of a slice: use GET");
	return answer->status == 200 ? route : NULL;
}

static void run_route(struct fgt_web_server *server,
		      const struct fgt_web_route *route,
		      const struct fgt_web_call *call, struct request *request,
		      struct fgt_web_answer *answer)
{
	static const struct fgt_why busy = {
		"too many slices at once: try again in a second"
	};

	if (route->kind == FGT_WEB_SLICE) {
		request->has_place = true; /* given back when it is completed */
		if (atomic_fetch_add(&server->site.slices, 1) >=
		    FGT_WEB_SLICES_MAX) {
			fgt_web_answer_fail(answer, -EBUSY, &busy);
			return;
		}
	}
	route->answer(call, answer);
}

static void read_headers(struct MHD_Connection *connection, const char *method,
			 const char *version, struct fgt_web_headers *headers)
{
	*headers = (struct fgt_web_headers){
		.method = method,
		.version = version,
		.host = header(connection, "Host"),
		.origin = header(connection, "Origin"),
		.fetch_site = header(connection, "Sec-Fetch-Site"),
		.authorization = header(connection, "Authorization"),
		.transfer_encoding = header(connection, "Transfer-Encoding"),
		.content_length = header(connection, "Content-Length"),
	};
	MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host,
				  &headers->host_count);
}

static struct fgt_web_connection *place_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static int fd_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* The time that the answer took to be made does not count as silence: setting
 * the limit after there was none begins it again. */
static void restart_idle_time(struct MHD_Connection *connection)
{
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  0u);
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)IDLE_S);
}

static enum MHD_Result answer_request(struct fgt_web_server *server,
				      struct MHD_Connection *connection,
				      const struct fgt_web_headers *headers,
				      struct request *request)
{
	struct fgt_web_connection *place = place_of(connection);
	struct fgt_web_query query = { .count = 0 };
	struct fgt_web_call call = {
		.site = &server->site,
		.query = &query,
		.client_fd = fd_of(connection),
		.is_head = strcmp(headers->method, "HEAD") == 0,
		.takes_gzip = takes_gzip(connection),
		.websocket_key = websocket_key(connection),
	};
	const struct fgt_web_route *route;
	struct fgt_web_answer answer;
	enum MHD_Result result;

	request->server = server;
	request->place = place;
	fgt_web_answer_init(&answer);
	fgt_web_connections_limit(&server->connections, place, 0);
	route = choose(server, headers, request, &call, &query, &answer);
	if (route)
		run_route(server, route, &call, request, &answer);
	fgt_web_connections_limit(&server->connections, place,
				  answer.live ? 0 : FGT_WEB_ANSWER_S);
	restart_idle_time(connection);
	result = send_answer(connection, request, &answer);
	fgt_web_answer_done(&answer);
	return result;
}

/*
 * Called once when the header is complete, again for bodies, and once more
 * after that. What is not answered at first has no body.
 */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection,
			      const char *url, const char *method,
			      const char *version, const char *data,
			      size_t *data_size, void **state)
{
	struct fgt_web_headers headers;
	struct request *request = *state;
	struct fgt_why why;
	bool is_first;

	(void)url;
	(void)data;
	if (!request)
		return MHD_NO; /* no memory */
	is_first = !request->has_headers;
	request->has_headers = true;
	read_headers(connection, method, version, &headers);
	if (is_first &&
	    fgt_web_guard_check(&((struct fgt_web_server *)context)->guard,
				&headers, &why) == 0)
		return MHD_YES;
	*data_size = 0;
	return answer_request(context, connection, &headers, request);
}

/* The target as it came; the request's state from here on. */
static void *begin(void *context, const char *uri,
		   struct MHD_Connection *connection)
{
	struct request *request = calloc(1, sizeof(*request));
	size_t len = strnlen(uri, sizeof(request->target));

	(void)context;
	(void)connection;
	if (request && len < sizeof(request->target))
		memcpy(request->target, uri, len + 1);
	else if (request)
		request->is_too_long = true;
	return request;
}

static void complete(void *context, struct MHD_Connection *connection,
		     void **state, enum MHD_RequestTerminationCode code)
{
	struct fgt_web_server *server = context;
	struct request *request = FGT_TAKE(*state);

	(void)connection;
	(void)code;
	if (request && request->has_place)
		atomic_fetch_sub(&server->site.slices, 1);
	if (request && request->live &&
	    fgt_web_connections_is_late(&server->connections, request->place))
		fgt_web_live_note_slow(request->live);
	if (request)
		fgt_web_live_close(request->live);
	free(request);
}

static void notify(void *context, struct MHD_Connection *connection,
		   void **socket_context,
		   enum MHD_ConnectionNotificationCode code)
{
	struct fgt_web_server *server = context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*socket_context = fgt_web_connections_add(&server->connections,
							  fd_of(connection));
	else
		fgt_web_connections_drop(&server->connections,
					 FGT_TAKE(*socket_context));
}

/* ---- The server ---------------------------------------------------------- */

static struct MHD_Daemon *start(struct fgt_web_server *server, int listen_fd)
{
	return MHD_start_daemon(
		MHD_USE_THREAD_PER_CONNECTION |
			MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
			MHD_USE_ITC | MHD_ALLOW_UPGRADE,
		0, NULL, NULL, handle, server, MHD_OPTION_LISTEN_SOCKET,
		listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)FGT_WEB_CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
		MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
		begin, server, MHD_OPTION_NOTIFY_COMPLETED, complete, server,
		MHD_OPTION_NOTIFY_CONNECTION, notify, server, MHD_OPTION_END);
}

int fgt_web_server_new(const struct fgt_web_options *options,
		       struct fgt_web_server **ret_server)
{
	struct fgt_web_server *server = calloc(1, sizeof(*server));
	sigset_t all, before;

	if (!server)
		return -ENOMEM;
	server->guard = *options->guard;
	server->site.source = options->source;
	server->site.state_frames = options->state_frames;
	fgt_web_connections_init(&server->connections);
	/* Its threads get the mask of the one that starts them. The recorder of
	 * a program asks threads that run for their stacks by SIGURG. */
	sigfillset(&all);
	sigdelset(&all, SIGURG);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	server->daemon = start(server, options->listen_fd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!server->daemon) {
		free(server);
		return -EAGAIN;
	}
	*ret_server = server;
	return 0;
}

void fgt_web_server_tend(struct fgt_web_server *server)
{
	fgt_web_connections_tend(&server->connections);
}

void fgt_web_server_free(struct fgt_web_server *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->daemon);
	free(server);
}
