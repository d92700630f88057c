/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which service a process is a part of. Runs in any thread.
 */
#include "ringbuf/slice/service.h"

#include <string.h>

#include "ringbuf/base/utf8.h"

#define TEXT(member, attribute_)                                               \
	{                                                                      \
		.key = #member, .attribute = attribute_,                       \
		.offset = offsetof(struct fgt_service, member)                 \
	}

const struct fgt_service_text fgt_service_texts[FGT_SERVICE_TEXTS] = {
	TEXT(name, "service.name"),
	TEXT(namespace, "service.namespace"),
	TEXT(version, "service.version"),
	TEXT(instance, "service.instance.id"),
	TEXT(environment, "deployment.environment.name"),
	TEXT(unit, "systemd.unit"),
	TEXT(container, "container.id"),
};

_Static_assert(sizeof(struct fgt_service) ==
		       FGT_SERVICE_TEXTS * FGT_SERVICE_TEXT_MAX,
	       "all members are texts of the table");

char *fgt_service_text_at(struct fgt_service *service, size_t i)
{
	return (char *)service + fgt_service_texts[i].offset;
}

const char *fgt_service_text_of(const struct fgt_service *service, size_t i)
{
	return (const char *)service + fgt_service_texts[i].offset;
}

uint32_t fgt_service_count(const struct fgt_service *service)
{
	uint32_t count = 0;

	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		count += *fgt_service_text_of(service, i) != '\0';
	return count;
}

/* How much of it fits: whole characters, where it is UTF-8. */
static size_t fitting(const char *bytes, size_t len)
{
	size_t at = 0;

	if (len < FGT_SERVICE_TEXT_MAX)
		return len;
	while (at < FGT_SERVICE_TEXT_MAX) {
		size_t step = fgt_utf8_len(bytes + at, len - at);

		step = step ? step : 1;
		if (at + step >= FGT_SERVICE_TEXT_MAX)
			break;
		at += step;
	}
	return at;
}

void fgt_service_set(struct fgt_service *service, size_t i, const char *bytes,
		     size_t len)
{
	char *text = fgt_service_text_at(service, i);

	len = fitting(bytes, strnlen(bytes, len));
	memset(text, 0, FGT_SERVICE_TEXT_MAX);
	memcpy(text, bytes, len);
}

void fgt_service_add(struct fgt_service *service,
		     const struct fgt_service *other)
{
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (!*fgt_service_text_of(service, i))
			memcpy(fgt_service_text_at(service, i),
			       fgt_service_text_of(other, i),
			       FGT_SERVICE_TEXT_MAX);
}

void fgt_service_name(const struct fgt_service *service,
		      const char *process_name,
		      char ret_name[FGT_SERVICE_TEXT_MAX])
{
	struct fgt_service named = { .name = "" };
	const char *suffix = strstr(service->unit, ".service");

	if (service->name[0])
		named = *service;
	else if (suffix && suffix != service->unit)
		fgt_service_set(&named, 0, service->unit,
				(size_t)(suffix - service->unit));
	else
		fgt_service_set(&named, 0, process_name, strlen(process_name));
	memcpy(ret_name, named.name, FGT_SERVICE_TEXT_MAX);
}
