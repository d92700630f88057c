/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of a process in one line. Runs in any thread.
 */
#include "upload/format/parts/service_line.h"

#include <stdio.h>

void fgt_service_line(const struct fgt_process_info *process, char *ret_line,
		      size_t size)
{
	const struct fgt_service *service = &process->service;
	char name[FGT_SERVICE_TEXT_MAX];
	size_t len;

	fgt_service_name(service, process->name, name);
	len = (size_t)snprintf(ret_line, size, "service %s", name);
	for (size_t i = 1; i < FGT_SERVICE_TEXTS && len < size; i++)
		if (*fgt_service_text_of(service, i))
			len += (size_t)snprintf(
				ret_line + len, size - len, ", %s %s",
				fgt_service_texts[i].key,
				fgt_service_text_of(service, i));
}
