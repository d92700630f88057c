/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a client sends, by jansson, which no other file includes. Runs in
 * the main thread.
 */
#include "agent/cli/mcp/message.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define META	     "_meta"
#define CANCELLED    "notifications/cancelled"
#define VERSION	     "io.modelcontextprotocol/protocolVersion"
#define CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define WHOLE_MAX    9007199254740992.0 /* 2^53: above it doubles have gaps */

int fgt_mcp_message_parse(const char *line, size_t len,
			  struct json_t **ret_message, struct fgt_why *why)
{
	json_error_t error;
	json_t *message = json_loadb(line, len,
				     JSON_DECODE_ANY | JSON_REJECT_DUPLICATES |
					     JSON_ALLOW_NUL,
				     &error);

	if (!message)
		return fgt_why_set(why, -EBADMSG,
				   "the line is no JSON: %s, at byte %d; send "
				   "one object a line",
				   error.text, error.position);
	*ret_message = message;
	return 0;
}

void fgt_mcp_message_free(struct json_t *message)
{
	json_decref(message);
}

bool fgt_mcp_message_is_batch(const struct json_t *message)
{
	return json_is_array(message);
}

size_t fgt_mcp_batch_size(const struct json_t *batch)
{
	return json_array_size(batch);
}

struct json_t *fgt_mcp_batch_get(const struct json_t *batch, size_t index)
{
	return json_array_get(batch, index);
}

/* NULL: no string, or one with \u0000, which would be cut there. */
static const char *text_of(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool is_wrong(const json_t *id)
{
	return id && !json_is_string(id) && !json_is_integer(id);
}

static enum fgt_mcp_code read_params(const json_t *message,
				     struct fgt_mcp_request *request,
				     struct fgt_why *why)
{
	json_t *params = json_object_get(message, "params");
	json_t *meta = json_object_get(params, META);
	json_t *version = json_object_get(meta, VERSION);

	if ((params && !json_is_object(params)) ||
	    (meta && !json_is_object(meta)) || (version && !text_of(version))) {
		fgt_why_set(why, 0,
			    "params and params." META " must be objects, and "
			    "the version in it a string");
		return FGT_MCP_WRONG_PARAMS;
	}
	request->params = params;
	request->version = text_of(version);
	request->has_capabilities =
		json_is_object(json_object_get(meta, CAPABILITIES));
	return FGT_MCP_OK;
}

enum fgt_mcp_code fgt_mcp_request_read(struct json_t *message,
				       struct fgt_mcp_request *ret_request,
				       struct fgt_why *why)
{
	struct fgt_mcp_request request = { .id = NULL };
	const char *version = text_of(json_object_get(message, "jsonrpc"));
	json_t *id = json_object_get(message, "id");

	*ret_request = request;
	if (!json_is_object(message) || !version || strcmp(version, "2.0")) {
		fgt_why_set(why, 0,
			    "not a request: send an object with jsonrpc "
			    "\"2.0\", an id, a method and params");
		return FGT_MCP_NO_REQUEST;
	}
	if (is_wrong(id)) {
		fgt_why_set(why, 0,
			    "not a request: id must be a string or a whole "
			    "number");
		return FGT_MCP_NO_REQUEST;
	}
	ret_request->id = request.id = id;
	request.method = text_of(json_object_get(message, "method"));
	if (!request.method && (json_object_get(message, "result") ||
				json_object_get(message, "error")))
		return FGT_MCP_OK;
	if (!request.method) {
		fgt_why_set(why, 0,
			    "not a request: method must be a string "
			    "without \\u0000");
		return FGT_MCP_NO_REQUEST;
	}
	ret_request->method = request.method;
	return read_params(message, ret_request, why);
}

bool fgt_mcp_is_cancelled(const char *line, size_t len, const struct json_t *id)
{
	FGT_AUTO(fgt_mcp_message_free) json_t *message = NULL;
	struct fgt_mcp_request request;
	struct fgt_why why;

	/* Few lines are: the others are parsed later. */
	return memmem(line, len, CANCELLED, strlen(CANCELLED)) &&
	       fgt_mcp_message_parse(line, len, &message, &why) == 0 &&
	       fgt_mcp_request_read(message, &request, &why) == FGT_MCP_OK &&
	       request.method && !request.id &&
	       strcmp(request.method, CANCELLED) == 0 &&
	       json_equal(json_object_get(request.params, "requestId"), id);
}

/* ---- Values -------------------------------------------------------------- */

/* JSON has one kind of numbers: 5.0 is a whole one. */
static bool is_whole(const json_t *value)
{
	double real = json_real_value(value);

	return json_is_real(value) && fabs(real) <= WHOLE_MAX &&
	       floor(real) == real;
}

struct fgt_mcp_value fgt_mcp_get(const struct json_t *object, const char *key)
{
	json_t *member = json_object_get(object, key);
	struct fgt_mcp_value value = { .type = FGT_MCP_OTHER };

	if (!member) {
		value.type = FGT_MCP_ABSENT;
	} else if (text_of(member)) {
		value.type = FGT_MCP_TEXT;
		value.text = text_of(member);
	} else if (json_is_integer(member) || is_whole(member)) {
		value.type = FGT_MCP_NUMBER;
		value.number = json_is_integer(member)
				       ? json_integer_value(member)
				       : (int64_t)json_real_value(member);
	} else if (json_is_boolean(member)) {
		value.type = FGT_MCP_SWITCH;
		value.is_true = json_is_true(member);
	} else if (json_is_object(member)) {
		value.type = FGT_MCP_OBJECT;
		value.object = member;
	}
	return value;
}

const char *fgt_mcp_next_key(struct json_t *object, void **at)
{
	*at = *at ? json_object_iter_next(object, *at)
		  : json_object_iter(object);
	return *at ? json_object_iter_key(*at) : NULL;
}

char *fgt_mcp_json_of(const struct json_t *value)
{
	return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}
