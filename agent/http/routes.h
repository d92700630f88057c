/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths that the server has, and what each answers. A path is compared
 * whole, byte by byte: no file is ever looked up by it.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_ROUTES_H
#define FGT_AGENT_HTTP_ROUTES_H

#include <stdatomic.h>

#include "agent/http/answer.h"
#include "agent/http/query.h"
#include "agent/http/source.h"
#include "upload/format/parts/options.h"

#define FGT_WEB_SLICES_MAX 4 /* at once; more are sent away */

/* What all requests share. */
struct fgt_web_site {
	const struct fgt_web_source *source;
	enum fgt_state_frames state_frames; /* of the configuration */
	atomic_uint slices; /* under way */
	struct fgt_web_live_counters live;
};

/* One request. */
struct fgt_web_call {
	struct fgt_web_site *site;
	const struct fgt_web_query *query;
	int client_fd;
	bool is_head; /* no body is sent */
	bool takes_gzip;
	bool is_known; /* has the token, or needs none */
	const char *token; /* the server's, for links; NULL: they have none */
	const char *websocket_key; /* it asks for one; else NULL */
};

enum fgt_web_kind {
	FGT_WEB_FIGURES,
	FGT_WEB_OPEN, /* without token */
	FGT_WEB_SLICE, /* not for HEAD; counts among those under way */
	FGT_WEB_LIVE, /* not for HEAD; has no end */
};

struct fgt_web_route {
	const char *path;
	enum fgt_web_kind kind;
	void (*answer)(const struct fgt_web_call *call,
		       struct fgt_web_answer *answer);
	const char *what; /* for the page of links; NULL: not there */
};

/* NULL: there is none of that path. */
const struct fgt_web_route *fgt_web_route_find(const char *path);

#endif
