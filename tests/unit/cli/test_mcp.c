/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the Model Context Protocol without its verbs: lines, requests,
 * answers, and what a client's arguments become.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/mcp/command.h"
#include "agent/cli/mcp/lines.h"
#include "agent/cli/mcp/mcp.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/sink.h"

#define ANSWERS_MAX 65536
#define SOCKET	    "/nowhere/agent.sock"

/* A file that holds text, at its begin. */
static int file_of(const char *text, size_t len)
{
	int fd;

	assert_int_equal(fgt_memfd_open("mcp", 0, &fd), 0);
	assert_int_equal(fgt_fd_write(fd, text, len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* What the server writes for what it reads; free(). */
static char *answers_to(const char *text)
{
	char *answers = calloc(1, ANSWERS_MAX);
	int in_fd = file_of(text, strlen(text)), out_fd = file_of("", 0);

	assert_non_null(answers);
	assert_int_equal(fgt_mcp_serve(in_fd, out_fd, SOCKET), 0);
	assert_true(pread(out_fd, answers, ANSWERS_MAX - 1, 0) >= 0);
	close(in_fd);
	close(out_fd);
	return answers;
}

static void expect(const char *text, const char *answer)
{
	char *answers = answers_to(text);

	if (!strstr(answers, answer))
		fail_msg("%s: %s: no %s", text, answers, answer);
	free(answers);
}

/* ---- Lines --------------------------------------------------------------- */

static void lines_end_at_newlines_and_at_the_end(void **state)
{
	int fd = file_of("one\n\ntwo", 8);
	struct fgt_mcp_lines lines;
	char *line;
	size_t len;

	(void)state;
	assert_int_equal(fgt_mcp_lines_init(fd, &lines), 0);
	assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 1);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "one", 3);
	assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 1);
	assert_int_equal(len, 0);
	assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 1);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "two", 3);
	assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 0);
	fgt_mcp_lines_done(&lines);
	close(fd);
}

static void line_of_the_most_is_taken_and_a_longer_one_is_not(void **state)
{
	static const size_t lens[] = { FGT_MCP_LINE_MAX, FGT_MCP_LINE_MAX + 1,
				       3 * FGT_MCP_LINE_MAX };
	char *text = malloc(3 * FGT_MCP_LINE_MAX + 3);

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < 3; i++) {
		struct fgt_mcp_lines lines;
		char *line;
		size_t len;
		int fd;

		memset(text, 'x', lens[i]);
		memcpy(text + lens[i], "\ny\n", 3);
		fd = file_of(text, lens[i] + 3);
		assert_int_equal(fgt_mcp_lines_init(fd, &lines), 0);
		assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len),
				 i ? -EMSGSIZE : 1);
		assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 1);
		assert_int_equal(len, 1);
		assert_memory_equal(line, "y", 1);
		assert_int_equal(fgt_mcp_lines_next(&lines, &line, &len), 0);
		fgt_mcp_lines_done(&lines);
		close(fd);
	}
	free(text);
}

/* ---- Requests ------------------------------------------------------------ */

#define REQUEST(id, rest) "{\"jsonrpc\":\"2.0\",\"id\":" id "," rest "}\n"
#define CODE(code)	  "\"error\":{\"code\":" code ","

static void wrong_message_gets_the_code_of_its_mistake(void **state)
{
	(void)state;
	expect("{\n", "\"id\":null," CODE("-32700"));
	expect("{\"a\":1,\"a\":2}\n", CODE("-32700"));
	expect("\xff\n", CODE("-32700"));
	expect("42\n", "\"id\":null," CODE("-32600"));
	expect("[]\n", "\"id\":null," CODE("-32600"));
	expect("{\"id\":1,\"method\":\"ping\"}\n", CODE("-32600"));
	expect(REQUEST("null", "\"method\":\"ping\""), CODE("-32600"));
	expect(REQUEST("1.5", "\"method\":\"ping\""), CODE("-32600"));
	expect(REQUEST("7", "\"method\":7"), "\"id\":7," CODE("-32600"));
	expect(REQUEST("\"a\"", "\"method\":\"ping\",\"params\":[]"),
	       "\"id\":\"a\"," CODE("-32602"));
	expect(REQUEST("8", "\"method\":\"resources/list\""),
	       "\"id\":8," CODE("-32601"));
	expect(REQUEST("9", "\"method\":\"initialize\""),
	       "\"id\":9," CODE("-32602"));
	expect(REQUEST("9", "\"method\":\"tools/call\",\"params\":"
			    "{\"name\":\"slice\"}"),
	       CODE("-32602") "\"message\":\"Unknown tool: slice");
	expect(REQUEST("9", "\"method\":\"tools/call\",\"params\":"
			    "{\"name\":\"why\",\"arguments\":[]}"),
	       CODE("-32602"));
	expect(REQUEST("9", "\"method\":\"tools/list\",\"params\":"
			    "{\"cursor\":\"x\"}"),
	       CODE("-32602"));
}

static void message_without_an_id_has_no_answer(void **state)
{
	char *answers = answers_to(
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
		"initialized\"}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":1}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"
		"[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n"
		"\r\n \t\n");

	(void)state;
	assert_string_equal(answers, "");
	free(answers);
}

static void batch_is_answered_by_one_line(void **state)
{
	char *answers = answers_to("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":"
				   "\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":"
				   "\"x\"},7]\n");

	(void)state;
	assert_string_equal(
		answers,
		"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},"
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
		"\"message\":\"not a request: send an object with jsonrpc "
		"\\\"2.0\\\", an id, a method and params\"}}]\n");
	free(answers);
}

/* Of C it would be the end of the text. */
static void text_with_a_nul_is_refused_and_not_cut(void **state)
{
	(void)state;
	expect(REQUEST("1", "\"method\":\"ping\\u0000x\""),
	       "\"id\":1," CODE("-32600"));
	expect(REQUEST("\"a\\u0000b\"", "\"method\":\"ping\""),
	       "\"id\":\"a\\u0000b\",\"result\"");
	expect(REQUEST("2", "\"method\":\"tools/call\",\"params\":"
			    "{\"name\":\"why\\u0000x\"}"),
	       "\"id\":2," CODE("-32602"));
	expect(REQUEST("3", "\"method\":\"tools/call\",\"params\":"
			    "{\"name\":\"why\",\"arguments\":"
			    "{\"name\":\"redis\\u0000x\"}}"),
	       "\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
	       "\"argument 'name' must be a string without");
}

/* ---- Revisions ----------------------------------------------------------- */

static void known_revision_is_taken_and_others_get_the_newest(void **state)
{
	static const char *const known[] = { "2025-11-25", "2025-06-18",
					     "2025-03-26", "2024-11-05" };
	char text[256], answer[64];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(text, sizeof(text),
			 REQUEST("1", "\"method\":\"initialize\",\"params\":"
				      "{\"protocolVersion\":\"%s\"}"),
			 known[i]);
		snprintf(answer, sizeof(answer), "\"protocolVersion\":\"%s\"",
			 known[i]);
		expect(text, answer);
	}
	/* That one has no initialize. */
	expect(REQUEST("1", "\"method\":\"initialize\",\"params\":"
			    "{\"protocolVersion\":\"2026-07-28\"}"),
	       "\"protocolVersion\":\"2025-11-25\"");
	expect(REQUEST("1", "\"method\":\"initialize\",\"params\":"
			    "{\"protocolVersion\":\"1999-01-01\"}"),
	       "\"protocolVersion\":\"2025-11-25\"");
}

#define META(version, more)                                                    \
	"\"params\":{\"_meta\":{\"io.modelcontextprotocol/"                    \
	"protocolVersion\":" version more "}}"
#define CAPABLE ",\"io.modelcontextprotocol/clientCapabilities\":{}"

static void request_with_its_revision_needs_no_initialize(void **state)
{
	(void)state;
	expect(REQUEST("1",
		       "\"method\":\"ping\"," META("\"2026-07-28\"", CAPABLE)),
	       "\"result\":{\"resultType\":\"complete\",\"_meta\":{"
	       "\"io.modelcontextprotocol/serverInfo\":");
	expect(REQUEST("1", "\"method\":\"server/discover\"," META(
				    "\"2026-07-28\"", CAPABLE)),
	       "\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\",");
	expect(REQUEST("1", "\"method\":\"tools/list\"," META("\"2026-07-28\"",
							      CAPABLE)),
	       "\"ttlMs\":3600000,\"cacheScope\":\"public\"");
	expect(REQUEST("1", "\"method\":\"ping\"," META("\"1999-01-01\"", "")),
	       CODE("-32022"));
	expect(REQUEST("1", "\"method\":\"ping\"," META("\"1999-01-01\"", "")),
	       "\"data\":{\"supported\":[\"2026-07-28\",");
	expect(REQUEST("1", "\"method\":\"ping\"," META("\"2026-07-28\"", "")),
	       CODE("-32602"));
	expect(REQUEST("1", "\"method\":\"ping\"," META("7", CAPABLE)),
	       CODE("-32602"));
	expect(REQUEST("1", "\"method\":\"server/discover\""), CODE("-32602"));
	/* Without any revision: as the older ones, whose results are empty. */
	expect(REQUEST("1", "\"method\":\"ping\""), "\"result\":{}}\n");
}

/* ---- Tools --------------------------------------------------------------- */

/* {"NAME":VALUE} */
static struct json_t *one_argument(const char *name, const char *value)
{
	struct json_t *object = NULL;
	struct fgt_why why;
	char text[512];
	int len = snprintf(text, sizeof(text), "{\"%s\":%s}", name, value);

	assert_int_equal(
		fgt_mcp_message_parse(text, (size_t)len, &object, &why), 0);
	return object;
}

static int make(const struct fgt_mcp_tool *tool, const char *name,
		const char *value, struct fgt_mcp_command *command)
{
	struct json_t *arguments = one_argument(name, value);
	struct fgt_why why = { "" };
	int r = fgt_mcp_command_make(tool, arguments, SOCKET, "/json", command,
				     &why);

	if (r < 0)
		assert_true(why.text[0]);
	fgt_mcp_message_free(arguments);
	return r;
}

/* Everything that is no value of the client. */
static const char *const fixed[] = {
	"fgtrace-agent", "targets",    "slice",	      "why",
	"stacks",	 "diff",       "--",	      "--json-to=/json",
	"--threads=100", "--top=10",   "--format=md", "--running",
	"--no-idle",	 "--children", "--all",	      "--socket=" SOCKET,
};

static bool is_fixed(const char *word)
{
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		if (strcmp(word, fixed[i]) == 0)
			return true;
	}
	return false;
}

/* The value stands behind the '=' of the argument's flag, or behind "--". */
static void check_words(const struct fgt_mcp_argument *argument,
			const struct fgt_mcp_command *command,
			const char *value)
{
	const char *last = command->words[command->count - 1];
	bool is_operand = false, is_seen = false;

	for (int i = 0; i < command->count; i++) {
		const char *word = command->words[i];
		size_t len = argument->flag ? strlen(argument->flag) : 0;

		if (!len && strcmp(word, value) == 0) {
			assert_true(is_operand);
			is_seen = true;
		} else if (len && strncmp(word, argument->flag, len) == 0 &&
			   strcmp(word + len + 1, value) == 0) {
			assert_int_equal(word[len], '=');
			is_seen = true;
		} else {
			assert_true(is_fixed(word));
		}
		is_operand |= strcmp(word, "--") == 0;
	}
	assert_true(is_seen);
	if (!argument->flag)
		assert_string_equal(last, value);
}

static void text_of_a_client_becomes_no_flag(void **state)
{
	static const char *const texts[] = {
		"--output=/tmp/x.fgt",
		"-o/tmp/x.fgt",
		"--upload=x.fgt",
		"-",
		"--",
		"--socket=/x.fgt",
		"=",
		"--json-to=.fgt",
		" -o x.fgt",
	};
	struct fgt_mcp_command command;
	char quoted[64];

	(void)state;
	for (const struct fgt_mcp_tool *tool = fgt_mcp_tools; tool->name;
	     tool++) {
		const struct fgt_mcp_argument *argument = tool->arguments;

		for (; argument->name; argument++) {
			for (size_t i = 0; i < 9; i++) {
				const char *text = texts[i];

				if (argument->type != FGT_MCP_TEXT)
					continue;
				snprintf(quoted, sizeof(quoted), "\"%s\"",
					 text);
				if (!argument->flag && !strstr(text, ".fgt")) {
					assert_int_equal(make(tool,
							      argument->name,
							      quoted, &command),
							 -EINVAL);
					continue;
				}
				assert_int_equal(make(tool, argument->name,
						      quoted, &command),
						 0);
				check_words(argument, &command, text);
				fgt_mcp_command_done(&command);
			}
		}
	}
}

static void argument_of_another_type_or_name_is_refused(void **state)
{
	const struct fgt_mcp_tool *tool = fgt_mcp_tool_find("threads");
	struct fgt_mcp_command command;

	(void)state;
	assert_int_equal(make(tool, "pid", "\"12\"", &command), -EINVAL);
	assert_int_equal(make(tool, "pid", "1.5", &command), -EINVAL);
	assert_int_equal(make(tool, "pid", "null", &command), -EINVAL);
	assert_int_equal(make(tool, "name", "12", &command), -EINVAL);
	assert_int_equal(make(tool, "name", "\"\"", &command), -EINVAL);
	assert_int_equal(make(tool, "name", "[\"a\"]", &command), -EINVAL);
	assert_int_equal(make(tool, "running", "1", &command), -EINVAL);
	assert_int_equal(make(tool, "output", "\"x.fgt\"", &command), -EINVAL);
	assert_int_equal(make(tool, "--name", "\"x\"", &command), -EINVAL);
	/* 5.0 is a whole number in JSON. */
	assert_int_equal(make(tool, "pid", "5.0", &command), 0);
	assert_string_equal(command.words[5], "--pid=5");
	fgt_mcp_command_done(&command);
	assert_int_equal(make(tool, "running", "false", &command), 0);
	assert_int_equal(command.count, 6);
	fgt_mcp_command_done(&command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_at_newlines_and_at_the_end),
		cmocka_unit_test(
			line_of_the_most_is_taken_and_a_longer_one_is_not),
		cmocka_unit_test(wrong_message_gets_the_code_of_its_mistake),
		cmocka_unit_test(message_without_an_id_has_no_answer),
		cmocka_unit_test(batch_is_answered_by_one_line),
		cmocka_unit_test(text_with_a_nul_is_refused_and_not_cut),
		cmocka_unit_test(
			known_revision_is_taken_and_others_get_the_newest),
		cmocka_unit_test(request_with_its_revision_needs_no_initialize),
		cmocka_unit_test(text_of_a_client_becomes_no_flag),
		cmocka_unit_test(argument_of_another_type_or_name_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
