/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that names its service to libfgtrace.
 *
 * named agent|embedded [KEY=VALUE…]
 *
 * Keys: name, namespace, version, instance, environment, release, socket.
 * Prints "ready PID". Answers each line of its input by a line:
 *   stop        "stopped"
 *   start       "started", or "failed ERRNO"
 *   fork        "child PID": its child sleeps; it calls fgt_start() at "heir"
 *   heir        "child PID": of a child that does
 *   write FILE  "wrote RESULT": the last second as a Chrome trace
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fgtrace.h>

static struct fgt_options options = { .size = sizeof(options) };

static void set(const char *key, const char *value)
{
	static const struct {
		const char *key, **place;
	} places[] = {
		{ "name", &options.service_name },
		{ "namespace", &options.service_namespace },
		{ "version", &options.service_version },
		{ "instance", &options.service_instance },
		{ "environment", &options.environment },
		{ "release", &options.release },
		{ "socket", &options.socket },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!strcmp(key, places[i].key))
			*places[i].place = value;
}

static void start_child(int is_heir)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (is_heir)
			(void)fgt_start(&options);
		for (;;)
			pause();
	}
	usleep(300000);
	printf("child %d\n", pid);
}

static int write_slice(const char *path)
{
	struct fgt_slice *slice;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fgt_get_slice(fgt_now() - 1000000000, fgt_now(), &slice);

	if (r == 0) {
		r = fgt_slice_write(slice, FGT_FORMAT_CHROME, fd);
		fgt_slice_free(slice);
	}
	close(fd);
	return r;
}

static void answer(char *line)
{
	int r;

	line[strcspn(line, "\n")] = 0;
	if (!strcmp(line, "stop")) {
		fgt_stop();
		puts("stopped");
	} else if (!strcmp(line, "start")) {
		r = fgt_start(&options);
		if (r < 0)
			printf("failed %d\n", -r);
		else
			puts("started");
	} else if (!strcmp(line, "fork") || !strcmp(line, "heir")) {
		start_child(!strcmp(line, "heir"));
	} else if (!strncmp(line, "write ", 6)) {
		printf("wrote %d\n", write_slice(line + 6));
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[1024];

	for (int i = 2; i < argc; i++) {
		char *equals = strchr(argv[i], '=');

		if (!equals)
			return 2;
		*equals = 0;
		set(argv[i], equals + 1);
	}
	options.mode = argc > 1 && !strcmp(argv[1], "agent") ? FGT_AGENT
							     : FGT_EMBEDDED;
	if (fgt_start(&options) < 0)
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	return 0;
}
