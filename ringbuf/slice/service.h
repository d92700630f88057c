/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which service a process is a part of, in OpenTelemetry's words: what the
 * program publishes about itself, else the configuration; and what started it.
 * Each text is "" if unknown.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_SERVICE_H
#define FGT_RINGBUF_SLICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_SERVICE_TEXT_MAX 256 /* with its NUL; more is cut */

/* All members are texts of fgt_service_texts. */
struct fgt_service {
	char name[FGT_SERVICE_TEXT_MAX]; /* service.name */
	char namespace[FGT_SERVICE_TEXT_MAX]; /* service.namespace */
	char version[FGT_SERVICE_TEXT_MAX]; /* service.version */
	char instance[FGT_SERVICE_TEXT_MAX]; /* service.instance.id */
	char environment
		[FGT_SERVICE_TEXT_MAX]; /* deployment.environment.name */
	char unit[FGT_SERVICE_TEXT_MAX]; /* systemd: "nginx.service" */
	char container[FGT_SERVICE_TEXT_MAX]; /* container.id */
};

struct fgt_service_text {
	const char *key; /* in .fgt files and in JSON */
	const char *attribute; /* OpenTelemetry's */
	uint32_t offset; /* in struct fgt_service */
};

#define FGT_SERVICE_TEXTS     7
#define FGT_SERVICE_PUBLISHED 5 /* the first ones: what programs publish */

enum fgt_service_place {
	FGT_SERVICE_NAME,
	FGT_SERVICE_NAMESPACE,
	FGT_SERVICE_VERSION,
	FGT_SERVICE_INSTANCE,
	FGT_SERVICE_ENVIRONMENT,
	FGT_SERVICE_UNIT,
	FGT_SERVICE_CONTAINER,
};
extern const struct fgt_service_text fgt_service_texts[FGT_SERVICE_TEXTS];

/* The text at that place of the table. */
char *fgt_service_text_at(struct fgt_service *service, size_t i);
const char *fgt_service_text_of(const struct fgt_service *service, size_t i);

/* How many texts are known. */
uint32_t fgt_service_count(const struct fgt_service *service);

/* Writes a text; cut where it is too long, before the character that does not
 * fit, or at its first NUL. */
void fgt_service_set(struct fgt_service *service, size_t i, const char *bytes,
		     size_t len);

/* Sets what service lacks to what other has. */
void fgt_service_add(struct fgt_service *service,
		     const struct fgt_service *other);

/*
 * The name to show the process by: service.name, else its systemd unit without
 * ".service", else the name of the process. A container's id is no such name,
 * as each start of the service would have another one.
 */
void fgt_service_name(const struct fgt_service *service,
		      const char *process_name,
		      char ret_name[FGT_SERVICE_TEXT_MAX]);

#endif
