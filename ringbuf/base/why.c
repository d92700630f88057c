/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the reason of a failure. Runs in any thread; must not allocate.
 */
#include "ringbuf/base/why.h"

#include <stdarg.h>
#include <stdio.h>

int fgt_why_set(struct fgt_why *why, int error, const char *format, ...)
{
	va_list arguments;

	if (!why)
		return error;
	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	/* Names from targets may hold newlines and escapes. */
	for (char *c = why->text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return error;
}
