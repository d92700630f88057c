/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table-driven reader of flags for all verbs. Prints nothing and reads
 * the environment only through what it is given.
 */
#include "agent/cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/loop/assert.h"
#include "ringbuf/base/nearest.h"

#define ENV_NAME_MAX 64

/* The reader's place in argv. */
struct reader {
	int argc, next;
	char **argv;
	struct fgt_arguments arguments;
	struct fgt_why *why;
};

static int index_of(const struct fgt_verb *verb, const char *name, size_t len)
{
	for (int i = 0; verb->options[i].name; i++) {
		FGT_ASSERT(i < FGT_OPTIONS_MAX);
		if (strncmp(verb->options[i].name, name, len) == 0 &&
		    verb->options[i].name[len] == '\0')
			return i;
	}
	return -ENOENT;
}

static int index_of_letter(const struct fgt_verb *verb, char letter)
{
	for (int i = 0; verb->options[i].name; i++) {
		if (verb->options[i].letter == letter)
			return i;
	}
	return -ENOENT;
}

static int unknown_flag(const struct reader *reader, const char *text,
			size_t len)
{
	const struct fgt_verb *verb = reader->arguments.verb;
	struct fgt_nearest nearest;
	char word[ENV_NAME_MAX];

	snprintf(word, sizeof(word), "%.*s", (int)len, text);
	fgt_nearest_init(&nearest, word);
	for (int i = 0; verb->options[i].name; i++)
		fgt_nearest_offer(&nearest, verb->options[i].name);
	fgt_nearest_offer(&nearest, "help");
	if (nearest.best)
		return fgt_why_set(reader->why, -EINVAL,
				   "unknown flag --%s; did you mean --%s? see "
				   "fgtrace-agent %s --help",
				   word, nearest.best, verb->name);
	return fgt_why_set(reader->why, -EINVAL,
			   "unknown flag --%s; see fgtrace-agent %s --help",
			   word, verb->name);
}

static int missing_value(const struct reader *reader,
			 const struct fgt_option *option)
{
	return fgt_why_set(reader->why, -EINVAL,
			   "--%s needs a value; write --%s %s", option->name,
			   option->name, option->argument);
}

/* A switch may be repeated: it means the same. */
static int set_value(struct reader *reader, int index, const char *value)
{
	const struct fgt_option *option =
		&reader->arguments.verb->options[index];

	if (option->argument && reader->arguments.values[index])
		return fgt_why_set(reader->why, -EINVAL,
				   "--%s is given twice; give it once",
				   option->name);
	reader->arguments.values[index] = value;
	reader->arguments.is_flag[index] = true;
	return 0;
}

/* Takes the value from behind '=' or from the next argument. */
static int read_value(struct reader *reader, int index, const char *attached)
{
	const struct fgt_option *option =
		&reader->arguments.verb->options[index];
	const char *next =
		reader->next < reader->argc ? reader->argv[reader->next] : NULL;

	if (!option->argument) {
		if (attached)
			return fgt_why_set(reader->why, -EINVAL,
					   "--%s takes no value; leave out =%s",
					   option->name, attached);
		return set_value(reader, index, "");
	}
	if (option->argument[0] == '[' && !attached &&
	    (!next || next[0] == '-'))
		return set_value(reader, index, "");
	if (!attached) {
		/* "-10s" is a value, "-o" is the next flag. */
		if (!next ||
		    (next[0] == '-' &&
		     (next[1] == '-' || isalpha((unsigned char)next[1]))))
			return missing_value(reader, option);
		attached = next;
		reader->next++;
	}
	if (*attached == '\0')
		return missing_value(reader, option);
	return set_value(reader, index, attached);
}

static int read_long(struct reader *reader, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : strlen(text);
	int index;

	if (strcmp(text, "help") == 0) {
		reader->arguments.is_help = true;
		return 0;
	}
	index = index_of(reader->arguments.verb, text, len);
	if (index < 0)
		return unknown_flag(reader, text, len);
	return read_value(reader, index, equals ? equals + 1 : NULL);
}

/* "-p 12", "-p12"; switches may be joined: "-qj". */
static int read_short(struct reader *reader, const char *text)
{
	const struct fgt_verb *verb = reader->arguments.verb;

	for (; *text; text++) {
		int index = index_of_letter(verb, *text), r;

		if (*text == 'h') {
			reader->arguments.is_help = true;
			continue;
		}
		if (index < 0)
			return fgt_why_set(reader->why, -EINVAL,
					   "unknown flag -%c; see "
					   "fgtrace-agent %s --help",
					   *text, verb->name);
		if (verb->options[index].argument)
			return read_value(reader, index,
					  text[1] ? text + 1 : NULL);
		r = read_value(reader, index, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_operand(struct reader *reader, char *text)
{
	struct fgt_arguments *arguments = &reader->arguments;

	if (arguments->verb->has_command)
		return fgt_why_set(reader->why, -EINVAL,
				   "'%s' is not a flag; write %s [FLAGS] -- %s "
				   "for a command",
				   text, arguments->verb->name, text);
	if (arguments->operand_count >= arguments->verb->operands_max)
		return fgt_why_set(reader->why, -EINVAL,
				   "'%s' is one argument too many; see "
				   "fgtrace-agent %s --help",
				   text, arguments->verb->name);
	/* Over an argument that has been read. */
	arguments->operands[arguments->operand_count++] = text;
	return 0;
}

/* What follows "--": the command, or operands that begin with a dash. */
static int read_rest(struct reader *reader)
{
	if (reader->arguments.verb->has_command) {
		if (reader->next < reader->argc)
			reader->arguments.command = &reader->argv[reader->next];
		reader->next = reader->argc;
	}
	while (reader->next < reader->argc) {
		int r = add_operand(reader, reader->argv[reader->next++]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_argument(struct reader *reader)
{
	char *text = reader->argv[reader->next++];

	if (strcmp(text, "--") == 0)
		return read_rest(reader);
	if (strncmp(text, "--", 2) == 0)
		return read_long(reader, text + 2);
	if (text[0] == '-' && text[1] != '\0')
		return read_short(reader, text + 1);
	return add_operand(reader, text);
}

/* "FGTRACE_STATE_FRAMES" for "state-frames". */
static void make_env_name(const char *name, char *ret_name, size_t size)
{
	snprintf(ret_name, size, "FGTRACE_%s", name);
	for (char *c = ret_name; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static bool does_exclude(const struct fgt_option *option, const char *name)
{
	const char *at = option->excludes;
	size_t len = strlen(name);

	while (at && *at) {
		if (strncmp(at, name, len) == 0 && at[len] == ' ')
			return true;
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return false;
}

/* A flag that is given and cannot go with this one; negative if none. */
static int find_conflict(const struct fgt_arguments *arguments, int index)
{
	const struct fgt_option *options = arguments->verb->options;

	for (int i = 0; options[i].name; i++) {
		if (i != index && arguments->values[i] &&
		    (does_exclude(&options[i], options[index].name) ||
		     does_exclude(&options[index], options[i].name)))
			return i;
	}
	return -ENOENT;
}

/* "1" → "", "0" → not given. */
static int read_env_switch(const char *env_name, const char **value,
			   struct fgt_why *why)
{
	static const char *const yes[] = { "1", "true", "yes", "on" };
	static const char *const no[] = { "0", "false", "no", "off" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcasecmp(*value, yes[i]) == 0) {
			*value = "";
			return 0;
		}
		if (strcasecmp(*value, no[i]) == 0) {
			*value = NULL;
			return 0;
		}
	}
	return fgt_why_set(why, -EINVAL, "%s='%s' is neither 1 nor 0; unset it",
			   env_name, *value);
}

static int read_environment(struct reader *reader,
			    char *(*get_env)(const char *name))
{
	struct fgt_arguments *arguments = &reader->arguments;
	const struct fgt_option *options = arguments->verb->options;

	for (int i = 0; options[i].name; i++) {
		char name[ENV_NAME_MAX];
		const char *value;
		int r, other = find_conflict(arguments, i);

		if (arguments->values[i] ||
		    (other >= 0 && arguments->is_flag[other]))
			continue;
		make_env_name(options[i].name, name, sizeof(name));
		value = get_env(name);
		if (!value || !*value)
			continue;
		if (!options[i].argument) {
			r = read_env_switch(name, &value, reader->why);
			if (r < 0)
				return r;
		}
		arguments->values[i] = value;
	}
	return 0;
}

static int check(const struct reader *reader)
{
	const struct fgt_arguments *arguments = &reader->arguments;
	const struct fgt_verb *verb = arguments->verb;

	if (arguments->operand_count < verb->operands_min)
		return fgt_why_set(reader->why, -EINVAL,
				   "an argument is missing; write "
				   "fgtrace-agent %s %s",
				   verb->name, verb->synopsis);
	for (int i = 0; verb->options[i].name; i++) {
		int other;

		if (!arguments->values[i])
			continue;
		other = find_conflict(arguments, i);
		if (other >= 0)
			return fgt_why_set(reader->why, -EINVAL,
					   "--%s and --%s exclude each other; "
					   "give one of them",
					   verb->options[i].name,
					   verb->options[other].name);
	}
	return 0;
}

int fgt_options_read(const struct fgt_verb *verb, int argc, char **argv,
		     char *(*get_env)(const char *name),
		     struct fgt_arguments *ret_arguments, struct fgt_why *why)
{
	struct reader reader = { .argc = argc,
				 .next = 1,
				 .argv = argv,
				 .arguments = { .verb = verb,
						.operands = argv + 1 },
				 .why = why };
	int r;

	while (reader.next < reader.argc && !reader.arguments.is_help) {
		r = read_argument(&reader);
		if (r < 0)
			return r;
	}
	if (!reader.arguments.is_help) {
		r = check(&reader);
		if (r == 0)
			r = read_environment(&reader, get_env);
		if (r == 0)
			r = check(&reader);
		if (r < 0)
			return r;
	}
	*ret_arguments = reader.arguments;
	return 0;
}

const char *fgt_options_get(const struct fgt_arguments *arguments,
			    const char *name)
{
	int index = index_of(arguments->verb, name, strlen(name));

	return index < 0 ? NULL : arguments->values[index];
}

bool fgt_options_has(const struct fgt_arguments *arguments, const char *name)
{
	return fgt_options_get(arguments, name);
}

int fgt_number_parse(const char *text, int64_t *ret_value)
{
	char *end;
	long long value;

	if (!isdigit((unsigned char)text[*text == '-']))
		return -EINVAL;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

int fgt_options_get_number(const struct fgt_arguments *arguments,
			   const char *name, int64_t min, int64_t max,
			   int64_t missing, int64_t *ret_value,
			   struct fgt_why *why)
{
	const char *text = fgt_options_get(arguments, name);
	int64_t value = missing;

	if (text &&
	    (fgt_number_parse(text, &value) < 0 || value < min || value > max))
		return fgt_why_set(why, -EINVAL,
				   "--%s '%s' is not a whole number from %lld "
				   "to %lld; correct it",
				   name, text, (long long)min, (long long)max);
	*ret_value = value;
	return 0;
}
