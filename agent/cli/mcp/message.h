/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends: JSON-RPC 2.0, with what the Model Context Protocol adds
 * (https://modelcontextprotocol.io/specification, 2025-11-25 and 2026-07-28).
 * No byte of it is trusted.
 *
 * MT-Unsafe for one message | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_MCP_MESSAGE_H
#define FGT_AGENT_CLI_MCP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

/* A JSON value. Values of a message are borrowed from it. */
struct json_t;

/* Of JSON-RPC, section 5.1, and of the protocol's revision 2026-07-28. */
enum fgt_mcp_code {
	FGT_MCP_OK = 0,
	FGT_MCP_NO_JSON = -32700,
	FGT_MCP_NO_REQUEST = -32600,
	FGT_MCP_NO_METHOD = -32601,
	FGT_MCP_WRONG_PARAMS = -32602,
	FGT_MCP_INTERNAL = -32603,
	FGT_MCP_NO_VERSION = -32022,
};

/* One line. -EBADMSG with why. */
int fgt_mcp_message_parse(const char *line, size_t len,
			  struct json_t **ret_message, struct fgt_why *why);
void fgt_mcp_message_free(struct json_t *message);
FGT_DEFINE_AUTO(struct json_t *, fgt_mcp_message_free);

/* Of a batch, the number of its messages and each of them. */
bool fgt_mcp_message_is_batch(const struct json_t *message);
size_t fgt_mcp_batch_size(const struct json_t *batch);
struct json_t *fgt_mcp_batch_get(const struct json_t *batch, size_t index);

struct fgt_mcp_request {
	struct json_t
		*id; /* NULL: none; if method is not NULL, a notification */
	const char *method; /* NULL: a response, which has no answer */
	struct json_t *params; /* NULL: none */
	/* Of the request's _meta, since 2026-07-28. */
	const char *version; /* NULL: none */
	bool has_capabilities;
};

/* Where the message is no request, the id is set if it could be read. */
enum fgt_mcp_code fgt_mcp_request_read(struct json_t *message,
				       struct fgt_mcp_request *ret_request,
				       struct fgt_why *why);

/* The line is a notification that the request of that id is cancelled. */
bool fgt_mcp_is_cancelled(const char *line, size_t len,
			  const struct json_t *id);

/* ---- Values -------------------------------------------------------------- */

enum fgt_mcp_type {
	FGT_MCP_ABSENT,
	FGT_MCP_TEXT, /* a string without \u0000 */
	FGT_MCP_NUMBER, /* a whole one */
	FGT_MCP_SWITCH, /* true or false */
	FGT_MCP_OBJECT,
	FGT_MCP_OTHER,
};

struct fgt_mcp_value {
	enum fgt_mcp_type type;
	const char *text;
	int64_t number;
	bool is_true;
	struct json_t *object;
};

/* object may be NULL: it has no members. */
struct fgt_mcp_value fgt_mcp_get(const struct json_t *object, const char *key);

/* Each member; *at is NULL before the first one, and after the last one, whose
 * key is NULL. */
const char *fgt_mcp_next_key(struct json_t *object, void **at);

/* Its JSON; free(). NULL: no memory. */
char *fgt_mcp_json_of(const struct json_t *value);

#endif
