/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of stacks and frames of a Sentry profile: for sentry_profile.c and
 * sentry_frames.c only.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_KEYS_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/* In the place of a leaf: no samples. (No slice has that many nodes.) */
#define FGT_SENTRY_GAP_NODE (UINT32_MAX - 1)

/* A stack: its leaf node and the string id of its state's name. */
static inline uint64_t fgt_sentry_stack_key(uint32_t leaf, uint32_t state_name)
{
	return (uint64_t)leaf << 32 | state_name;
}

static inline uint32_t fgt_sentry_stack_leaf(uint64_t key)
{
	return (uint32_t)(key >> 32);
}

static inline uint32_t fgt_sentry_stack_state(uint64_t key)
{
	return (uint32_t)key;
}

/* A frame: one of the slice, a state's name, or a virtual one. */
static inline bool fgt_sentry_key_is_frame(uint64_t key)
{
	return key >> 32 == 0;
}

static inline uint64_t fgt_sentry_state_key(uint32_t state_name)
{
	return (uint64_t)1 << 32 | state_name;
}

static inline bool fgt_sentry_key_is_state(uint64_t key)
{
	return key >> 32 == 1;
}

static inline uint64_t fgt_sentry_virtual_key(uint32_t node)
{
	return (uint64_t)2 << 32 | node;
}

#endif
