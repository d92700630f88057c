/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of paths, and those that answer with figures. Runs in the thread of
 * a connection.
 */
#include "agent/http/routes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/http/metrics.h"
#include "agent/http/slice_routes.h"
#include "agent/http/wish.h"

static int ask(const struct fgt_web_call *call, const char *verb,
	       struct fgt_message **ret_reply, struct fgt_why *why)
{
	const struct fgt_web_source *source = call->site->source;
	const struct fgt_web_defaults defaults = { .seconds = 1 };
	struct fgt_web_wish wish;
	int r = fgt_web_wish_read(call->query, 0, &defaults, &wish, why);

	if (r < 0)
		return r;
	if (!source->ask)
		return fgt_why_set(why, -ESRCH,
				   "this path needs an agent: ask the HTTP "
				   "address of fgtrace-agent");
	return source->ask(source->context, verb, ret_reply, why);
}

static void answer_json(const struct fgt_web_call *call, const char *verb,
			struct fgt_web_answer *answer)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_why why = { "" };
	int r = ask(call, verb, &reply, &why);

	if (r == 0)
		r = fgt_message_to_json(reply, &answer->body.sink);
	if (r == 0)
		r = fgt_sink_write(&answer->body.sink, "\n", 1);
	answer->type = FGT_WEB_JSON;
	if (r < 0)
		fgt_web_answer_fail(answer, r, &why);
}

static void answer_status(const struct fgt_web_call *call,
			  struct fgt_web_answer *answer)
{
	answer_json(call, "status", answer);
}

static void answer_targets(const struct fgt_web_call *call,
			   struct fgt_web_answer *answer)
{
	answer_json(call, "targets", answer);
}

/* Of this process: the agent does not know them. */
static int write_live(struct fgt_web_site *site, const struct fgt_sink *sink)
{
	struct fgt_web_live_counters *live = &site->live;
	char text[800];
	int len = snprintf(
		text, sizeof(text),
		"# HELP fgtrace_http_streams Streams of events under way.\n"
		"# TYPE fgtrace_http_streams gauge\n"
		"fgtrace_http_streams %u\n"
		"# HELP fgtrace_http_streams_ended_total Streams, by the "
		"reason of their end.\n"
		"# TYPE fgtrace_http_streams_ended_total counter\n"
		"fgtrace_http_streams_ended_total{reason=\"target\"} %llu\n"
		"fgtrace_http_streams_ended_total{reason=\"client\"} %llu\n"
		"fgtrace_http_streams_ended_total{reason=\"slow\"} %llu\n"
		"fgtrace_http_streams_ended_total{reason=\"failed\"} %llu\n"
		"fgtrace_http_streams_ended_total{reason=\"refused\"} %llu\n",
		atomic_load(&live->active), atomic_load(&live->ended),
		atomic_load(&live->gone), atomic_load(&live->slow),
		atomic_load(&live->failed), atomic_load(&live->refused));

	return fgt_sink_write(sink, text, (size_t)len);
}

static void answer_metrics(const struct fgt_web_call *call,
			   struct fgt_web_answer *answer)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_why why = { "" };
	int r = ask(call, "status", &reply, &why);

	if (r == 0)
		r = fgt_metrics_write(reply, &answer->body.sink);
	if (r == 0)
		r = write_live(call->site, &answer->body.sink);
	answer->type = FGT_METRICS_TYPE;
	if (r < 0)
		fgt_web_answer_fail(answer, r, &why);
}

static void answer_healthy(const struct fgt_web_call *call,
			   struct fgt_web_answer *answer)
{
	(void)call;
	fgt_web_answer_text(answer, 200, "healthy");
}

/* The agent answers: a slice could be cut now. */
static void answer_ready(const struct fgt_web_call *call,
			 struct fgt_web_answer *answer)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_why why = { "" };
	int r = call->site->source->ask ? ask(call, "targets", &reply, &why)
					: 0;

	if (r < 0)
		fgt_web_answer_fail(answer, r, &why);
	else
		fgt_web_answer_text(answer, 200, "ready");
}

static void answer_page(const struct fgt_web_call *call,
			struct fgt_web_answer *answer);

static const struct fgt_web_route routes[] = {
	{ "/", FGT_WEB_OPEN, answer_page, NULL },
	{ "/debug/fgtrace", FGT_WEB_SLICE, fgt_web_answer_trace,
	  "Chrome trace of the past 30 s" },
	{ "/debug/fgprof", FGT_WEB_SLICE, fgt_web_answer_profile,
	  "wall-clock profile of the past 30 s, for pprof" },
	{ "/debug/pprof/profile", FGT_WEB_SLICE, fgt_web_answer_profile,
	  "the same, where pprof and scrapers look for it" },
	{ "/api/v1/slice", FGT_WEB_SLICE, fgt_web_answer_slice,
	  "slice, any range and format" },
	{ "/api/v1/targets", FGT_WEB_FIGURES, answer_targets, "targets" },
	{ "/api/v1/threads", FGT_WEB_SLICE, fgt_web_answer_threads,
	  "threads of a target, the last second" },
	{ "/api/v1/live", FGT_WEB_LIVE, fgt_web_answer_live,
	  "what a target does, as it happens" },
	{ "/api/v1/status", FGT_WEB_FIGURES, answer_status,
	  "status of the agent" },
	{ "/metrics", FGT_WEB_FIGURES, answer_metrics,
	  "metrics for Prometheus" },
	{ "/-/healthy", FGT_WEB_OPEN, answer_healthy, "liveness" },
	{ "/-/ready", FGT_WEB_OPEN, answer_ready, "readiness" },
};

#define COUNT (sizeof(routes) / sizeof(*routes))

static void put_text(struct fgt_sink_buffer *page, const char *text)
{
	fgt_sink_buffer_put(page, text, strlen(text));
}

/* The server's own token is hex digits: it needs no escape. */
static void put_link(struct fgt_sink_buffer *page,
		     const struct fgt_web_route *route, const char *token)
{
	put_text(page, "<li><a href=\"");
	put_text(page, route->path);
	if (token) {
		put_text(page, "?token=");
		put_text(page, token);
	}
	put_text(page, "\">");
	put_text(page, route->path);
	put_text(page, "</a> ");
	put_text(page, route->what);
	put_text(page, "</li>\n");
}

/* Plain links, no script. */
static void answer_page(const struct fgt_web_call *call,
			struct fgt_web_answer *answer)
{
	static const char head[] = "<!doctype html>\n<html lang=\"en\"><head>"
				   "<meta charset=\"utf-8\"><title>fgtrace"
				   "</title></head><body><h1>fgtrace</h1>\n";
	static const char hint[] = "<p>These paths need a token: "
				   "<code>fgtrace-agent status</code> prints "
				   "the address with it.</p>\n";
	struct fgt_sink_buffer page;

	fgt_sink_buffer_init(&page, &answer->body.sink);
	put_text(&page, head);
	if (!call->is_known)
		put_text(&page, hint);
	put_text(&page, "<ul>\n");
	for (size_t i = 0; i < COUNT; i++)
		if (routes[i].what)
			put_link(&page, &routes[i], call->token);
	put_text(&page, "</ul></body></html>\n");
	answer->type = "text/html; charset=utf-8";
	if (fgt_sink_buffer_flush(&page) < 0)
		fgt_web_answer_text(answer, 503, FGT_NO_MEMORY);
}

const struct fgt_web_route *fgt_web_route_find(const char *path)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(routes[i].path, path) == 0)
			return &routes[i];
	return NULL;
}
