/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof profiles to Grafana Pyroscope: POST /ingest, or push.v1 in JSON. Rules:
 * grafana/pyroscope, docs/sources/reference-server-api. Blocks as an upload
 * does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/json.h"
#include "ringbuf/base/sink.h"
#include "upload/deliver/kinds.h"
#include "upload/deliver/url.h"
#include "upload/deliver/url_template.h"

#define APP_MAX	    768
#define SAMPLE_TYPE "wall"

/* A label's value in the name parameter ends at a comma or a brace. */
static void clean_label(const char *text, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%s", text);
	for (; *ret_text; ret_text++)
		if (strchr(",={}\"\\", *ret_text) ||
		    (unsigned char)*ret_text < 0x20)
			*ret_text = '_';
}

/* service{hostname=…}: few labels, since each is a series. */
static void describe_app(const struct fgt_payload_head *head, char app[APP_MAX])
{
	char service[sizeof(head->service)], host[sizeof(head->host)];

	clean_label(*head->service ? head->service : "unknown", service,
		    sizeof(service));
	clean_label(head->host, host, sizeof(host));
	snprintf(app, APP_MAX, *host ? "%s{hostname=%s}" : "%s", service, host);
}

static int make_ingest_url(const struct fgt_sending *sending, char *url,
			   size_t size)
{
	const struct fgt_payload_head *head = &sending->payload->head;
	char app[APP_MAX];
	size_t len;
	int r = fgt_url_template_expand(sending->destination->target, head, url,
					size, sending->why);

	if (r < 0)
		return r;
	describe_app(head, app);
	len = strlen(url);
	snprintf(url + len, size - len,
		 "%cname=", strchr(url, '?') ? '&' : '?');
	r = fgt_url_append(url, size, app);
	len = strlen(url);
	/* Seconds, as the documentation has them. */
	if (r < 0 ||
	    snprintf(url + len, size - len,
		     "&from=%" PRIu64 "&until=%" PRIu64
		     "&format=pprof&spyName=fgtrace",
		     head->from_wall_ns / 1000000000u,
		     head->to_wall_ns / 1000000000u + 1) >= (int)(size - len))
		return fgt_why_set(sending->why, -ENAMETOOLONG,
				   "the URL is longer than %zu bytes; use a "
				   "shorter one",
				   size - 1);
	return 0;
}

int fgt_kind_pyroscope_send(const struct fgt_sending *sending)
{
	struct fgt_memory_sink memory;
	char url[FGT_URL_MAX];
	int r = make_ingest_url(sending, url, sizeof(url));

	if (r < 0)
		return r;
	r = fgt_kind_read_body(sending, &memory);
	if (r == 0)
		r = fgt_kind_post(
			sending,
			&(struct fgt_kind_request){
				.url = url,
				.content_type = "application/octet-stream",
				.content_encoding = "",
				.body = memory.bytes,
				.body_len = memory.len_bytes,
				.is_post = true,
			});
	fgt_memory_sink_done(&memory);
	explicit_bzero(url, sizeof(url));
	return r;
}

/* ---- push.v1 ------------------------------------------------------------- */

static void put_label(struct fgt_json *json, const char *name,
		      const char *value)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "name", name);
	fgt_json_put_string(json, "value", value);
	fgt_json_end_object(json);
}

static void put_labels(struct fgt_json *json,
		       const struct fgt_payload_head *head)
{
	fgt_json_begin_array(json, "labels");
	put_label(json, "__name__", SAMPLE_TYPE);
	put_label(json, "service_name",
		  *head->service ? head->service : "unknown");
	if (*head->host)
		put_label(json, "hostname", head->host);
	fgt_json_end_array(json);
}

/* 8-4-4-4-12: the same in each try. */
static void put_id(struct fgt_json *json, const char *id)
{
	char uuid[40];

	snprintf(uuid, sizeof(uuid), "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8,
		 id + 12, id + 16, id + 20);
	fgt_json_put_string(json, "ID", uuid);
}

static int write_push(const struct fgt_payload_head *head,
		      const struct fgt_memory_sink *profile,
		      const struct fgt_sink *sink)
{
	struct fgt_json json;

	fgt_json_init(&json, sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_begin_array(&json, "series");
	fgt_json_begin_object(&json, NULL);
	put_labels(&json, head);
	fgt_json_begin_array(&json, "samples");
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_base64(&json, "rawProfile", profile->bytes,
			    profile->len_bytes);
	put_id(&json, head->id);
	fgt_json_end_object(&json);
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	return fgt_json_finish(&json);
}

static int push(const struct fgt_sending *sending,
		const struct fgt_memory_sink *profile, const char *url)
{
	struct fgt_memory_sink memory;
	int r;

	fgt_memory_sink_init(&memory, FGT_KIND_BODY_MAX * 2);
	r = write_push(&sending->payload->head, profile, &memory.sink);
	if (r < 0)
		fgt_why_set(sending->why, r, "cannot encode the profile: %s",
			    strerror(-r));
	else
		r = fgt_kind_post(sending,
				  &(struct fgt_kind_request){
					  .url = url,
					  .content_type = "application/json",
					  .content_encoding = "",
					  .body = memory.bytes,
					  .body_len = memory.len_bytes,
					  .is_post = true,
				  });
	fgt_memory_sink_done(&memory);
	return r;
}

int fgt_kind_pyroscope_push_send(const struct fgt_sending *sending)
{
	struct fgt_memory_sink profile;
	char url[FGT_URL_MAX];
	int r = fgt_url_template_expand(sending->destination->target,
					&sending->payload->head, url,
					sizeof(url), sending->why);

	if (r < 0)
		return r;
	r = fgt_kind_read_body(sending, &profile);
	if (r == 0)
		r = push(sending, &profile, url);
	fgt_memory_sink_done(&profile);
	explicit_bzero(url, sizeof(url));
	return r;
}
