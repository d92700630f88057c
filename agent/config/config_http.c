/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the group http. Plain data, any thread.
 */
#include "agent/config/config_schema.h"

#include <errno.h>

#include "agent/http/address.h"

int fgt_config_check_http(const struct fgt_config *config,
			  const char *file_name, struct fgt_why *why)
{
	char where[FGT_CONFIG_WHERE_MAX];
	struct fgt_web_address address;
	struct fgt_why cause = { "" };

	if (!config->http.listen)
		return 0;
	fgt_config_where(config, "http.listen", file_name, where);
	if (fgt_web_address_parse(config->http.listen, &address, &cause) < 0)
		return fgt_why_set(why, -EINVAL, "%s: `http.listen`: %s", where,
				   cause.text);
	if (address.is_loopback)
		return 0;
	if (!config->http.is_remote_allowed)
		return fgt_why_set(
			why, -EINVAL,
			"%s: `http.listen` is no loopback address: set "
			"`http.allow_remote` = true if other "
			"machines shall reach it, or listen on "
			"127.0.0.1",
			where);
	if (config->http.token == FGT_WEB_TOKEN_OFF)
		return fgt_why_set(
			why, -EINVAL,
			"%s: `http.listen` is no loopback address: it "
			"needs a token: set `http.token` = "
			"\"auto\"",
			where);
	return 0;
}
