/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the command of a tool's verb. Runs in the main thread.
 */
#include "agent/cli/mcp/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/nearest.h"

#define TEXT_MAX_BYTES 4096 /* of a value */
#define FILE_ENDING    ".fgt"

static int add_word(struct fgt_mcp_command *command, const char *format, ...)
	FGT_PRINTF(2, 3);

static int add_word(struct fgt_mcp_command *command, const char *format, ...)
{
	va_list arguments;
	char *word = NULL;
	int len;

	if (command->count == FGT_MCP_WORDS_MAX)
		return -ENOMEM;
	va_start(arguments, format);
	len = vasprintf(&word, format, arguments);
	va_end(arguments);
	if (len < 0)
		return -ENOMEM;
	command->words[command->count++] = word;
	return 0;
}

void fgt_mcp_command_done(struct fgt_mcp_command *command)
{
	while (command->count > 0)
		free(command->words[--command->count]);
}

/* ---- What the client gave ------------------------------------------------ */

static const struct fgt_mcp_argument *
find_argument(const struct fgt_mcp_tool *tool, const char *name)
{
	const struct fgt_mcp_argument *argument = tool->arguments;

	while (argument->name && strcmp(argument->name, name) != 0)
		argument++;
	return argument->name ? argument : NULL;
}

static int unknown_argument(const struct fgt_mcp_tool *tool, const char *name,
			    struct fgt_why *why)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name);
	for (const struct fgt_mcp_argument *known = tool->arguments;
	     known->name; known++)
		fgt_nearest_offer(&nearest, known->name);
	if (nearest.best)
		return fgt_why_set(why, -EINVAL,
				   "%s has no argument '%.64s'; did you mean "
				   "'%s'?",
				   tool->name, name, nearest.best);
	return fgt_why_set(why, -EINVAL,
			   "%s has no argument '%.64s'; tools/list shows those "
			   "that it has",
			   tool->name, name);
}

static int check_value(const struct fgt_mcp_argument *argument,
		       const struct fgt_mcp_value *value, struct fgt_why *why)
{
	static const char *const kinds[] = {
		[FGT_MCP_TEXT] = "a string without \\u0000",
		[FGT_MCP_NUMBER] = "a whole number",
		[FGT_MCP_SWITCH] = "true or false"
	};

	if (value->type != argument->type)
		return fgt_why_set(why, -EINVAL,
				   "argument '%s' must be %s; correct it",
				   argument->name, kinds[argument->type]);
	if (value->type == FGT_MCP_TEXT && !*value->text)
		return fgt_why_set(why, -EINVAL,
				   "argument '%s' is empty; leave it out, or "
				   "give a value",
				   argument->name);
	if (value->type == FGT_MCP_TEXT && strlen(value->text) > TEXT_MAX_BYTES)
		return fgt_why_set(why, -EINVAL,
				   "argument '%s' has more than %d bytes; "
				   "shorten it",
				   argument->name, TEXT_MAX_BYTES);
	return 0;
}

static int check_arguments(const struct fgt_mcp_tool *tool,
			   struct json_t *arguments, struct fgt_why *why)
{
	const char *name;
	void *at = NULL;
	int r = 0;

	while (r == 0 && (name = fgt_mcp_next_key(arguments, &at))) {
		const struct fgt_mcp_argument *argument =
			find_argument(tool, name);
		struct fgt_mcp_value value = fgt_mcp_get(arguments, name);

		r = argument ? check_value(argument, &value, why)
			     : unknown_argument(tool, name, why);
	}
	return r;
}

/* ---- The words ----------------------------------------------------------- */

static int add_flag(struct fgt_mcp_command *command,
		    const struct fgt_mcp_argument *argument,
		    const struct fgt_mcp_value *value)
{
	switch (value->type) {
	case FGT_MCP_TEXT:
		return add_word(command, "%s=%s", argument->flag, value->text);
	case FGT_MCP_NUMBER:
		return add_word(command, "%s=%" PRId64, argument->flag,
				value->number);
	default:
		return value->is_true ? add_word(command, "%s", argument->flag)
				      : 0;
	}
}

/* Other files are not opened: a client must not learn what they are. */
static int add_file(struct fgt_mcp_command *command,
		    const struct fgt_mcp_argument *argument, const char *path,
		    struct fgt_why *why)
{
	size_t len = strlen(path), ending = strlen(FILE_ENDING);

	if (len <= ending || strcmp(path + len - ending, FILE_ENDING) != 0)
		return fgt_why_set(
			why, -EINVAL,
			"argument '%s' must be the path of a " FILE_ENDING
			" file, which slice -o or record writes",
			argument->name);
	return add_word(command, "%s", path);
}

/* Flags, or the files, which follow them. */
static int add_arguments(struct fgt_mcp_command *command,
			 const struct fgt_mcp_tool *tool,
			 struct json_t *arguments, bool is_file,
			 struct fgt_why *why)
{
	int r = 0;

	for (const struct fgt_mcp_argument *argument = tool->arguments;
	     r == 0 && argument->name; argument++) {
		struct fgt_mcp_value value =
			fgt_mcp_get(arguments, argument->name);

		if (value.type == FGT_MCP_ABSENT || is_file != !argument->flag)
			continue;
		r = is_file ? add_file(command, argument, value.text, why)
			    : add_flag(command, argument, &value);
	}
	return r;
}

/* A verb refuses a flag that is given twice. */
static bool is_flag_wanted(const struct fgt_mcp_tool *tool,
			   struct json_t *arguments)
{
	size_t len;

	if (!tool->flag)
		return false;
	len = strcspn(tool->flag, "=");
	for (const struct fgt_mcp_argument *argument = tool->arguments;
	     argument->name; argument++)
		if (argument->flag && strlen(argument->flag) == len &&
		    !strncmp(tool->flag, argument->flag, len) &&
		    fgt_mcp_get(arguments, argument->name).type !=
			    FGT_MCP_ABSENT)
			return false;
	return true;
}

int fgt_mcp_command_make(const struct fgt_mcp_tool *tool,
			 struct json_t *arguments, const char *socket_path,
			 const char *json_path,
			 struct fgt_mcp_command *ret_command,
			 struct fgt_why *why)
{
	FGT_AUTO(fgt_mcp_command_done)
	struct fgt_mcp_command command = { .count = 0 };
	int r = check_arguments(tool, arguments, why);

	if (r == 0)
		r = add_word(&command, "fgtrace-agent");
	if (r == 0)
		r = add_word(&command, "%s", tool->verb);
	if (r == 0)
		r = add_word(&command, "--socket=%s", socket_path);
	if (r == 0)
		r = add_word(&command, "--json-to=%s", json_path);
	if (r == 0 && is_flag_wanted(tool, arguments))
		r = add_word(&command, "%s", tool->flag);
	if (r == 0)
		r = add_arguments(&command, tool, arguments, false, why);
	if (r == 0)
		r = add_word(&command, "--");
	if (r == 0)
		r = add_arguments(&command, tool, arguments, true, why);
	if (r == -ENOMEM)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	if (r < 0)
		return r;
	*ret_command = command;
	command.count = 0; /* they are the caller's now */
	return 0;
}
