/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's parts, in the order of their start. Data only.
 */
#include "agent/lib/library.h"

const struct fgt_part *const fgt_parts[] = {
	&fgt_span_part,
	&fgt_activity_part,
	&fgt_transaction_part,
	&fgt_preload_part,
};

const unsigned int fgt_part_count = sizeof(fgt_parts) / sizeof(fgt_parts[0]);
