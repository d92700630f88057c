/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server PORT [auto|agent|embedded|off]: slow and failed requests upload
 * what every thread did meanwhile, to $FGTRACE_DESTINATION.
 *
 *	cc http_server.c $(pkg-config --cflags --libs fgtrace libmicrohttpd) \
 *		-o http_server
 *
 * /ping answers at once, /page computes a little, /report ten times as much,
 * /slow?ms=300 waits as for a database, /error fails. Port 0: any free one.
 * SIGTERM or SIGINT ends it.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <fgtrace.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS	    4
#define SLOW_NS	    200000000 /* slower requests are uploaded */
#define PAGE_ROUNDS 60000

/* ---- The work of the server --------------------------------------- */

static unsigned long render(unsigned int pages)
{
	unsigned long hash = 5381;

	for (unsigned int i = 0; i < pages * PAGE_ROUNDS; i++)
		hash = hash * 33 + i;
	return hash;
}

static void query_database(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left))
		;
}

static long wanted_ms(struct MHD_Connection *connection)
{
	const char *ms = MHD_lookup_connection_value(
		connection, MHD_GET_ARGUMENT_KIND, "ms");
	long value = ms ? strtol(ms, NULL, 10) : 300;

	return value < 0 ? 0 : value > 10000 ? 10000 : value;
}

/* A span around each part: they nest below the request's task. */
static unsigned int work(struct MHD_Connection *connection, const char *url,
			 char *body, size_t size)
{
	unsigned long hash = 0;

	if (strcmp(url, "/slow") == 0) {
		fgt_span_begin("query", 0, NULL);
		query_database(wanted_ms(connection));
		fgt_span_end(0);
	}
	if (strcmp(url, "/ping") != 0) {
		fgt_span_begin("render", 0, NULL);
		hash = render(strcmp(url, "/report") == 0 ? 10 : 1);
		fgt_span_end(0);
	}
	snprintf(body, size, "%s %lx\n", url, hash);
	if (strcmp(url, "/error") == 0)
		return MHD_HTTP_INTERNAL_SERVER_ERROR;
	return MHD_HTTP_OK;
}

static enum MHD_Result send_body(struct MHD_Connection *connection,
				 unsigned int status, char *body)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		strlen(body), body, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

/* ---- Recording ------------------------------------------------------ */

/* Continues the trace of the client, if it sent one. */
static void join_trace(struct MHD_Connection *connection,
		       struct fgt_transaction *transaction)
{
	const char *parent = MHD_lookup_connection_value(
		connection, MHD_HEADER_KIND, "sentry-trace");

	if (!parent)
		parent = MHD_lookup_connection_value(
			connection, MHD_HEADER_KIND, "traceparent");
	if (parent)
		fgt_transaction_set_parent(transaction, parent);
}

static enum MHD_Result serve(struct MHD_Connection *connection, const char *url)
{
	struct fgt_transaction *transaction;
	enum MHD_Result result;
	char name[128], body[160];
	unsigned int status;
	uint64_t task = 0;

	snprintf(name, sizeof(name), "GET %s", url);
	transaction = fgt_transaction_begin(name, "http.server");
	join_trace(connection, transaction);
	fgt_task_begin("request", 0, &task);
	status = work(connection, url, body, sizeof(body));
	result = send_body(connection, status, body);
	fgt_task_end(task);
	fgt_transaction_set_status(transaction,
				   status < 500 ? "ok" : "internal_error");
	fgt_transaction_finish(transaction);
	return result;
}

/* Called first with the head of a request only, then to answer it. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection,
			      const char *url, const char *method,
			      const char *version, const char *data,
			      size_t *data_len, void **state)
{
	static int has_head;

	(void)context;
	(void)version;
	(void)data;
	if (strcmp(method, "GET") != 0)
		return MHD_NO;
	if (!*state) {
		*state = &has_head;
		return MHD_YES;
	}
	*data_len = 0;
	return serve(connection, url);
}

static void print_line(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "fgtrace: %s\n", line);
}

/* Without recording the server works as usual. */
static void start_recording(const char *mode)
{
	struct fgt_options options;
	int r;

	if (strcmp(mode, "off") == 0)
		return;
	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.mode = strcmp(mode, "agent") == 0      ? FGT_AGENT
		       : strcmp(mode, "embedded") == 0 ? FGT_EMBEDDED
						       : FGT_AUTO;
	options.release = "http_server@1.0";
	options.min_duration_ns = SLOW_NS;
	options.keep_errors = 1;
	options.log = print_line;
	r = fgt_start(&options);
	if (r < 0)
		fprintf(stderr, "not recorded: %s\n", strerror(-r));
}

/* ---- The program -------------------------------------------------------- */

static struct MHD_Daemon *listen_on(unsigned short port)
{
	struct sockaddr_in address;

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return MHD_start_daemon(
		MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD |
			MHD_USE_ERROR_LOG,
		port, NULL, NULL, answer, NULL, MHD_OPTION_SOCK_ADDR,
		(struct sockaddr *)&address, MHD_OPTION_THREAD_POOL_SIZE,
		THREADS, MHD_OPTION_END);
}

static void wait_for_the_end(void)
{
	sigset_t ends;
	int number;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigwait(&ends, &number);
}

static void report(void)
{
	struct fgt_status status;

	status.size = sizeof(status);
	if (fgt_get_status(&status) == 0)
		printf("%llu transactions, %llu kept, %llu delivered\n",
		       (unsigned long long)status.transactions,
		       (unsigned long long)status.kept,
		       (unsigned long long)status.delivered);
}

int main(int argc, char **argv)
{
	struct MHD_Daemon *daemon;
	sigset_t blocked;

	if (argc < 2) {
		fprintf(stderr, "usage: http_server PORT "
				"[auto|agent|embedded|off]\n");
		return 2;
	}
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	start_recording(argc > 2 ? argv[2] : "auto");
	daemon = listen_on((unsigned short)strtoul(argv[1], NULL, 10));
	if (!daemon) {
		fprintf(stderr, "cannot listen on port %s\n", argv[1]);
		return 1;
	}
	printf("ready %u\n",
	       MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	fflush(stdout);
	wait_for_the_end();
	MHD_stop_daemon(daemon);
	fgt_flush(5000);
	report();
	fgt_stop();
	return 0;
}
