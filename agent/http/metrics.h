/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's figures in Prometheus' text format, version 0.0.4:
 * https://prometheus.io/docs/instrumenting/exposition_formats
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_METRICS_H
#define FGT_AGENT_HTTP_METRICS_H

#include "agent/protocol/message.h"
#include "ringbuf/base/sink.h"

#define FGT_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* status: the reply to `status`. What it does not have is left out. Errors of
 * the sink. */
int fgt_metrics_write(const struct fgt_message *status,
		      const struct fgt_sink *sink);

#endif
