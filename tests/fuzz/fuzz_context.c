/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds what a target publishes about its service to the parser of its payload,
 * and to that of cgroups.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/capture/service/cgroup.h"
#include "agent/context/payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const struct fgt_service *service)
{
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (!memchr(fgt_service_text_of(service, i), 0,
			    FGT_SERVICE_TEXT_MAX))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_service service = { .name = "" };
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	if (fgt_context_payload_read(bytes, len, &service) == 0)
		check(&service);
	memcpy(text, bytes, len);
	text[len] = 0;
	fgt_cgroup_parse(text, &service);
	check(&service);
	free(text);
	return 0;
}
