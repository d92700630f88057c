/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads as files of a directory. Runs with the rights of the directory's
 * user.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upload/deliver/directory/envelope_file.h"
#include "upload/deliver/kinds.h"

/* Of several processes that write the same: which of them. All fits into what
 * a file's name keeps. */
static void write_name(const struct fgt_payload_head *head,
		       char ret_name[FGT_ENVELOPE_NAME_MAX + 1])
{
	bool is_same = strcmp(head->name, head->service) == 0;

	snprintf(ret_name, FGT_ENVELOPE_NAME_MAX + 1, "%.46s%s%.20s-%d",
		 head->name, is_same ? "" : "-", is_same ? "" : head->service,
		 (int)head->pid);
}

/* What may be mended while the delivery waits. */
static bool is_temporary(int error)
{
	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
	case -ESTALE:
		return true;
	default:
		return false;
	}
}

int fgt_kind_directory_send(const struct fgt_sending *sending)
{
	const struct fgt_destination *destination = sending->destination;
	const struct fgt_payload_head *head = &sending->payload->head;
	char name[FGT_ENVELOPE_NAME_MAX + 1];
	const struct fgt_envelope_place place = {
		.root_fd = sending->root_fd,
		.directory = destination->target,
		.name = name,
		.ending = head->ending,
		.wall_ns = head->from_wall_ns,
		.max_files = destination->max_files,
		.max_bytes = (uint64_t)destination->max_mb << 20,
	};
	struct fgt_envelope_written written;
	int r;

	write_name(head, name);
	r = fgt_envelope_file_write(&place, &sending->payload->body, &written,
				    sending->why);
	if (r == 0) {
		sending->outcome->bytes = written.bytes;
		snprintf(sending->outcome->where,
			 sizeof(sending->outcome->where), "%.300s/%s",
			 destination->target, written.name);
	}
	return is_temporary(r) ? -EAGAIN : r;
}
