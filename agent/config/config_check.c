/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a configuration that look at more than one key. Any thread; must
 * not put a value that can be a secret into a message.
 */
#include "agent/config/config_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upload/deliver/url.h"

int fgt_config_check_target(const struct fgt_config_target *target,
			    const char *where, struct fgt_why *why)
{
	int said = (target->pid != 0) + (target->name != NULL) +
		   (target->exe != NULL) + (target->cgroup != NULL);

	if (said != 1)
		return fgt_why_set(why, -EINVAL,
				   "%s: a target needs exactly one of `pid`, "
				   "`name`, `exe`, `cgroup`; this one has %d",
				   where, said);
	if (target->exe && *target->exe != '/')
		return fgt_why_set(why, -EINVAL,
				   "%s: `exe` must be an absolute path", where);
	return 0;
}

static int name_destination(struct fgt_config_destination *own, size_t index)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", index + 1);
	own->name = strdup(number);
	return own->name ? 0 : -ENOMEM;
}

static int check_format(const struct fgt_config_destination *own,
			const char *where, struct fgt_why *why)
{
	enum fgt_format format;
	struct fgt_why part;

	if (!own->format)
		return 0;
	if (fgt_format_from_name(own->format, &format, &part) < 0)
		return fgt_why_set(why, -EINVAL, "%s: `format`: %s", where,
				   part.text);
	if (own->dsn_file && format != FGT_FORMAT_SENTRY)
		return fgt_why_set(why, -EINVAL,
				   "%s: `format` of a `dsn_file` can only be "
				   "\"sentry\"",
				   where);
	return 0;
}

int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why)
{
	const struct fgt_config_destination *all = config->upload.destinations;
	struct fgt_config_destination *own =
		&config->upload.destinations[index];
	int error = own->name ? 0 : name_destination(own, index);

	if (error)
		return error;
	if (!own->dsn_file == !own->url)
		return fgt_why_set(why, -EINVAL,
				   "%s: a destination needs exactly one of "
				   "`dsn_file` and `url`",
				   where);
	error = check_format(own, where, why);
	if (error)
		return error;
	for (size_t i = 0; i < index; i++)
		if (!strcmp(all[i].name, own->name))
			return fgt_why_set(why, -EINVAL,
					   "%s: two destinations are called "
					   "`%.64s`; rename one",
					   where, own->name);
	return 0;
}

int fgt_config_check_url(const struct fgt_config *config, size_t index,
			 const char *where, struct fgt_why *why)
{
	const char *text = config->upload.destinations[index].url;
	struct fgt_why part;
	struct fgt_url url;

	if (!text)
		return 0;
	if (fgt_url_parse(text, &url, &part) < 0)
		return fgt_why_set(why, -EINVAL, "%s: `url`: %s", where,
				   part.text);
	if (url.has_userinfo)
		return fgt_why_set(why, -EINVAL,
				   "%s: `url` holds a user or password before "
				   "@; remove it",
				   where);
	if (!url.is_https && !url.is_loopback &&
	    !config->upload.is_http_allowed)
		return fgt_why_set(why, -EINVAL,
				   "%s: `url` is plain http to another "
				   "machine; use https, or set "
				   "upload.allow_http = true",
				   where);
	return 0;
}

int fgt_config_check_listen(const struct fgt_config *config, const char *where,
			    struct fgt_why *why)
{
	const char *listen = config->http.listen;
	const char *colon = listen ? strrchr(listen, ':') : NULL;
	char *end = NULL;
	long port = colon ? strtol(colon + 1, &end, 10) : 0;

	if (!listen || (colon > listen && isdigit((unsigned char)colon[1]) &&
			!*end && port >= 1 && port <= 65535))
		return 0;
	return fgt_why_set(
		why, -EINVAL,
		"%s: `http.listen` must be \"ADDRESS:PORT\", port 1 to 65535",
		where);
}
