/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context switches reported by a BPF program in the kernel. Needs CAP_BPF and
 * CAP_PERFMON (or root), a kernel with BTF (5.18 or later), and the host's pid
 * namespace.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_BPF_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SWITCHES_BPF_H

#include "agent/capture/who_ran/switches.h"

/* For fgt_sampler_options: NULL where clang, bpftool or libbpf were missing
 * when this was built. */
#ifdef FGT_HAS_BPF
extern const struct fgt_switch_provider fgt_switches_by_bpf;
#define FGT_SWITCHES_BUILT_IN (&fgt_switches_by_bpf)
#else
#define FGT_SWITCHES_BUILT_IN NULL
#endif

#endif
