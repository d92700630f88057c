/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads requests, calls tools and writes answers. Runs in the main thread. What
 * it writes is protocol; errors of a tool go into its result, so that a model
 * reads them.
 */
#include "agent/cli/mcp/mcp.h"

#include <errno.h>
#include <string.h>

#include "agent/cli/mcp/command.h"
#include "agent/cli/mcp/lines.h"
#include "agent/cli/mcp/run_verb.h"

#define MODERN_VERSION "2026-07-28"
#define SERVER_INFO    "io.modelcontextprotocol/serverInfo"
#define CACHE_MS       3600000 /* tools change with the program only */

/* Newest first. All that begin with "initialize" but MODERN_VERSION. */
static const char *const versions[] = { MODERN_VERSION, "2025-11-25",
					"2025-06-18", "2025-03-26",
					"2024-11-05" };
#define VERSION_COUNT (sizeof(versions) / sizeof(versions[0]))

struct mcp_server {
	const char *socket_path;
	struct fgt_mcp_lines lines;
	struct fgt_json json; /* the line that is written */
	bool is_batch; /* the line is an array of answers */
	bool has_answer; /* something was written into it */
};

/* ---- Parts of answers ---------------------------------------------------- */

static void begin_answer(struct mcp_server *server,
			 const struct fgt_mcp_request *request)
{
	FGT_AUTO(free)
	void *id = request->id ? fgt_mcp_json_of(request->id) : NULL;
	const char *text = id ? id : "null";

	if (server->is_batch && !server->has_answer)
		fgt_json_begin_array(&server->json, NULL);
	server->has_answer = true;
	fgt_json_begin_object(&server->json, NULL);
	fgt_json_put_string(&server->json, "jsonrpc", "2.0");
	fgt_json_put_raw(&server->json, "id", text, strlen(text));
}

static void put_versions(struct mcp_server *server, const char *key)
{
	fgt_json_begin_array(&server->json, key);
	for (size_t i = 0; i < VERSION_COUNT; i++)
		fgt_json_put_string(&server->json, NULL, versions[i]);
	fgt_json_end_array(&server->json);
}

static void put_error(struct mcp_server *server,
		      const struct fgt_mcp_request *request,
		      enum fgt_mcp_code code, const char *message)
{
	struct fgt_json *json = &server->json;

	begin_answer(server, request);
	fgt_json_begin_object(json, "error");
	fgt_json_put_int(json, "code", code);
	fgt_json_put_string(json, "message", message);
	if (code == FGT_MCP_NO_VERSION) {
		fgt_json_begin_object(json, "data");
		put_versions(server, "supported");
		fgt_json_put_string(json, "requested", request->version);
		fgt_json_end_object(json);
	}
	fgt_json_end_object(json);
	fgt_json_end_object(json);
}

static void put_server(struct mcp_server *server, const char *key)
{
	fgt_json_begin_object(&server->json, key);
	fgt_json_put_string(&server->json, "name", "fgtrace");
	fgt_json_put_string(&server->json, "title",
			    "fgtrace: what every thread did");
	fgt_json_put_string(&server->json, "version", FGT_VERSION);
	fgt_json_end_object(&server->json);
}

static bool is_modern(const struct fgt_mcp_request *request)
{
	return request->version &&
	       strcmp(request->version, MODERN_VERSION) == 0;
}

/* Clients of older revisions take no members that they do not know. */
static void begin_result(struct mcp_server *server,
			 const struct fgt_mcp_request *request)
{
	struct fgt_json *json = &server->json;

	begin_answer(server, request);
	fgt_json_begin_object(json, "result");
	if (!is_modern(request))
		return;
	fgt_json_put_string(json, "resultType", "complete");
	fgt_json_begin_object(json, "_meta");
	put_server(server, SERVER_INFO);
	fgt_json_end_object(json);
}

static void end_result(struct mcp_server *server)
{
	fgt_json_end_object(&server->json);
	fgt_json_end_object(&server->json);
}

static void put_capabilities(struct mcp_server *server)
{
	fgt_json_begin_object(&server->json, "capabilities");
	fgt_json_begin_object(&server->json, "tools");
	fgt_json_end_object(&server->json);
	fgt_json_end_object(&server->json);
	fgt_json_put_string(&server->json, "instructions",
			    fgt_mcp_instructions);
}

static void put_caching(struct mcp_server *server,
			const struct fgt_mcp_request *request)
{
	if (!is_modern(request))
		return;
	fgt_json_put_uint(&server->json, "ttlMs", CACHE_MS);
	fgt_json_put_string(&server->json, "cacheScope", "public");
}

/* ---- Methods ------------------------------------------------------------- */

static void initialize(struct mcp_server *server,
		       const struct fgt_mcp_request *request)
{
	struct fgt_mcp_value wanted =
		fgt_mcp_get(request->params, "protocolVersion");
	const char *chosen = versions[1];

	if (wanted.type != FGT_MCP_TEXT) {
		put_error(server, request, FGT_MCP_WRONG_PARAMS,
			  "initialize needs params.protocolVersion, a string "
			  "such as \"2025-11-25\"");
		return;
	}
	for (size_t i = 1; i < VERSION_COUNT; i++) {
		if (strcmp(wanted.text, versions[i]) == 0)
			chosen = versions[i];
	}
	begin_result(server, request);
	fgt_json_put_string(&server->json, "protocolVersion", chosen);
	put_capabilities(server);
	put_server(server, "serverInfo");
	end_result(server);
}

static void ping(struct mcp_server *server,
		 const struct fgt_mcp_request *request)
{
	begin_result(server, request);
	end_result(server);
}

/* It is of the modern revision only. */
static void discover(struct mcp_server *server,
		     const struct fgt_mcp_request *request)
{
	if (!is_modern(request)) {
		put_error(server, request, FGT_MCP_WRONG_PARAMS,
			  "server/discover needs the version " MODERN_VERSION
			  " in params._meta; older clients send initialize");
		return;
	}
	begin_result(server, request);
	put_versions(server, "supportedVersions");
	put_capabilities(server);
	put_caching(server, request);
	end_result(server);
}

static void list_tools(struct mcp_server *server,
		       const struct fgt_mcp_request *request)
{
	if (fgt_mcp_get(request->params, "cursor").type != FGT_MCP_ABSENT) {
		put_error(server, request, FGT_MCP_WRONG_PARAMS,
			  "unknown cursor: there is one page; leave it out");
		return;
	}
	begin_result(server, request);
	fgt_mcp_tools_put(&server->json);
	put_caching(server, request);
	end_result(server);
}

static void put_tool_result(struct mcp_server *server,
			    const struct fgt_mcp_request *request,
			    const char *text, size_t len,
			    const struct fgt_mcp_output *output)
{
	struct fgt_json *json = &server->json;
	bool is_error = !output || output->status;
	size_t json_len = output ? output->json.len_bytes : 0;

	if (len > 0 && text[len - 1] == '\n')
		len--;
	begin_result(server, request);
	fgt_json_begin_array(json, "content");
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", "text");
	fgt_json_put_text(json, "text", text, len);
	fgt_json_end_object(json);
	fgt_json_end_array(json);
	/* Without the newline at its end. */
	if (!is_error && json_len > 1)
		fgt_json_put_raw(json, "structuredContent",
				 (const char *)output->json.bytes,
				 json_len - 1);
	fgt_json_put_bool(json, "isError", is_error);
	end_result(server);
}

/* While a tool runs. */
struct mcp_call {
	struct mcp_server *server;
	const struct fgt_mcp_request *request;
};

static bool is_cancelled(void *context, int *fd)
{
	const struct mcp_call *call = context;
	struct fgt_mcp_lines *lines = &call->server->lines;
	const char *line;
	size_t at = 0, len;

	if (fgt_mcp_lines_fill(lines) < 0 || !fgt_mcp_lines_has_room(lines))
		*fd = -1;
	while (fgt_mcp_lines_peek(lines, &at, &line, &len)) {
		if (fgt_mcp_is_cancelled(line, len, call->request->id))
			return true;
	}
	return false;
}

/* Mistakes in arguments are results, too: a model can correct them, and hosts
 * keep errors of the protocol to themselves (SEP-1303). */
static void run_tool(struct mcp_server *server,
		     const struct fgt_mcp_request *request,
		     const struct fgt_mcp_tool *tool, struct json_t *arguments)
{
	FGT_AUTO(fgt_mcp_command_done)
	struct fgt_mcp_command command = { .count = 0 };
	FGT_AUTO(fgt_mcp_output_done)
	struct fgt_mcp_output output = { .status = 0 };
	struct mcp_call call = { server, request };
	struct fgt_mcp_stop stop = { is_cancelled, &call, server->lines.fd };
	struct fgt_why why = { "" };
	int r = fgt_mcp_command_make(tool, arguments, server->socket_path,
				     FGT_MCP_JSON_PATH, &command, &why);

	if (!fgt_mcp_lines_has_room(&server->lines))
		stop.fd = -1;
	if (r == 0)
		r = fgt_mcp_run_verb(command.words, stop, &output, &why);
	if (r == -ECANCELED)
		return; /* the client wants no answer */
	if (r < 0)
		put_tool_result(server, request, why.text, strlen(why.text),
				NULL);
	else
		put_tool_result(server, request,
				(const char *)output.text.bytes,
				output.text.len_bytes, &output);
}

static void call_tool(struct mcp_server *server,
		      const struct fgt_mcp_request *request)
{
	struct fgt_mcp_value name = fgt_mcp_get(request->params, "name");
	struct fgt_mcp_value arguments =
		fgt_mcp_get(request->params, "arguments");
	const struct fgt_mcp_tool *tool;
	struct fgt_why why = { "" };

	if (name.type != FGT_MCP_TEXT || (arguments.type != FGT_MCP_OBJECT &&
					  arguments.type != FGT_MCP_ABSENT)) {
		put_error(server, request, FGT_MCP_WRONG_PARAMS,
			  "tools/call needs params.name, a string, and "
			  "params.arguments, an object");
		return;
	}
	tool = fgt_mcp_tool_find(name.text);
	if (tool) {
		run_tool(server, request, tool, arguments.object);
		return;
	}
	fgt_why_set(&why, 0, "Unknown tool: %.64s; tools/list shows the tools",
		    name.text);
	put_error(server, request, FGT_MCP_WRONG_PARAMS, why.text);
}

static const struct {
	const char *name;
	void (*answer)(struct mcp_server *server,
		       const struct fgt_mcp_request *request);
} methods[] = {
	{ "initialize", initialize },	 { "ping", ping },
	{ "server/discover", discover }, { "tools/list", list_tools },
	{ "tools/call", call_tool },
};

/* ---- Messages ------------------------------------------------------------ */

static enum fgt_mcp_code check_version(const struct fgt_mcp_request *request,
				       struct fgt_why *why)
{
	bool is_known = !request->version;

	for (size_t i = 0; !is_known && i < VERSION_COUNT; i++)
		is_known = strcmp(request->version, versions[i]) == 0;
	if (!is_known) {
		fgt_why_set(why, 0, "Unsupported protocol version");
		return FGT_MCP_NO_VERSION;
	}
	if (is_modern(request) && !request->has_capabilities) {
		fgt_why_set(why, 0,
			    "params._meta needs "
			    "io.modelcontextprotocol/clientCapabilities, an "
			    "object");
		return FGT_MCP_WRONG_PARAMS;
	}
	return FGT_MCP_OK;
}

static void answer_request(struct mcp_server *server,
			   const struct fgt_mcp_request *request)
{
	struct fgt_why why = { "" };
	enum fgt_mcp_code code = check_version(request, &why);

	if (code != FGT_MCP_OK) {
		put_error(server, request, code, why.text);
		return;
	}
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(request->method, methods[i].name) == 0) {
			methods[i].answer(server, request);
			return;
		}
	}
	fgt_why_set(&why, 0, "Method not found: %.64s; this server has tools",
		    request->method);
	put_error(server, request, FGT_MCP_NO_METHOD, why.text);
}

static void answer_message(struct mcp_server *server, struct json_t *message)
{
	struct fgt_mcp_request request;
	struct fgt_why why = { "" };
	enum fgt_mcp_code code = fgt_mcp_request_read(message, &request, &why);

	/* A notification has no answer, even if it is wrong. */
	if (code == FGT_MCP_NO_REQUEST || (code != FGT_MCP_OK && request.id))
		put_error(server, &request, code, why.text);
	else if (request.method && request.id)
		answer_request(server, &request);
}

static void answer_batch(struct mcp_server *server, struct json_t *batch)
{
	static const struct fgt_mcp_request no_request = { .id = NULL };
	size_t size = fgt_mcp_batch_size(batch);

	if (size == 0) {
		put_error(server, &no_request, FGT_MCP_NO_REQUEST,
			  "the batch is empty; send one object a line");
		return;
	}
	server->is_batch = true;
	for (size_t i = 0; i < size; i++)
		answer_message(server, fgt_mcp_batch_get(batch, i));
	if (server->has_answer)
		fgt_json_end_array(&server->json);
}

/* line NULL: it was too long. */
static void answer_line(struct mcp_server *server, const char *line, size_t len)
{
	static const struct fgt_mcp_request no_request = { .id = NULL };
	FGT_AUTO(fgt_mcp_message_free) struct json_t *message = NULL;
	struct fgt_why why = { "" };

	if (!line)
		put_error(server, &no_request, FGT_MCP_NO_REQUEST,
			  "the line has more than 1 MiB; send less");
	else if (fgt_mcp_message_parse(line, len, &message, &why) < 0)
		put_error(server, &no_request, FGT_MCP_NO_JSON, why.text);
	else if (fgt_mcp_message_is_batch(message))
		answer_batch(server, message);
	else
		answer_message(server, message);
}

static bool is_blank(const char *line, size_t len)
{
	while (len > 0 && strchr(" \t\r", line[len - 1]) && line[len - 1])
		len--;
	return len == 0;
}

int fgt_mcp_serve(int in_fd, int out_fd, const char *socket_path)
{
	const struct fgt_sink sink = fgt_fd_sink(&out_fd);
	struct mcp_server server = { .socket_path = socket_path };
	char *line;
	size_t len;
	int r = fgt_mcp_lines_init(in_fd, &server.lines);

	while (r == 0) {
		int found = fgt_mcp_lines_next(&server.lines, &line, &len);

		r = found == -EMSGSIZE || found > 0 ? 0 : found;
		if (r < 0 || found == 0)
			break;
		if (found > 0 && is_blank(line, len))
			continue;
		fgt_json_init(&server.json, &sink);
		server.is_batch = server.has_answer = false;
		answer_line(&server, found > 0 ? line : NULL, len);
		if (server.has_answer)
			fgt_json_newline(&server.json);
		r = fgt_json_finish(&server.json);
	}
	fgt_mcp_lines_done(&server.lines);
	return r;
}
