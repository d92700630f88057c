/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a configuration's bytes before libconfig reads them. Runs where a
 * configuration is loaded; must not open files, recurse, or read beyond the
 * text, which may hold anything.
 */
#include "agent/config/config_schema.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/utf8.h"
#include "upload/deliver/trusted_file.h"

#define WORD_SHOWN 40
#define DEPTH_MAX  8
#define KEYS_MAX   8192 /* libconfig's duplicate check is O(n²) */

struct scanner {
	char *at; /* in a copy that ends with NUL */
	const char *file_name;
	unsigned int line;
	unsigned int key_count;
	unsigned int depth; /* brackets open */
	unsigned int open_lines[DEPTH_MAX];
	struct fgt_why *why;
};

FGT_PRINTF(2, 3)
static int refuse(const struct scanner *scan, const char *format, ...)
{
	char what[200];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return fgt_why_set(scan->why, -EINVAL, "%s:%u: %s",
			   fgt_trusted_file_name(scan->file_name), scan->line,
			   what);
}

/* Every byte must be text; the CR of CRLF becomes a blank. */
static int check_text(struct scanner *scan, const char *end)
{
	size_t step;

	for (char *c = scan->at; c < end; c += step) {
		unsigned char byte = (unsigned char)*c;

		step = fgt_utf8_len(c, (size_t)(end - c));
		if (!step)
			return refuse(scan, "not valid UTF-8; save the file "
					    "as UTF-8");
		if (byte == '\n')
			scan->line++;
		else if (byte == '\r' && c[1] == '\n')
			*c = ' ';
		else if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
			return refuse(scan,
				      "control character 0x%02x; remove it",
				      byte);
	}
	scan->line = 1;
	return 0;
}

static bool is_comment(const char *at)
{
	return *at == '#' || (*at == '/' && (at[1] == '/' || at[1] == '*'));
}

/* Overwrites it with blanks, so that libconfig never reads it; lines stay. */
static int blank_comment(struct scanner *scan)
{
	bool is_block = scan->at[0] == '/' && scan->at[1] == '*';
	const char *end = is_block ? strstr(scan->at + 2, "*/")
				   : strchrnul(scan->at, '\n');

	if (!end)
		return refuse(scan, "comment is never closed; add */");
	end += is_block ? strlen("*/") : 0;
	for (; scan->at < end; scan->at++) {
		if (*scan->at == '\n')
			scan->line++;
		else
			*scan->at = ' ';
	}
	return 0;
}

/* Length of the escape behind a backslash; 0 unless it stands for printable
 * ASCII. */
static size_t escape_len(const char *c)
{
	if (*c == '\\' || *c == '"')
		return 1;
	if ((*c != 'x' && *c != 'X') || c[1] < '2' || c[1] > '7' ||
	    !isxdigit((unsigned char)c[2]))
		return 0;
	return c[1] == '7' && tolower((unsigned char)c[2]) == 'f' ? 0 : 3;
}

static int skip_string(struct scanner *scan)
{
	char *c = scan->at + 1;

	while (*c && *c != '"' && *c != '\n') {
		size_t len = *c == '\\' ? escape_len(c + 1) : 0;

		if (*c == '\\' && !len)
			return refuse(scan, "unsupported escape in a string; "
					    "write \\\\ for a backslash, other "
					    "characters as they are");
		c += 1 + len;
	}
	if (*c != '"')
		return refuse(scan, "string is not closed on its line; add \"");
	scan->at = c + 1;
	return 0;
}

/* Decimal, and within what libconfig stores unchanged: it wraps an integer
 * that does not fit an int and has no L. */
static int check_number(const struct scanner *scan, size_t len)
{
	const char *word = scan->at;
	const int shown = len < WORD_SHOWN ? (int)len : WORD_SHOWN;
	const char *digits = word + (*word == '-' || *word == '+');
	long long value;
	char *end;

	if (!isdigit((unsigned char)*digits) ||
	    (*digits == '0' && digits[1] && strchr("0123456789xX", digits[1])))
		return refuse(scan,
			      "`%.*s` is not a decimal number; write digits, "
			      "without 0 before them",
			      shown, word);
	errno = 0;
	value = strtoll(word, &end, 10);
	if (errno || (*end != 'L' && (value > INT_MAX || value < INT_MIN)))
		return refuse(scan,
			      "number `%.*s` is out of range; write a "
			      "smaller one",
			      shown, word);
	return 0;
}

static int skip_word(struct scanner *scan)
{
	size_t len = 1;
	int error;

	while (isalnum((unsigned char)scan->at[len]) ||
	       (scan->at[len] && strchr("_-+.*", scan->at[len])))
		len++;
	error = isalpha((unsigned char)*scan->at) ? 0 : check_number(scan, len);
	scan->at += len;
	return error;
}

static int take_sign(struct scanner *scan)
{
	char c = *scan->at++;

	if (c == '@')
		return refuse(scan, "@include is not supported; put everything "
				    "into this file");
	if (c == '=' || c == ':') {
		if (++scan->key_count > KEYS_MAX)
			return refuse(scan,
				      "more than %d keys in one file; remove "
				      "some",
				      KEYS_MAX);
	} else if (strchr("({[", c)) {
		if (scan->depth == DEPTH_MAX)
			return refuse(scan,
				      "nested deeper than %d levels; remove "
				      "brackets",
				      DEPTH_MAX);
		scan->open_lines[scan->depth++] = scan->line;
	} else if (strchr(")}]", c) && scan->depth) {
		scan->depth--;
	}
	scan->line += c == '\n';
	return 0;
}

static int scan_next(struct scanner *scan)
{
	char c = *scan->at;

	if (is_comment(scan->at))
		return blank_comment(scan);
	if (c == '"')
		return skip_string(scan);
	if (isalnum((unsigned char)c) || strchr("-+.", c))
		return skip_word(scan);
	return take_sign(scan);
}

int fgt_config_scan(const char *bytes, size_t len, const char *file_name,
		    char **ret_clean, struct fgt_why *why)
{
	struct scanner scan = { .file_name = file_name, .line = 1, .why = why };
	FGT_AUTO(free) void *copy = NULL;
	int error;

	if (len > FGT_CONFIG_FILE_MAX)
		return refuse(&scan, "larger than 1 MiB; remove comments and "
				     "keys that are not needed");
	if (len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) {
		bytes += 3;
		len -= 3;
	}
	copy = calloc(1, len + 1);
	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, bytes, len);
	scan.at = copy;
	error = check_text(&scan, scan.at + len);
	while (!error && *scan.at)
		error = scan_next(&scan);
	if (error)
		return error;
	if (scan.depth) {
		scan.line = scan.open_lines[scan.depth - 1];
		return refuse(&scan, "a bracket is never closed; add its } ) "
				     "or ]");
	}
	*ret_clean = FGT_TAKE(copy);
	return 0;
}
