/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command line prints for a person. The only writer of errors to
 * stderr; must never print a secret: callers pass redacted text only.
 */
#include "agent/cli/complaint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/utf8.h"

#define LINE_MAX_BYTES 2048

static void print_line(const char *verb, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

static void print_line(const char *verb, const char *format, va_list arguments)
{
	char line[LINE_MAX_BYTES], *end;

	vsnprintf(line, sizeof(line), format, arguments);
	end = line + strlen(line);
	/* Names from processes and files must not forge lines. */
	for (char *c = line; c < end;) {
		size_t len = fgt_utf8_len(c, (size_t)(end - c));
		bool is_c1 = len == 2 && (unsigned char)*c == 0xc2 &&
			     (unsigned char)c[1] < 0xa0;

		if (!len || (unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
		if (is_c1)
			c[0] = c[1] = '?';
		c += len ? len : 1;
	}
	fprintf(stderr, "fgtrace-agent: %s%s%s\n", verb ? verb : "",
		verb ? ": " : "", line);
}

int fgt_complain(const char *verb, enum fgt_exit status, const char *format,
		 ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(verb, format, arguments);
	va_end(arguments);
	return (int)status;
}

int fgt_complain_why(const char *verb, enum fgt_exit status,
		     const struct fgt_why *why)
{
	return fgt_complain(verb, status, "%s",
			    why->text[0] ? why->text : FGT_NO_MEMORY);
}

void fgt_note(const char *verb, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(verb, format, arguments);
	va_end(arguments);
}

int fgt_file_write(void *file, const void *bytes, size_t len)
{
	return fwrite(bytes, 1, len, file) == len ? 0 : errno ? -errno : -EIO;
}

enum fgt_exit fgt_finish_stdout(const char *verb)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return FGT_EXIT_OK;
	if (errno == EPIPE)
		return FGT_EXIT_FAILURE;
	return fgt_complain(verb, FGT_EXIT_FAILURE,
			    "cannot write standard output: %s; redirect it "
			    "to a file with room",
			    fgt_error_text(errno));
}

enum fgt_exit fgt_exit_of(int error)
{
	switch (error) {
	case 0:
		return FGT_EXIT_OK;
	case -EPERM:
	case -EACCES:
		return FGT_EXIT_NOT_PERMITTED;
	case -ENODATA:
		return FGT_EXIT_NO_DATA;
	default:
		return FGT_EXIT_FAILURE;
	}
}

const char *fgt_error_text(int error)
{
	const char *text = strerrordesc_np(error < 0 ? -error : error);

	return text ? text : "unknown error";
}
