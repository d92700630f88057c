/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a destination: no crash, no secret in what is shown of it, and
 * the URL of an accepted one is accepted when its variables are filled in.
 * Any bytes as the head of a payload.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upload/deliver/destination.h"
#include "upload/deliver/url.h"
#include "upload/deliver/url_template.h"

static void check_url(const char *template)
{
	static const struct fgt_payload_head head = {
		.name = "../a b\n?#{pid}@h", .host = "h", .format = "chrome"
	};
	char url[2 * FGT_URL_MAX];
	struct fgt_url parts, plain;
	struct fgt_why why;

	if (fgt_url_template_expand(template, &head, url, FGT_URL_MAX, &why))
		return; /* too long now */
	if (fgt_url_parse(url, &parts, &why) || parts.has_userinfo)
		abort();
	/* No value moves the request to another host. */
	if (fgt_url_parse(template, &plain, &why) == 0 &&
	    strcmp(plain.host, parts.host) != 0)
		abort();
}

static void check_text(const char *text)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	char where[FGT_DESTINATION_WHERE_MAX];
	struct fgt_why why = { .text = "" };

	if (fgt_destination_parse(text, false, &destination, &why)) {
		if (!*why.text)
			abort();
		return;
	}
	fgt_destination_where(destination, where);
	if (destination->kind == FGT_DESTINATION_SENTRY ||
	    destination->kind == FGT_DESTINATION_DIRECTORY)
		return;
	if (strchr(where, '?') && strcmp(strchr(where, '?'), "?***") != 0)
		abort();
	check_url(destination->target);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_payload_head head;
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	memcpy(text, bytes, len);
	text[len] = 0;
	check_text(text);
	free(text);
	if (fgt_payload_head_read(bytes, len, &head) == 0 &&
	    (strlen(head.name) >= sizeof(head.name) ||
	     strlen(head.host) >= sizeof(head.host)))
		abort();
	return 0;
}
