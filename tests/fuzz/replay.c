/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a fuzz target that is built without libFuzzer: feeds it each file
 * of the folders that are its arguments, once, from memory of the exact size.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 24)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int replay_file(const char *path)
{
	struct stat status;
	FILE *file = fopen(path, "rbe");
	uint8_t *data;
	size_t size;

	if (!file || fstat(fileno(file), &status) < 0 ||
	    status.st_size > INPUT_MAX) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(1);
	}
	if (!S_ISREG(status.st_mode)) {
		fclose(file);
		return 0;
	}
	data = malloc(status.st_size > 0 ? (size_t)status.st_size : 1);
	if (!data)
		abort();
	size = fread(data, 1, (size_t)status.st_size, file);
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int replay_folder(const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort), replayed = 0;

	for (int i = 0; i < count; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", folder,
			 entries[i]->d_name);
		replayed += replay_file(path);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return replayed;
}

int main(int argc, char **argv)
{
	int replayed = 0;

	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		replayed += replay_folder(argv[i]);
	printf("%d inputs replayed\n", replayed);
	return replayed > 0 ? 0 : 1;
}
