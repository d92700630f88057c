/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes and of this one.
 */
#ifndef FGT_AGENT_UNWIND_ARCH_MEMORY_H
#define FGT_AGENT_UNWIND_ARCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Copies [address, address + len) of the memory of a thread's process, or as
 * much from its start as there is: the bytes copied. -EFAULT nothing there,
 * -EPERM, -EACCES, -ESRCH.
 *
 * MT-Safe | AS-Unsafe
 */
int64_t fgt_memory_read(int32_t tid, uint64_t address, void *buffer,
			size_t len);

/*
 * From now on only this process is read, and only with system calls that every
 * program makes: a program that confines itself may be killed for
 * process_vm_readv(2).
 */
void fgt_memory_only_own(void);

#endif
