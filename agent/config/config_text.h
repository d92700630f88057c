/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What text a configuration may hold: UTF-8 without control characters.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_TEXT_H
#define FGT_AGENT_CONFIG_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool fgt_config_is_control(char c);

/* True for valid UTF-8 without control characters. */
bool fgt_config_is_plain_text(const char *text, size_t len);

#endif
