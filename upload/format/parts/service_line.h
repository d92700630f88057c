/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of a process, for people.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_SERVICE_LINE_H
#define FGT_UPLOAD_FORMAT_PARTS_SERVICE_LINE_H

#include "ringbuf/slice/slice.h"

/*
 * "service shop, version 1.4, environment production"; what is not known is
 * left out. Cut at size - 1 bytes.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_service_line(const struct fgt_process_info *process, char *ret_line,
		      size_t size);

#endif
