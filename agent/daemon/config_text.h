/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What text a configuration may hold: UTF-8 without control characters.
 */
#ifndef FGT_AGENT_DAEMON_CONFIG_TEXT_H
#define FGT_AGENT_DAEMON_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The end of a path, short enough for a message. */
const char *fgt_config_short_name(const char *file_name);

/* Length of the valid UTF-8 sequence at text[len], 0 if there is none;
 * len >= 1. */
size_t fgt_config_utf8_length(const char *text, size_t len);

bool fgt_config_is_control(char c);

/* True for valid UTF-8 without control characters. */
bool fgt_config_is_plain_text(const char *text, size_t len);

#endif
