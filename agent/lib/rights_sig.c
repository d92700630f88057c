/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before the C library's handler of its own signal, by which all threads
 * change their user or groups. Runs in every thread of the program at such a
 * change; in those that are not ours it only passes on. No libc, no lock.
 */
#include "agent/lib/rights.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "agent/capture/look/system_call.h"

struct fgt_rights_table fgt_rights_table;

static bool read_of(int32_t pid, struct __user_cap_data_struct *ret_data)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3, .pid = pid
	};

	return fgt_system_call(SYS_capget, (long)&header, (long)ret_data, 0, 0,
			       0) == 0;
}

/*
 * Nothing is taken out of effect here: this change may have reached the first
 * thread already, and taken away there what we need for the same.
 */
static void keep_up(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0
	};
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_data_struct first[_LINUX_CAPABILITY_U32S_3];
	uint32_t missing = 0;

	if (!read_of(0, own) || !read_of(fgt_rights_table.pid, first))
		return;
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t more = first[i].effective & own[i].permitted &
				~own[i].effective;

		own[i].effective |= more;
		missing |= more;
	}
	if (missing)
		(void)fgt_system_call(SYS_capset, (long)&header, (long)own, 0,
				      0, 0);
}

void fgt_rights_handle(int number, siginfo_t *info, void *context)
{
	int32_t tid = (int32_t)fgt_system_call(SYS_gettid, 0, 0, 0, 0, 0);

	for (size_t i = 0; i < FGT_RIGHTS_THREADS; i++) {
		struct fgt_rights_slot *slot = &fgt_rights_table.slots[i];

		if (atomic_load_explicit(&slot->tid, memory_order_relaxed) !=
		    tid)
			continue;
		/* At the first they are as the program's are. */
		if (atomic_fetch_add_explicit(&slot->changes, 1,
					      memory_order_relaxed))
			keep_up();
	}
	fgt_rights_table.previous(number, info, context);
}
