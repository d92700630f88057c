/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the version of a request and calls its verb. Runs in the daemon's
 * loop.
 */
#include "agent/daemon/request.h"

#include <errno.h>
#include <string.h>

#include "agent/protocol/protocol.h"

static int check_version(const struct fgt_message *request, struct fgt_why *why)
{
	int64_t version;

	if (fgt_message_get_int(request, "v", &version) < 0)
		return fgt_why_set(why, -EBADMSG,
				   "the request has no v (protocol version)");
	return fgt_protocol_check_versions(FGT_PROTOCOL_VERSION, version, why);
}

void fgt_request_handle(void *context, struct fgt_control_client *client,
			const struct fgt_message *request)
{
	const struct fgt_request_verb *verb = context;
	struct fgt_why why;
	const char *name;
	int r = check_version(request, &why);

	if (r == 0 && fgt_message_get_string(request, "verb", &name) < 0)
		r = fgt_why_set(&why, -EBADMSG, "the request has no verb");
	if (r < 0) {
		fgt_control_fail(client, r, why.text);
		return;
	}
	while (verb->name && strcmp(verb->name, name) != 0)
		verb++;
	if (verb->name) {
		verb->handle(verb->context, client, request);
		return;
	}
	r = fgt_why_set(&why, -EPROTONOSUPPORT,
			"the agent (%s) has no verb %.40s: use the same "
			"release",
			FGT_VERSION, name);
	fgt_control_fail(client, r, why.text);
}
