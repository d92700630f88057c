/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that becomes other programs.
 *
 * shifter MS [COMMAND ...]: stays for so many milliseconds, in keep_secret() if
 * its own name begins with "secret", else in stay_plain(); then it drops what
 * its file has given it and executes the command. Without one it ends.
 * Negative: until SIGUSR1. The command "crash" ends it by SIGSEGV. A name that ends
 * in "-ns" makes a user namespace first; one that ends in "-ask" prints a
 * prompt, as programs do that ask for a password, and stays once more.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const prompt = "Password: ";

static volatile sig_atomic_t is_signalled;

static void on_signal(int number)
{
	is_signalled = number;
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Turns of sleep and work, so that there are stacks of both. */
static void turn(void)
{
	long long until_ms = now_ms() + 5;

	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	while (now_ms() < until_ms)
		;
}

__attribute__((noinline)) void keep_secret(long long ms)
{
	long long until_ms = now_ms() + ms;

	do
		turn();
	while (ms < 0 ? !is_signalled : now_ms() < until_ms);
}

__attribute__((noinline)) void stay_plain(long long ms)
{
	long long until_ms = now_ms() + ms;

	do
		turn();
	while (ms < 0 ? !is_signalled : now_ms() < until_ms);
}

static void stay(const char *name, long long ms)
{
	if (strncmp(name, "secret", 6) == 0)
		keep_secret(ms);
	else
		stay_plain(ms);
}

static int ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	long long ms = argc > 1 ? atoll(argv[1]) : 0;
	int has_namespace;

	signal(SIGUSR1, on_signal);
	name = name ? name + 1 : argv[0];
	has_namespace = ends_in(name, "-ns");
	if (has_namespace && unshare(CLONE_NEWUSER) < 0)
		return 1;
	stay(name, ms);
	if (ends_in(name, "-ask")) {
		if (write(1, prompt, strlen(prompt)) < 0)
			return 1;
		stay(name, ms);
	}
	if (argc > 2 && strcmp(argv[2], "crash") == 0)
		raise(SIGSEGV);
	if (argc <= 2)
		return 0;
	/* A namespace without a map knows no user. */
	if (!has_namespace && (setresgid(getgid(), getgid(), getgid()) < 0 ||
			       setresuid(getuid(), getuid(), getuid()) < 0))
		return 1;
	execv(argv[2], argv + 2);
	return 1;
}
