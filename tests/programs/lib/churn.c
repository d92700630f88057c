/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of libc that take locks: fault S13. Threads allocate, load and unload a
 * library, print and scan, start and end; none may hang.
 *
 * churn SECONDS PLUGIN
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zoo.h"

#define BLOCKS	  64u
#define STUCK_SEC 15u

struct churner {
	const char *name;
	/* false: something came out wrong. turn 0: the end. */
	bool (*work)(unsigned int turn);
	atomic_ulong turns;
	unsigned long wrong;
	pthread_t thread;
};

static uint64_t end_ns;
static const char *plugin_path;

static bool allocate(unsigned int turn)
{
	static _Thread_local unsigned char *blocks[BLOCKS];
	static _Thread_local size_t sizes[BLOCKS];
	unsigned int chance = turn * 2654435761u >> 8;
	size_t bytes = chance % 997 == 0 ? 300000 : chance % 3000 + 1;
	unsigned int i = turn % BLOCKS;
	unsigned char mark = (unsigned char)i;
	bool is_right = true;

	if (blocks[i])
		is_right = blocks[i][0] == mark &&
			   blocks[i][sizes[i] - 1] == mark;
	if (turn == 0) {
		for (i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		return true;
	}
	if (turn % 3)
		blocks[i] = realloc(blocks[i], bytes);
	else {
		free(blocks[i]);
		blocks[i] = malloc(bytes);
	}
	sizes[i] = bytes;
	memset(blocks[i], mark, bytes);
	return is_right;
}

static int count_one(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	++*(unsigned int *)context;
	return 0;
}

static bool load(unsigned int turn)
{
	void *library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	int (*work)(int);
	unsigned int libraries = 0;
	bool is_right;

	(void)turn;
	if (!library)
		return false;
	work = (int (*)(int))dlsym(library, "zoo_plugin_work");
	is_right = work && work(3) >= 3;
	dl_iterate_phdr(count_one, &libraries);
	dlclose(library);
	return is_right && libraries > 2;
}

static bool print(unsigned int turn)
{
	char text[200];
	unsigned int number = 0;
	FILE *file;

	snprintf(text, sizeof(text), "%u %.9f %s", turn, turn / 7.0, "words");
	if (sscanf(text, "%u", &number) != 1 || number != turn)
		return false;
	if (turn % 50)
		return true;
	file = tmpfile();
	if (!file)
		return false;
	fprintf(file, "%s\n", text);
	rewind(file);
	number = 0;
	if (fscanf(file, "%u", &number) != 1)
		number = 0;
	fclose(file);
	return number == turn;
}

static void *end_soon(void *argument)
{
	static _Thread_local char lazily[8192];

	memset(lazily, 1, sizeof(lazily));
	return argument;
}

static bool come_and_go(unsigned int turn)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, end_soon, &plugin_path) != 0)
		return false;
	pthread_join(thread, &result);
	(void)turn;
	return result == &plugin_path;
}

static bool print_time(unsigned int turn)
{
	time_t now = (time_t)turn * 1000;
	struct tm parts;
	char text[64];

	tzset();
	localtime_r(&now, &parts);
	return strftime(text, sizeof(text), "%c", &parts) > 0 && getenv("PATH");
}

static struct churner churners[] = {
	{ .name = "malloc", .work = allocate },
	{ .name = "malloc too", .work = allocate },
	{ .name = "dlopen", .work = load },
	{ .name = "dlopen too", .work = load },
	{ .name = "stdio", .work = print },
	{ .name = "threads", .work = come_and_go },
	{ .name = "time", .work = print_time },
};
#define CHURNERS (sizeof(churners) / sizeof(churners[0]))

static void *churn(void *argument)
{
	struct churner *churner = argument;

	for (unsigned int turn = 1; zoo_now_ns() < end_ns; turn++) {
		churner->wrong += !churner->work(turn);
		atomic_fetch_add(&churner->turns, 1);
	}
	churner->wrong += !churner->work(0);
	return NULL;
}

/* Ends the process where a thread hangs: a join would wait for ever. */
static void watch(void)
{
	unsigned long last[CHURNERS] = { 0 };
	uint64_t moved_ns[CHURNERS];

	for (size_t i = 0; i < CHURNERS; i++)
		moved_ns[i] = zoo_now_ns();
	while (zoo_now_ns() < end_ns) {
		zoo_sleep_ms(200);
		for (size_t i = 0; i < CHURNERS; i++) {
			unsigned long turns = atomic_load(&churners[i].turns);

			if (turns != last[i])
				moved_ns[i] = zoo_now_ns();
			last[i] = turns;
			if (zoo_now_ns() - moved_ns[i] <
			    STUCK_SEC * 1000000000ull)
				continue;
			printf("%s: stuck\n", churners[i].name);
			_Exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	bool is_harmed = false;

	if (argc != 3)
		return 2;
	plugin_path = argv[2];
	zoo_begin();
	end_ns = zoo_now_ns() + (uint64_t)(atof(argv[1]) * 1e9);
	for (size_t i = 0; i < CHURNERS; i++)
		pthread_create(&churners[i].thread, NULL, churn, &churners[i]);
	watch();
	for (size_t i = 0; i < CHURNERS; i++)
		pthread_join(churners[i].thread, NULL);
	for (size_t i = 0; i < CHURNERS; i++) {
		printf("# %s: %lu turns\n", churners[i].name,
		       atomic_load(&churners[i].turns));
		is_harmed |= zoo_note(churners[i].name, churners[i].wrong);
	}
	zoo_end();
	return is_harmed;
}
