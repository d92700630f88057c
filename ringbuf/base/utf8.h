/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises and repairs UTF-8: names from targets may hold any bytes.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_RINGBUF_BASE_UTF8_H
#define FGT_RINGBUF_BASE_UTF8_H

#include <stddef.h>

/* Written in place of a byte that is not UTF-8: U+FFFD. */
#define FGT_UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * Length of the well-formed UTF-8 character at bytes, 0 if there is none:
 * overlong forms, surrogates and values above U+10FFFF are not (Unicode,
 * table 3-7).
 */
size_t fgt_utf8_len(const char *bytes, size_t len);

/*
 * Copies text[len] with U+FFFD for each byte that is not UTF-8, as far as whole
 * characters fit in ret_text[size], which gets no NUL. Returns the length.
 */
size_t fgt_utf8_clean(const char *text, size_t len, char *ret_text,
		      size_t size);

#endif
