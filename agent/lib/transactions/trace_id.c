/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids from a mixed counter: one atomic addition an id, no lock, no system call.
 * Runs in the program's threads; must not wait.
 */
#include "agent/lib/transactions/trace_id.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

#define GOLDEN	     UINT64_C(0x9e3779b97f4a7c15)
#define SHARE_DIGITS 14 /* 56 bits */

/* Relaxed: the addition must be atomic, its order does not matter. */
static _Atomic uint64_t counter;
static _Atomic uint64_t key;

/* Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection. */
static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

void fgt_trace_id_seed(void)
{
	uint64_t seeds[2];

	if (getrandom(seeds, sizeof(seeds), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(seeds)) {
		seeds[0] = mix(fgt_clock_ns(CLOCK_REALTIME));
		seeds[1] = mix((uintptr_t)&seeds ^ (uint64_t)getpid() << 32);
	}
	atomic_store_explicit(&counter, seeds[0], memory_order_relaxed);
	atomic_store_explicit(&key, seeds[1], memory_order_relaxed);
}

static uint64_t draw(void)
{
	uint64_t value = atomic_fetch_add_explicit(&counter, GOLDEN,
						   memory_order_relaxed);

	return mix(mix(value) ^
		   atomic_load_explicit(&key, memory_order_relaxed));
}

/* Eight digits at once, one in each byte. */
static uint64_t to_digits(uint32_t bits)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t nibbles = bits, letters;

	nibbles = (nibbles | nibbles << 16) & UINT64_C(0x0000ffff0000ffff);
	nibbles = (nibbles | nibbles << 8) & UINT64_C(0x00ff00ff00ff00ff);
	nibbles = (nibbles | nibbles << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	letters = (nibbles + 6 * ones) >> 4 & ones; /* 10 and above */
	return nibbles + '0' * ones + letters * ('a' - '0' - 10);
}

void fgt_trace_id_make(char *ret_text, size_t digits)
{
	for (size_t i = 0; i < digits; i += 16) {
		/* The first digit is never 0: ids of zeros are refused. */
		uint64_t bits = draw() | 1;
		uint64_t text[2] = { to_digits((uint32_t)bits),
				     to_digits((uint32_t)(bits >> 32)) };

		memcpy(ret_text + i, text, sizeof(text));
	}
	ret_text[digits] = '\0';
}

static size_t count_hex(const char *text)
{
	return strspn(text, "0123456789abcdef");
}

/* An id of that many digits, not all of them 0, then any other character. */
static bool is_id(const char *text, size_t digits)
{
	return count_hex(text) == digits && strspn(text, "0") < digits;
}

/* "32hex-16hex", then no digit. */
static bool is_pair(const char *text)
{
	return is_id(text, FGT_TRACE_ID_DIGITS) &&
	       text[FGT_TRACE_ID_DIGITS] == '-' &&
	       is_id(text + FGT_TRACE_ID_DIGITS + 1, FGT_SPAN_ID_DIGITS);
}

#define PAIR_LEN (FGT_TRACE_ID_DIGITS + 1 + FGT_SPAN_ID_DIGITS)

static bool is_sentry_tail(const char *tail)
{
	return !*tail || !strcmp(tail, "-0") || !strcmp(tail, "-1");
}

/* "-2hex"; more only in versions after 00. */
static bool is_w3c_tail(const char *tail, bool is_version_0)
{
	return tail[0] == '-' && count_hex(tail + 1) == 2 &&
	       (!tail[3] || (tail[3] == '-' && !is_version_0));
}

/* Begins with "2hex-"; ff is no version. */
static bool is_w3c_head(const char *header)
{
	return count_hex(header) == 2 && header[2] == '-' &&
	       strncmp(header, "ff", 2) != 0;
}

int fgt_trace_id_parse(const char *header,
		       char ret_trace_id[FGT_TRACE_ID_DIGITS + 1],
		       char ret_span_id[FGT_SPAN_ID_DIGITS + 1])
{
	const char *pair = header;

	if (is_w3c_head(header)) {
		pair += 3;
		if (!is_pair(pair) ||
		    !is_w3c_tail(pair + PAIR_LEN, !strncmp(header, "00", 2)))
			return -EINVAL;
	} else if (!is_pair(pair) || !is_sentry_tail(pair + PAIR_LEN)) {
		return -EINVAL;
	}
	memcpy(ret_trace_id, pair, FGT_TRACE_ID_DIGITS);
	ret_trace_id[FGT_TRACE_ID_DIGITS] = '\0';
	memcpy(ret_span_id, pair + FGT_TRACE_ID_DIGITS + 1, FGT_SPAN_ID_DIGITS);
	ret_span_id[FGT_SPAN_ID_DIGITS] = '\0';
	return 0;
}

static unsigned int digit_value(char c)
{
	return (unsigned int)(c <= '9' ? c - '0' : c - 'a' + 10);
}

void fgt_trace_id_bytes(const char *id, size_t digits, uint8_t *ret_bytes)
{
	for (size_t i = 0; i < digits; i += 2)
		ret_bytes[i / 2] = (uint8_t)(digit_value(id[i]) << 4 |
					     digit_value(id[i + 1]));
}

double fgt_trace_id_share(const char *trace_id)
{
	uint64_t bits = 0;

	for (size_t i = FGT_TRACE_ID_DIGITS - SHARE_DIGITS;
	     i < FGT_TRACE_ID_DIGITS; i++)
		bits = bits << 4 | digit_value(trace_id[i]);
	/* 53 bits, which a double holds exactly: never rounded up to 1. */
	return (double)(bits >> 3) / (double)(UINT64_C(1) << 53);
}
