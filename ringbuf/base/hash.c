/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret is what the kernel gives each program for such purposes. CRC-32C
 * by tables for four bytes at a time, made at the first use. Any thread.
 */
#include "ringbuf/base/hash.h"

#include <pthread.h>
#include <sys/auxv.h>

#define POLYNOMIAL 0x82f63b78u /* its bits reversed */

static uint32_t tables[4][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		tables[0][byte] = crc;
	}
	for (uint32_t byte = 0; byte < 256; byte++)
		for (int i = 1; i < 4; i++) {
			uint32_t crc = tables[i - 1][byte];

			tables[i][byte] = crc >> 8 ^ tables[0][crc & 0xff];
		}
}

uint64_t fgt_hash_secret(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t words[2] = { 0 };

	if (random)
		memcpy(words, random, sizeof(words));
	return fgt_hash_number(words[0]) ^ words[1];
}

uint32_t fgt_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	pthread_once(&once, make_tables);
	crc = ~crc;
	for (; len >= 4; len -= 4, at += 4)
		crc = tables[3][(crc ^ at[0]) & 0xff] ^
		      tables[2][(crc >> 8 ^ at[1]) & 0xff] ^
		      tables[1][(crc >> 16 ^ at[2]) & 0xff] ^
		      tables[0][crc >> 24 ^ at[3]];
	for (; len > 0; len--, at++)
		crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
	return ~crc;
}
