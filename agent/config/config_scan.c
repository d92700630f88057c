/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a configuration's bytes as a sceptic before libconfig does: text, then
 * grammar (FAULTS §2, K2–K4). Runs where a configuration is loaded; must not
 * open files, nor recurse deeper than FGT_CONFIG_DEPTH_MAX.
 */
#include "agent/config/config_scan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config_text.h"
#include "agent/config/config_token.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/utf8.h"

#define WORD_SHOWN 40

static int scan_value(struct fgt_config_scanner *scanner);

/* Every byte must be text; the CR of CRLF becomes a blank. */
static int check_text(struct fgt_config_scanner *scanner)
{
	unsigned int line = 1;
	size_t step;

	for (char *c = scanner->at; c < scanner->end; c += step) {
		size_t left = (size_t)(scanner->end - c);

		step = fgt_utf8_len(c, left);
		if (!step)
			return fgt_config_token_refuse(
				scanner, line,
				"not valid UTF-8; save the file as UTF-8");
		if (*c == '\n')
			line++;
		else if (*c == '\r' && left > 1 && c[1] == '\n')
			*c = ' ';
		else if (*c != '\t' && fgt_config_is_control(*c))
			return fgt_config_token_refuse(
				scanner, line,
				"control character 0x%02x; remove it",
				(unsigned int)(unsigned char)*c);
	}
	return 0;
}

static bool is_sign(const struct fgt_config_scanner *scanner, char sign)
{
	return scanner->token.kind == FGT_TOKEN_SIGN &&
	       *scanner->token.text == sign;
}

static int refuse_token(const struct fgt_config_scanner *scanner,
			const char *wanted)
{
	const struct fgt_config_token *token = &scanner->token;

	if (token->kind == FGT_TOKEN_END)
		return fgt_config_token_refuse(
			scanner, token->line,
			"the file ends where %s should be", wanted);
	return fgt_config_token_refuse(
		scanner, token->line, "found `%.*s` where %s should be",
		token->len < WORD_SHOWN ? (int)token->len : WORD_SHOWN,
		token->text, wanted);
}

/* name = value, with an optional ; or , behind it. */
static int scan_setting(struct fgt_config_scanner *scanner)
{
	int error;

	if (scanner->token.kind != FGT_TOKEN_NAME)
		return refuse_token(scanner, "a key");
	if (++scanner->name_count > FGT_CONFIG_NAMES_MAX)
		return fgt_config_token_refuse(scanner, scanner->token.line,
					       "more than %d keys in one file",
					       FGT_CONFIG_NAMES_MAX);
	error = fgt_config_token_next(scanner);
	if (error)
		return error;
	if (!is_sign(scanner, '=') && !is_sign(scanner, ':'))
		return refuse_token(scanner, "`=`");
	error = fgt_config_token_next(scanner);
	if (!error)
		error = scan_value(scanner);
	if (!error && (is_sign(scanner, ';') || is_sign(scanner, ',')))
		error = fgt_config_token_next(scanner);
	return error;
}

static int scan_group(struct fgt_config_scanner *scanner)
{
	int error = fgt_config_token_next(scanner);

	while (!error && !is_sign(scanner, '}')) {
		if (scanner->token.kind == FGT_TOKEN_END)
			return refuse_token(scanner, "`}`");
		error = scan_setting(scanner);
	}
	return error ? error : fgt_config_token_next(scanner);
}

/* ( value, … ) or [ scalar, … ] of one kind. */
static int scan_list(struct fgt_config_scanner *scanner, char close)
{
	const char *wanted = close == ')' ? "`,` or `)`" : "`,` or `]`";
	enum fgt_config_token_kind kind = FGT_TOKEN_END;
	int error = fgt_config_token_next(scanner);

	if (!error && is_sign(scanner, close))
		return fgt_config_token_next(scanner);
	while (!error) {
		if (close == ']' && scanner->token.kind == FGT_TOKEN_SIGN)
			return refuse_token(scanner, "a plain value");
		if (close == ']' && kind != FGT_TOKEN_END &&
		    kind != scanner->token.kind)
			return refuse_token(scanner,
					    "a value like the one before");
		kind = scanner->token.kind;
		error = scan_value(scanner);
		if (error)
			return error;
		if (is_sign(scanner, close))
			return fgt_config_token_next(scanner);
		if (!is_sign(scanner, ','))
			return refuse_token(scanner, wanted);
		error = fgt_config_token_next(scanner);
	}
	return error;
}

static int scan_nested(struct fgt_config_scanner *scanner)
{
	const char open = *scanner->token.text;
	int error;

	if (++scanner->depth > FGT_CONFIG_DEPTH_MAX)
		return fgt_config_token_refuse(scanner, scanner->token.line,
					       "nested deeper than %d levels",
					       FGT_CONFIG_DEPTH_MAX);
	error = open == '{' ? scan_group(scanner)
			    : scan_list(scanner, open == '(' ? ')' : ']');
	scanner->depth--;
	return error;
}

static int scan_value(struct fgt_config_scanner *scanner)
{
	const struct fgt_config_token *token = &scanner->token;
	int error;

	switch (token->kind) {
	case FGT_TOKEN_STRING:
		/* "a" "b" is one string to libconfig. */
		do
			error = fgt_config_token_next(scanner);
		while (!error && token->kind == FGT_TOKEN_STRING);
		return error;
	case FGT_TOKEN_BOOL:
	case FGT_TOKEN_NUMBER:
		return fgt_config_token_next(scanner);
	case FGT_TOKEN_SIGN:
		if (strchr("({[", *token->text))
			return scan_nested(scanner);
		break;
	case FGT_TOKEN_NAME:
		return refuse_token(scanner,
				    "a value (strings stand in double quotes)");
	case FGT_TOKEN_END:
		break;
	}
	return refuse_token(scanner, "a value");
}

int fgt_config_scan(const char *bytes, size_t len, const char *file_name,
		    char **ret_clean, struct fgt_why *why)
{
	struct fgt_config_scanner scanner = { .file_name = file_name,
					      .line = 1,
					      .why = why };
	FGT_AUTO(free) void *copy = NULL;
	int error;

	if (len > FGT_CONFIG_FILE_MAX)
		return fgt_config_token_refuse(&scanner, 1,
					       "larger than 1 MiB");
	if (len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) {
		bytes += 3;
		len -= 3;
	}
	copy = malloc(len + 1);
	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, bytes, len);
	((char *)copy)[len] = 0;
	scanner.at = copy;
	scanner.end = scanner.at + len;
	error = check_text(&scanner);
	if (!error)
		error = fgt_config_token_next(&scanner);
	while (!error && scanner.token.kind != FGT_TOKEN_END)
		error = scan_setting(&scanner);
	if (error)
		return error;
	*ret_clean = FGT_TAKE(copy);
	return 0;
}
