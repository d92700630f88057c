/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes for tables, and a checksum for files. Not secret: colliding keys are
 * easy to find, so that a table must stay correct then.
 */
#ifndef FGT_RINGBUF_BASE_HASH_H
#define FGT_RINGBUF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a. MT-Safe | AS-Safe */
static inline uint64_t fgt_hash_bytes(const char *bytes, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Spreads the bits of a number (splitmix64's finaliser, public domain).
 * MT-Safe | AS-Safe */
static inline uint64_t fgt_hash_number(uint64_t number)
{
	number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
	number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
	return number ^ (number >> 31);
}

/*
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4) of the bytes that crc is of,
 * followed by bytes[len]; 0 is of no bytes.
 *
 * MT-Safe | AS-Unsafe
 */
uint32_t fgt_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif
