/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO of this kernel as a file. Runs in the daemon.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_VDSO_H
#define FGT_AGENT_SYMBOLS_ELF_VDSO_H

/* A memfd with a copy of the vDSO of this process (caller closes). -ENOENT,
 * errno. */
int fgt_vdso_open(int *ret_fd);

#endif
