/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the verb register: every value of it is checked here. Runs in the
 * daemon's loop.
 */
#include "agent/daemon/programs/registration_request.h"

#include <errno.h>
#include <string.h>

static int refuse(struct fgt_why *why, const char *text)
{
	return fgt_why_set(why, -EINVAL, "%s", text);
}

static int get_text(const struct fgt_message *request, const char *key,
		    char *to, size_t size, struct fgt_why *why)
{
	const char *text;
	int r = fgt_message_get_string(request, key, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || strlen(text) >= size)
		return fgt_why_set(why, -EINVAL,
				   "%s must be a string of at most %zu bytes",
				   key, size - 1);
	strcpy(to, text);
	return 0;
}

static int get_mode(struct fgt_registration *facts,
		    const struct fgt_message *request, struct fgt_why *why)
{
	const char *mode;

	if (fgt_message_get_string(request, "mode", &mode) < 0 ||
	    (strcmp(mode, "agent") != 0 && strcmp(mode, "embedded") != 0))
		return refuse(why, "mode must be agent or embedded");
	facts->is_embedded = strcmp(mode, "embedded") == 0;
	return 0;
}

/* The flags tell which descriptors came, in which order. */
static int take_fds(struct fgt_registration *facts,
		    struct fgt_control_client *client,
		    const struct fgt_message *request, struct fgt_why *why)
{
	bool has_spans = false, has_ring = false;

	if (fgt_message_get_bool(request, "spans", &has_spans) == -EINVAL ||
	    fgt_message_get_bool(request, "ring", &has_ring) == -EINVAL)
		return refuse(why, "spans and ring must be true or false");
	if (has_spans)
		facts->spans_fd = fgt_control_take_fd(client);
	if (has_ring)
		facts->ring_fd = fgt_control_take_fd(client);
	if ((has_spans && facts->spans_fd < 0) ||
	    (has_ring && facts->ring_fd < 0))
		return refuse(why, "spans and ring need a descriptor each: a "
				   "memfd sealed against shrinking");
	return 0;
}

int fgt_registration_read(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_message *request,
			  struct fgt_why *why)
{
	int r = get_mode(facts, request, why);

	if (r == 0)
		r = get_text(request, "destination", facts->destination,
			     sizeof(facts->destination), why);
	if (r == 0)
		r = get_text(request, "release", facts->release,
			     sizeof(facts->release), why);
	if (r == 0)
		r = get_text(request, "environment", facts->environment,
			     sizeof(facts->environment), why);
	return r < 0 ? r : take_fds(facts, client, request, why);
}
