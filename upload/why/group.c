/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of thread names, and the processes of a row. Pure.
 */
#include "upload/why/group.h"

#include <stdio.h>
#include <string.h>

#include "ringbuf/slice/processes.h"

#define PIDS_SHOWN 3u /* of a row, in words */

static bool is_digit(char character)
{
	return character >= '0' && character <= '9';
}

const char *fgt_group_pattern(const char *name,
			      char ret_pattern[FGT_GROUP_NAME_MAX])
{
	size_t len = 0;

	for (; *name && len < FGT_GROUP_NAME_MAX - 1; name++) {
		if (!is_digit(*name))
			ret_pattern[len++] = *name;
		else if (!len || ret_pattern[len - 1] != '*')
			ret_pattern[len++] = '*';
	}
	ret_pattern[len] = '\0';
	return ret_pattern;
}

const char *fgt_group_of_thread(const struct fgt_ring_slice *slice,
				uint32_t thread, bool has_processes,
				char ret_pattern[FGT_GROUP_NAME_MAX])
{
	const struct fgt_slice_thread *at = &slice->threads[thread];
	const struct fgt_process_of process =
		fgt_slice_process_of(slice, thread);
	size_t len;

	fgt_group_pattern(fgt_slice_string(slice, at->name), ret_pattern);
	len = strlen(ret_pattern);
	if (has_processes && at->tid != process.pid)
		snprintf(ret_pattern + len, FGT_GROUP_NAME_MAX - len, " of %s",
			 process.name);
	return ret_pattern;
}

int fgt_group_add_pid(const struct fgt_ring_slice *slice, uint32_t thread,
		      uint32_t row, struct fgt_id_map *seen,
		      struct fgt_group_pids *pids)
{
	int32_t pid = fgt_slice_process_of(slice, thread).pid;
	uint32_t known = seen->count, id;
	int r;

	r = fgt_id_map_add(seen, (uint64_t)row << 32 | (uint32_t)pid, &id);
	if (r < 0 || seen->count == known)
		return r;
	if (pids->count < FGT_GROUP_PIDS)
		pids->first[pids->count] = pid;
	pids->count++;
	return 0;
}

void fgt_group_add_words(const struct fgt_group_pids *pids,
			 struct fgt_words *words)
{
	if (pids->count > PIDS_SHOWN) {
		fgt_words_add(words, "%u processes", pids->count);
		return;
	}
	for (uint32_t i = 0; i < pids->count; i++)
		fgt_words_add(words, "%s%d", i ? ", " : "pid ", pids->first[i]);
}

void fgt_group_put(const struct fgt_group_pids *pids, struct fgt_json *json)
{
	if (!pids->count)
		return;
	fgt_json_put_uint(json, "process_count", pids->count);
	fgt_json_begin_array(json, "pids");
	for (uint32_t i = 0; i < pids->count && i < FGT_GROUP_PIDS; i++)
		fgt_json_put_int(json, NULL, pids->first[i]);
	fgt_json_end_array(json);
}
