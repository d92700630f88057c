/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder that is loaded, started, stopped and closed many times: fault S15,
 * and S16 for a set-user-id copy of this program.
 *
 * lifetimes LIBRARY COUNT    0: only prints the result of the first start
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/fgtrace.h"
#include "zoo.h"

struct interface {
	int (*start)(const struct fgt_options *options);
	void (*stop)(void);
	int (*get_slice)(uint64_t, uint64_t, struct fgt_slice **);
	void (*free_slice)(struct fgt_slice *);
};

struct traces {
	unsigned int threads, descriptors, handlers;
};

static void *load(const char *path, struct interface *ret)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("%s\n", dlerror());
		exit(3);
	}
	ret->start = (int (*)(const struct fgt_options *))dlsym(library,
								"fgt_start");
	ret->stop = (void (*)(void))dlsym(library, "fgt_stop");
	ret->get_slice =
		(int (*)(uint64_t, uint64_t, struct fgt_slice **))dlsym(
			library, "fgt_get_slice");
	ret->free_slice =
		(void (*)(struct fgt_slice *))dlsym(library, "fgt_slice_free");
	return library;
}

static struct traces look(void)
{
	struct traces traces = {
		.threads = zoo_count_entries("/proc/self/task"),
		.descriptors = zoo_count_entries("/proc/self/fd"),
	};
	struct sigaction action;

	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigaction(number, NULL, &action) == 0)
			traces.handlers += action.sa_handler != SIG_DFL;
	return traces;
}

static int start(const struct interface *calls)
{
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_EMBEDDED,
					     .hz = 1000 };

	return calls->start(&options);
}

/* Every second one is closed without a stop. */
static unsigned int live_once(const char *path, unsigned int number)
{
	struct interface calls;
	void *library = load(path, &calls);
	struct fgt_slice *slice = NULL;
	unsigned int wrong = start(&calls) != 0;
	uint64_t now_ns;
	int rc;

	zoo_burn_ms(40);
	now_ns = zoo_now_ns();
	rc = calls.get_slice(0, now_ns, &slice);
	if (rc < 0)
		printf("# fgt_get_slice %d\n", rc);
	wrong += rc < 0;
	calls.free_slice(slice);
	if (number % 2) {
		calls.stop();
		dlclose(library);
		return wrong;
	}
	dlclose(library);
	zoo_burn_ms(5); /* its threads and handlers must still be there */
	load(path, &calls);
	calls.stop();
	return wrong;
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	struct traces before, after;
	struct interface calls;
	unsigned int wrong = 0;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	load(argv[1], &calls);
	if (count == 0) {
		printf("# fgt_start %d\n", start(&calls));
		zoo_burn_ms(100);
		calls.stop();
		puts("once: survived");
		return 0;
	}
	zoo_start_burners(1);
	wrong += live_once(argv[1], 1);
	before = look();
	for (unsigned int i = 0; i < count; i++)
		wrong += live_once(argv[1], i);
	after = look();
	printf("# threads %u, descriptors %u, handlers %u afterwards\n",
	       after.threads, after.descriptors, after.handlers);
	return zoo_note("lifetimes", wrong) |
	       zoo_note("threads", after.threads != 2) |
	       zoo_note("descriptors", after.descriptors > before.descriptors) |
	       zoo_note("handlers", after.handlers);
}
