/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a DSN and as a rate-limit header: no crash, waits stay bounded,
 * and what is accepted means the same when its clean form is parsed again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upload/deliver/dsn.h"
#include "upload/deliver/ratelimit.h"

static void check_dsn(const char *text)
{
	struct fgt_dsn dsn, again;
	struct fgt_why why = { .text = "" };

	if (fgt_dsn_parse(text, 0, &dsn, &why)) {
		if (!*why.text)
			abort();
		return;
	}
	if (strstr(dsn.redacted, dsn.public_key) ||
	    strstr(dsn.url, dsn.public_key))
		abort();
	if (!dsn.is_loopback && strncmp(dsn.url, "https://", 8) != 0)
		abort();
	if (fgt_dsn_parse(dsn.clean, 0, &again, &why) ||
	    strcmp(dsn.url, again.url) != 0 ||
	    strcmp(dsn.public_key, again.public_key) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_ratelimits limits = { 0 };
	char *text = malloc(len + 1);
	unsigned int seconds;

	if (!text)
		return 0;
	memcpy(text, bytes, len);
	text[len] = 0;
	check_dsn(text);
	seconds = fgt_ratelimit_retry_after(text, 784111777);
	if (seconds < 1 || seconds > FGT_RATELIMIT_MAX_S)
		abort();
	fgt_ratelimits_read(&limits, text);
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (limits.seconds[i] > FGT_RATELIMIT_MAX_S)
			abort();
	free(text);
	return 0;
}
