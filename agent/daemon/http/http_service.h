/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of its HTTP server: listens, makes the token, starts the
 * process that serves (agent/http/http_child.h), and starts it again when it
 * ends.
 *
 * That process asks for connections of the control protocol, which see what
 * the daemon's user sees. It may ask for status, targets and slices, nothing
 * else: it reads what comes from the network, and may be taken over.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_HTTP_HTTP_SERVICE_H
#define FGT_AGENT_DAEMON_HTTP_HTTP_SERVICE_H

#include "agent/config/config.h"
#include "agent/daemon/loop/loop.h"
#include "agent/daemon/socket/control.h"

struct fgt_web_service;

struct fgt_web_service_options {
	struct fgt_loop *loop;
	struct fgt_control *control;
	const struct fgt_config *config; /* its http.listen is set */
	const char *socket_path; /* the token's file is beside it by default */
	struct fgt_control_verb *verbs; /* a table of FGT_REQUEST_VERBS */
};

/* Errors of fgt_web_address_listen() and fgt_token_file_write(), -ENOMEM, with
 * why. A process that cannot be started is tried again later. */
int fgt_web_service_new(const struct fgt_web_service_options *options,
			struct fgt_web_service **ret_service,
			struct fgt_why *why);
/* Ends the process, and removes the token's file. */
void fgt_web_service_free(struct fgt_web_service *service);
FGT_DEFINE_AUTO(struct fgt_web_service *, fgt_web_service_free);

/* No new connections to the daemon: it leaves. service may be NULL. */
void fgt_web_service_leave(struct fgt_web_service *service);

/* "http_address", and where is_owner "http_url", which has the token, into a
 * reply. service may be NULL: there is no server. */
void fgt_web_service_put(const struct fgt_web_service *service, bool is_owner,
			 struct fgt_builder *reply);

#endif
