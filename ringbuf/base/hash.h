/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes for tables, and a checksum for files. Without a secret, colliding keys
 * are easy to find: a table must stay correct then, and a table of what a file
 * or a process chose must use the secret, so that it stays fast.
 */
#ifndef FGT_RINGBUF_BASE_HASH_H
#define FGT_RINGBUF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A number that no file knows: another one for each exec. MT-Safe | AS-Safe */
uint64_t fgt_hash_secret(void);

/* Of bytes[len] after what hash is of, which begins with the secret.
 * MT-Safe | AS-Safe */
static inline uint64_t fgt_hash_more(uint64_t hash, const void *bytes,
				     size_t len)
{
	const uint8_t *at = bytes;
	uint64_t word;

	hash = fgt_hash_number(hash ^ len);
	for (; len > 0; len -= len < 8 ? len : 8, at += 8) {
		word = 0;
		memcpy(&word, at, len < 8 ? len : 8);
		hash = fgt_hash_number(hash ^ word);
	}
	return hash;
}

/*
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4) of the bytes that crc is of,
 * followed by bytes[len]; 0 is of no bytes.
 *
 * MT-Safe | AS-Unsafe
 */
uint32_t fgt_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif
