/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags, their environment variables, and the errors for wrong ones.
 * Runs in one thread; the environment is passed in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "agent/cli/options.h"
#include "ringbuf/base/nearest.h"

static const struct fgt_option table[] = {
	{ "from", 0, "T", "", "last " },
	{ "to", 0, "T", "", "last " },
	{ "last", 0, "D", "", "from to " },
	{ "pid", 'p', "PID", "", "name " },
	{ "name", 'n', "NAME", "", "pid " },
	{ "json", 'j', NULL, "", NULL },
	{ "quiet", 'q', NULL, "", NULL },
	{ "upload", 0, "[DEST]", "", NULL },
	{ "state-frames", 0, "WHERE", "", NULL },
	{ .name = NULL },
};

static const struct fgt_verb plain = { .name = "slice",
				       .synopsis = "...",
				       .options = table };
static const struct fgt_verb operands = { .name = "convert",
					  .synopsis = "IN",
					  .options = table,
					  .operands_min = 1,
					  .operands_max = 1 };

static const struct fgt_verb several = { .name = "attach",
					 .synopsis = "PID...",
					 .options = table,
					 .operands_min = 1,
					 .operands_max = INT_MAX };
static const struct fgt_verb command = { .name = "record",
					 .synopsis = "-- CMD",
					 .options = table,
					 .has_command = 1 };

static const char *const *environment; /* name, value, …, NULL */

static char *get_env(const char *name)
{
	for (size_t i = 0; environment && environment[i]; i += 2) {
		if (strcmp(environment[i], name) == 0)
			return (char *)environment[i + 1];
	}
	return NULL;
}

#define READ(verb, ret, why, ...)                                              \
	read_all(verb, (const char *[]){ (verb)->name, __VA_ARGS__, NULL },    \
		 ret, why)

static int read_all(const struct fgt_verb *verb, const char **argv,
		    struct fgt_arguments *arguments, struct fgt_why *why)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return fgt_options_read(verb, argc, (char **)argv, get_env, arguments,
				why);
}

static int reset(void **state)
{
	(void)state;
	environment = NULL;
	return 0;
}

static void values_come_in_every_form(void **state)
{
	struct fgt_arguments a;

	(void)state;
	assert_int_equal(READ(&plain, &a, NULL, "--from", "-10s", "--to=now",
			      "-p", "12", "-qj"),
			 0);
	assert_string_equal(fgt_options_get(&a, "from"), "-10s");
	assert_string_equal(fgt_options_get(&a, "to"), "now");
	assert_string_equal(fgt_options_get(&a, "pid"), "12");
	assert_true(fgt_options_has(&a, "quiet"));
	assert_true(fgt_options_has(&a, "json"));
	assert_false(fgt_options_has(&a, "name"));
	assert_int_equal(READ(&plain, &a, NULL, "-p12", "-jn", "x"), -EINVAL);
	assert_int_equal(READ(&plain, &a, NULL, "-jnx"), 0);
	assert_string_equal(fgt_options_get(&a, "name"), "x");
}

static void optional_value_may_be_left_out(void **state)
{
	struct fgt_arguments a;

	(void)state;
	assert_int_equal(READ(&plain, &a, NULL, "--upload", "--last", "5s"), 0);
	assert_string_equal(fgt_options_get(&a, "upload"), "");
	assert_int_equal(READ(&plain, &a, NULL, "--upload", "lab"), 0);
	assert_string_equal(fgt_options_get(&a, "upload"), "lab");
	assert_int_equal(READ(&plain, &a, NULL, "--upload"), 0);
	assert_string_equal(fgt_options_get(&a, "upload"), "");
}

static void flag_wins_over_environment(void **state)
{
	static const char *const env[] = { "FGTRACE_PID",
					   "7",
					   "FGTRACE_STATE_FRAMES",
					   "leaf",
					   "FGTRACE_JSON",
					   "1",
					   "FGTRACE_QUIET",
					   "0",
					   NULL };
	struct fgt_arguments a;

	(void)state;
	environment = env;
	assert_int_equal(READ(&plain, &a, NULL, "-p", "12"), 0);
	assert_string_equal(fgt_options_get(&a, "pid"), "12");
	assert_string_equal(fgt_options_get(&a, "state-frames"), "leaf");
	assert_true(fgt_options_has(&a, "json"));
	assert_false(fgt_options_has(&a, "quiet"));
	assert_int_equal(READ(&plain, &a, NULL, "--json"), 0);
	assert_string_equal(fgt_options_get(&a, "pid"), "7");
}

static void flag_drops_variables_that_exclude_it(void **state)
{
	static const char *const env[] = { "FGTRACE_LAST", "5s", "FGTRACE_PID",
					   "7", NULL };
	struct fgt_arguments a;

	(void)state;
	environment = env;
	assert_int_equal(READ(&plain, &a, NULL, "--from", "-3s", "-n", "x"), 0);
	assert_null(fgt_options_get(&a, "last"));
	assert_null(fgt_options_get(&a, "pid"));
	assert_string_equal(fgt_options_get(&a, "name"), "x");
}

static void empty_variables_do_not_count(void **state)
{
	static const char *const env[] = { "FGTRACE_PID", "", "FGTRACE_JSON",
					   "", NULL };
	struct fgt_arguments a;

	(void)state;
	environment = env;
	assert_int_equal(READ(&plain, &a, NULL, "-q"), 0);
	assert_null(fgt_options_get(&a, "pid"));
	assert_null(fgt_options_get(&a, "json"));
}

static void assert_why(const struct fgt_why *why, const char *part)
{
	if (!strstr(why->text, part))
		fail_msg("'%s' lacks '%s'", why->text, part);
}

static void wrong_flag_is_reported_with_a_remedy(void **state)
{
	static const char *const env[] = { "FGTRACE_JSON", "maybe", NULL };
	struct fgt_why why;
	struct fgt_arguments a;

	(void)state;
	assert_int_equal(READ(&plain, &a, &why, "--formt"), -EINVAL);
	assert_why(&why, "unknown flag --formt");
	assert_int_equal(READ(&plain, &a, &why, "--state-frame", "x"), -EINVAL);
	assert_why(&why, "did you mean --state-frames?");
	assert_int_equal(READ(&plain, &a, &why, "-x"), -EINVAL);
	assert_why(&why, "fgtrace-agent slice --help");
	assert_int_equal(READ(&plain, &a, &why, "--pid"), -EINVAL);
	assert_why(&why, "--pid needs a value");
	assert_int_equal(READ(&plain, &a, &why, "--pid="), -EINVAL);
	assert_why(&why, "--pid needs a value");
	assert_int_equal(READ(&plain, &a, &why, "--pid", "--json"), -EINVAL);
	assert_why(&why, "--pid needs a value");
	assert_int_equal(READ(&plain, &a, &why, "--json=5"), -EINVAL);
	assert_why(&why, "takes no value");
	assert_int_equal(READ(&plain, &a, &why, "--last", "5s", "--to", "now"),
			 -EINVAL);
	assert_why(&why, "exclude each other");
	assert_int_equal(READ(&plain, &a, &why, "-p7", "--json", "--pid=8"),
			 -EINVAL);
	assert_why(&why, "--pid is given twice");
	assert_int_equal(READ(&plain, &a, &why, "--upload", "--upload", "x"),
			 -EINVAL);
	assert_why(&why, "--upload is given twice");
	assert_int_equal(READ(&plain, &a, &why, "-q", "--quiet"), 0);
	assert_int_equal(READ(&plain, &a, &why, "stray"), -EINVAL);
	assert_why(&why, "one argument too many");
	environment = env;
	assert_int_equal(READ(&plain, &a, &why, "-q"), -EINVAL);
	assert_why(&why, "FGTRACE_JSON='maybe'");
}

static void operands_are_counted(void **state)
{
	struct fgt_why why;
	struct fgt_arguments a;

	(void)state;
	assert_int_equal(READ(&operands, &a, NULL, "in.fgt", "-j"), 0);
	assert_string_equal(a.operands[0], "in.fgt");
	assert_int_equal(READ(&several, &a, NULL, "1", "-j", "2", "--", "-3"),
			 0);
	assert_int_equal(a.operand_count, 3);
	assert_string_equal(a.operands[0], "1");
	assert_string_equal(a.operands[1], "2");
	assert_string_equal(a.operands[2], "-3");
	assert_int_equal(READ(&operands, &a, NULL, "-"), 0);
	assert_string_equal(a.operands[0], "-");
	assert_int_equal(READ(&operands, &a, NULL, "--", "-x"), 0);
	assert_string_equal(a.operands[0], "-x");
	assert_int_equal(READ(&operands, &a, &why, "-j"), -EINVAL);
	assert_why(&why, "convert IN");
	assert_int_equal(READ(&operands, &a, &why, "a", "b"), -EINVAL);
	assert_int_equal(READ(&operands, &a, NULL, "a", "--help"), 0);
	assert_true(a.is_help);
}

static void command_is_left_alone(void **state)
{
	struct fgt_why why;
	struct fgt_arguments a;

	(void)state;
	assert_int_equal(
		READ(&command, &a, NULL, "-q", "--", "ls", "-j", "--help"), 0);
	assert_false(a.is_help);
	assert_false(fgt_options_has(&a, "json"));
	assert_string_equal(a.command[0], "ls");
	assert_string_equal(a.command[2], "--help");
	assert_null(a.command[3]);
	assert_int_equal(READ(&command, &a, NULL, "-q", "--"), 0);
	assert_null(a.command);
	assert_int_equal(READ(&command, &a, &why, "ls"), -EINVAL);
	assert_why(&why, "record [FLAGS] -- ls");
}

static void numbers_are_whole_and_in_range(void **state)
{
	struct fgt_why why;
	struct fgt_arguments a;
	int64_t value = 0;

	(void)state;
	assert_int_equal(READ(&plain, &a, NULL, "-p", "12"), 0);
	assert_int_equal(
		fgt_options_get_number(&a, "pid", 1, 99, 5, &value, NULL), 0);
	assert_int_equal(value, 12);
	assert_int_equal(
		fgt_options_get_number(&a, "name", 1, 99, 5, &value, NULL), 0);
	assert_int_equal(value, 5);
	assert_int_equal(
		fgt_options_get_number(&a, "pid", 1, 11, 5, &value, &why),
		-EINVAL);
	assert_why(&why, "from 1 to 11");
	assert_int_equal(fgt_number_parse("12x", &value), -EINVAL);
	assert_int_equal(fgt_number_parse("", &value), -EINVAL);
	assert_int_equal(fgt_number_parse(" 1", &value), -EINVAL);
	assert_int_equal(fgt_number_parse("+1", &value), -EINVAL);
	assert_int_equal(fgt_number_parse("-", &value), -EINVAL);
	assert_int_equal(fgt_number_parse("99999999999999999999", &value),
			 -ERANGE);
	assert_int_equal(fgt_number_parse("-3", &value), 0);
	assert_int_equal(value, -3);
}

static const char *nearest_of(const char *word)
{
	static const char *const known[] = { "slice", "status", "record",
					     "convert", "config" };
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, word);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		fgt_nearest_offer(&nearest, known[i]);
	return nearest.best ? nearest.best : "";
}

static void nearest_word_is_found_or_none(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("slcie"), "slice");
	assert_string_equal(nearest_of("sliec"), "slice");
	assert_string_equal(nearest_of("stat"), "status");
	assert_string_equal(nearest_of("recrod"), "record");
	assert_string_equal(nearest_of("conf"), "config");
	assert_string_equal(nearest_of("xyzzy"), "");
	assert_string_equal(nearest_of("malice"), "");
	assert_string_equal(nearest_of(""), "");
	assert_string_equal(
		nearest_of("slicesliceslicesliceslicesliceslicesliceslice"),
		"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(values_come_in_every_form, reset),
		cmocka_unit_test_setup(optional_value_may_be_left_out, reset),
		cmocka_unit_test_setup(flag_wins_over_environment, reset),
		cmocka_unit_test_setup(flag_drops_variables_that_exclude_it,
				       reset),
		cmocka_unit_test_setup(empty_variables_do_not_count, reset),
		cmocka_unit_test_setup(wrong_flag_is_reported_with_a_remedy,
				       reset),
		cmocka_unit_test_setup(operands_are_counted, reset),
		cmocka_unit_test_setup(command_is_left_alone, reset),
		cmocka_unit_test_setup(numbers_are_whole_and_in_range, reset),
		cmocka_unit_test_setup(nearest_word_is_found_or_none, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
