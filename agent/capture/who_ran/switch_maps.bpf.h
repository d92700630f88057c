/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the kernel's half and the sampler's share, for switches.bpf.c alone.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SWITCH_MAPS_BPF_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SWITCH_MAPS_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "agent/capture/who_ran/switch_slot.h"

/* That the sampler asks for: the next one, or the one it is looking at. */
unsigned long long instant_ns = 0;
/* Bit tgid % 64 is set for every process that is sampled. */
unsigned long long wanted_tgids = 0;
/*
 * Slots that have changed since the sampler took the bits. Not in the cache
 * line of the word that every switch of every CPU looks at.
 */
unsigned long long changed[FGT_SWITCH_WORDS] __attribute__((aligned(64)));

/* The number of the last stack of a waker, and up to which there is room: the
 * sampler moves that on at each tick. */
unsigned int stack_number __attribute__((aligned(64))) = 0;
unsigned int stack_limit = 0;

/*
 * The slot that a thread with such a number was given last: right unless two
 * of those watched share it, and a good deal cheaper than a hash.
 */
unsigned short guess_of_tid[FGT_SWITCH_GUESSES] __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FGT_SWITCH_SLOTS_MAX);
	__type(key, unsigned int);
	__type(value, struct fgt_switch_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FGT_SWITCH_SLOTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, unsigned int);
} slot_of_tid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FGT_SWITCH_TGIDS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fgt_switch_brief);
} brief_of_tgid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FGT_SWITCH_STACKS);
	__type(key, unsigned int);
	__type(value, struct fgt_switch_stack);
} stacks SEC(".maps");

#endif
