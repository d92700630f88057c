/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's half answers when it is asked, for switches_bpf.c alone.
 *
 * MT-Unsafe for one program | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_ASKED_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_ASKED_H

#include "agent/capture/who_ran/switches.h"

struct bpf_program;

/* As in struct fgt_switch_provider. */
int fgt_switches_hand_over(
	struct bpf_program *program, int32_t pid,
	void (*asleep)(void *context, const struct fgt_switch_sleeper *sleeper),
	void *context);
/* -ENOENT: this kernel has refused the program. */
int fgt_switches_find_socket(const struct bpf_program *program,
			     struct fgt_switch_socket *socket);

#endif
