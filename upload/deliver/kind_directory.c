/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads as files of a directory. Runs with the rights of the directory's
 * user.
 */
#include <errno.h>

#include "upload/deliver/directory/envelope_file.h"
#include "upload/deliver/kinds.h"

int fgt_kind_directory_send(const struct fgt_sending *sending)
{
	const struct fgt_destination *destination = sending->destination;
	const struct fgt_payload_head *head = &sending->payload->head;
	const struct fgt_envelope_place place = {
		.root_fd = sending->root_fd,
		.directory = destination->target,
		.name = head->name,
		.ending = head->ending,
		.wall_ns = head->from_wall_ns,
		.max_files = destination->max_files,
		.max_bytes = (uint64_t)destination->max_mb << 20,
	};
	int r = fgt_envelope_file_write(&place, &sending->payload->body,
					&sending->outcome->bytes, sending->why);

	return r == -ENOSPC || r == -EDQUOT || r == -EMFILE || r == -ENFILE
		       ? -EAGAIN
		       : r;
}
