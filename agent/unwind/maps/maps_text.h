/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one line of /proc/PID/maps apart. The name is whatever the target
 * called its file: hostile.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_MAPS_TEXT_H
#define FGT_AGENT_UNWIND_MAPS_MAPS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/slice/frame.h"

struct fgt_maps_line {
	uint64_t start, end, offset, dev, ino;
	bool is_readable, is_writable, is_executable;
	bool is_deleted; /* " (deleted)" was cut off path */
	bool is_path_cut;
	/* Unescaped (\012 is a newline); a longer name ends at "" and
	 * is_path_cut, since half a name would name another file. */
	char path[FGT_IMAGE_PATH_MAX];
};

/* line without its newline; need not be NUL-terminated. -EBADMSG.
 * MT-Safe | AS-Safe */
int fgt_maps_line_parse(const char *line, size_t len,
			struct fgt_maps_line *ret_line);

#endif
