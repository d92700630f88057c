/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of --json-to. Runs in the main thread.
 */
#include "agent/cli/output/json_to.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/output/output.h"

struct fgt_json_to {
	struct fgt_output *output;
	FILE *file; /* in memory */
	char *text;
	size_t len;
};

int fgt_json_to_open(const struct fgt_arguments *arguments,
		     struct fgt_json_to **ret_json, struct fgt_why *why)
{
	const char *path = fgt_options_get(arguments, "json-to");
	const char *output = fgt_options_get(arguments, "output");
	FGT_AUTO(fgt_json_to_free) struct fgt_json_to *json = NULL;
	int r;

	if (!path)
		return 0;
	if (output && strcmp(output, path) == 0)
		return fgt_why_set(why, -EINVAL,
				   "--output and --json-to both name '%s'; "
				   "choose another place for one of them",
				   path);
	json = calloc(1, sizeof(*json));
	if (json)
		json->file = open_memstream(&json->text, &json->len);
	if (!json || !json->file)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	r = fgt_output_open_for("--json-to", path, false, &json->output, why);
	if (r < 0)
		return r;
	*ret_json = FGT_TAKE(json);
	return 0;
}

FILE *fgt_json_to_file(struct fgt_json_to *json)
{
	return json ? json->file : NULL;
}

int fgt_json_to_commit(struct fgt_json_to *json, struct fgt_why *why)
{
	uint64_t bytes;
	int r;

	if (!json)
		return 0;
	if (fflush(json->file) != 0)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	/* On standard output it follows the text. */
	(void)fflush(stdout);
	r = fgt_sink_write(fgt_output_sink(json->output), json->text,
			   json->len);
	return fgt_output_commit(json->output, r, &bytes, why);
}

void fgt_json_to_free(struct fgt_json_to *json)
{
	if (!json)
		return;
	fgt_output_free(json->output);
	fgt_file_close(json->file);
	free(json->text);
	free(json);
}
