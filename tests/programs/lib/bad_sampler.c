/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad sampler, preloaded into the other programs to check that they notice.
 * A thread sends SIGPROF to every other thread of the process, blocked or not,
 * a thousand times a second. FGT_BAD chooses what the handler does:
 *
 * signal   nothing (what most profilers get away with)
 * errno    changes errno
 * malloc   allocates
 * frames   follows frame pointers unchecked, and copies the stack
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static const char *bad;
static volatile uint64_t sink;
static void *volatile memory;

static void walk(const ucontext_t *context)
{
#ifdef __x86_64__
	const uint64_t *frame =
		(const uint64_t *)context->uc_mcontext.gregs[REG_RBP];
	const uint64_t *stack =
		(const uint64_t *)context->uc_mcontext.gregs[REG_RSP];
#else
	const uint64_t *frame = (const uint64_t *)context->uc_mcontext.regs[29];
	const uint64_t *stack = (const uint64_t *)context->uc_mcontext.sp;
#endif

	for (int depth = 0; depth < 8 && frame; depth++) {
		sink += frame[1];
		frame = (const uint64_t *)frame[0];
	}
	for (int i = 0; i < 2048; i++)
		sink += stack[i];
}

static void handle(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (strcmp(bad, "errno") == 0)
		errno = ENOTTY;
	else if (strcmp(bad, "malloc") == 0)
		free(memory = malloc(3000)); /* of those that need a lock */
	else if (strcmp(bad, "frames") == 0)
		walk(context);
}

static void interrupt_all(pid_t own)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (tid > 0 && tid != own)
			syscall(SYS_tgkill, getpid(), tid, SIGPROF);
	}
	if (dir)
		closedir(dir);
}

static void *sample(void *argument)
{
	const struct timespec period = { .tv_nsec = 1000000 };
	pid_t own = (pid_t)syscall(SYS_gettid);

	(void)argument;
	for (;;) {
		interrupt_all(own);
		nanosleep(&period, NULL);
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction action = { .sa_sigaction = handle,
				    .sa_flags = SA_RESTART | SA_SIGINFO };
	pthread_t thread;

	bad = getenv("FGT_BAD");
	if (!bad)
		return;
	sigaction(SIGPROF, &action, NULL);
	pthread_create(&thread, NULL, sample, NULL);
}
