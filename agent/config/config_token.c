/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a configuration into tokens as a sceptic: no directive, only decimal
 * numbers that libconfig 1.5 does not wrap, only escapes that it does not cut
 * a string at (FAULTS §2, K2, K3). Any thread; must not read beyond end.
 */
#include "agent/config/config_token.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ringbuf/base/utf8.h"
#include "upload/deliver/trusted_file.h"

#define WORD_SHOWN     40
#define INT_DIGITS_MAX 10 /* libconfig wraps longer ones without L */

int fgt_config_token_refuse(const struct fgt_config_scanner *scanner,
			    unsigned int line, const char *format, ...)
{
	char what[300];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return fgt_why_set(scanner->why, -EINVAL, "%s:%u: %s",
			   fgt_trusted_file_name(scanner->file_name), line,
			   what);
}

/* Overwrites with blanks, so that libconfig never sees it; lines stay. */
static void blank(struct fgt_config_scanner *scanner, size_t len)
{
	for (; len; len--, scanner->at++) {
		if (*scanner->at == '\n')
			scanner->line++;
		else
			*scanner->at = ' ';
	}
}

static int skip_block_comment(struct fgt_config_scanner *scanner)
{
	size_t left = (size_t)(scanner->end - scanner->at);
	const char *close = memmem(scanner->at + 2, left - 2, "*/", 2);

	if (!close)
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"comment is never closed; add */");
	blank(scanner, (size_t)(close + 2 - scanner->at));
	return 0;
}

static int skip_blanks(struct fgt_config_scanner *scanner)
{
	while (scanner->at < scanner->end) {
		char c = *scanner->at;
		size_t left = (size_t)(scanner->end - scanner->at);
		bool is_slash = c == '/' && left > 1;

		if (c == ' ' || c == '\t' || c == '\n') {
			blank(scanner, 1);
		} else if (c == '#' || (is_slash && scanner->at[1] == '/')) {
			const char *newline = memchr(scanner->at, '\n', left);

			blank(scanner,
			      newline ? (size_t)(newline - scanner->at) : left);
		} else if (is_slash && scanner->at[1] == '*') {
			int error = skip_block_comment(scanner);

			if (error)
				return error;
		} else {
			break;
		}
	}
	return 0;
}

static int hex_value(char c)
{
	return isdigit((unsigned char)c) ? c - '0'
					 : tolower((unsigned char)c) - 'a' + 10;
}

/* The escape at c (a backslash); *ret_len is how many bytes it takes. */
static int check_escape(const struct fgt_config_scanner *scanner, const char *c,
			size_t *ret_len)
{
	size_t left = (size_t)(scanner->end - c);
	int value;

	if (left >= 2 && (c[1] == '\\' || c[1] == '"')) {
		*ret_len = 2;
		return 0;
	}
	if (left >= 2 && c[1] != 0 && strchr("nrtf", c[1]))
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"escape \\%c gives a control character; no value "
			"holds one",
			c[1]);
	if (left < 4 || (c[1] != 'x' && c[1] != 'X') ||
	    !isxdigit((unsigned char)c[2]) || !isxdigit((unsigned char)c[3]))
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"unknown escape in a string; write \\\\ for a "
			"backslash");
	value = hex_value(c[2]) * 16 + hex_value(c[3]);
	if (value < 0x20 || value >= 0x7f)
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"escape \\x%02x is not a printable ASCII "
			"character; write the character itself",
			(unsigned int)value);
	*ret_len = 4;
	return 0;
}

static int take_string(struct fgt_config_scanner *scanner)
{
	const char *c = scanner->at + 1;

	while (c < scanner->end && *c != '"') {
		size_t len = 1;
		int error = 0;

		if (*c == '\n')
			break;
		if (*c == '\\')
			error = check_escape(scanner, c, &len);
		if (error)
			return error;
		c += len;
	}
	if (c >= scanner->end || *c != '"')
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"string is not closed on its line; add \"");
	scanner->token.kind = FGT_TOKEN_STRING;
	scanner->token.len = (size_t)(c + 1 - scanner->at);
	return 0;
}

static size_t count_digits(const char *text, size_t len)
{
	size_t count = 0;

	while (count < len && isdigit((unsigned char)text[count]))
		count++;
	return count;
}

/* digits.digits, as libconfig reads it in the same way as people do. */
static bool is_plain_float(const char *digits, size_t len)
{
	size_t whole = count_digits(digits, len);

	return whole && whole < 16 && len > whole + 1 && len < 32 &&
	       digits[whole] == '.' &&
	       count_digits(digits + whole + 1, len - whole - 1) ==
		       len - whole - 1;
}

/* Decimal, no leading zero, and within what libconfig stores unchanged. */
static int check_number(const struct fgt_config_scanner *scanner,
			const char *word, size_t len)
{
	const int shown = len < WORD_SHOWN ? (int)len : WORD_SHOWN;
	bool is_signed = *word == '-' || *word == '+';
	const char *digits = word + is_signed;
	size_t digits_len = len - is_signed;
	size_t count = count_digits(digits, digits_len);
	bool is_long = digits_len > count && digits[count] == 'L';
	size_t suffix = !is_long ? 0 : digits_len - count == 2 ? 2 : 1;
	long long value;

	if (is_plain_float(digits, digits_len))
		return 0;
	if (!count || count + suffix != digits_len ||
	    (suffix == 2 && digits[count + 1] != 'L'))
		return fgt_config_token_refuse(scanner, scanner->line,
					       "`%.*s` is not a decimal number",
					       shown, word);
	if (count > 1 && *digits == '0')
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"`%.*s` starts with 0 and would not be read as "
			"octal; write it without",
			shown, word);
	errno = 0;
	value = strtoll(word, NULL, 10);
	if (errno || (!is_long && (count > INT_DIGITS_MAX || value > INT_MAX ||
				   value < INT_MIN)))
		return fgt_config_token_refuse(scanner, scanner->line,
					       "number `%.*s` is out of range",
					       shown, word);
	return 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_-+.*", c));
}

static int take_word(struct fgt_config_scanner *scanner)
{
	struct fgt_config_token *token = &scanner->token;
	const char *c = scanner->at;
	bool is_name = isalpha((unsigned char)*c) || *c == '*';

	while (c < scanner->end && is_word(*c))
		c++;
	token->len = (size_t)(c - scanner->at);
	token->kind = is_name ? FGT_TOKEN_NAME : FGT_TOKEN_NUMBER;
	if (!is_name)
		return check_number(scanner, token->text, token->len);
	if (memchr(token->text, '.', token->len) ||
	    memchr(token->text, '+', token->len))
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"`%.*s` is neither a key nor a value; strings "
			"stand in double quotes, groups in { }",
			token->len < WORD_SHOWN ? (int)token->len : WORD_SHOWN,
			token->text);
	if ((token->len == 4 && !strncasecmp(token->text, "true", 4)) ||
	    (token->len == 5 && !strncasecmp(token->text, "false", 5)))
		token->kind = FGT_TOKEN_BOOL;
	return 0;
}

int fgt_config_token_next(struct fgt_config_scanner *scanner)
{
	struct fgt_config_token *token = &scanner->token;
	int error = skip_blanks(scanner);

	if (error)
		return error;
	*token = (struct fgt_config_token){ .text = scanner->at,
					    .line = scanner->line };
	if (scanner->at == scanner->end)
		return 0;
	if (*scanner->at == '@')
		return fgt_config_token_refuse(
			scanner, scanner->line,
			"@include is not supported; put everything into "
			"this file");
	if (*scanner->at == '"') {
		error = take_string(scanner);
	} else if (is_word(*scanner->at) && *scanner->at != '_') {
		error = take_word(scanner);
	} else if (strchr("=:;,(){}[]", *scanner->at)) {
		token->kind = FGT_TOKEN_SIGN;
		token->len = 1;
	} else {
		error = fgt_config_token_refuse(
			scanner, scanner->line, "unexpected character `%.*s`",
			(int)fgt_utf8_len(scanner->at,
					  (size_t)(scanner->end - scanner->at)),
			scanner->at);
	}
	scanner->at += token->len;
	return error;
}
