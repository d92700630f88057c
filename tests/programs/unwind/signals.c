/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that block in a signal handler: "same" on the interrupted stack,
 * "alternate" on a separate one, "null" after a call through a null pointer
 * whose SIGSEGV handler blocks. Also "deep": 3000 calls of recursion, and
 * "jit": a frame of code that no file backs. Prints functions and threads,
 * then "ready".
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int pipe_fds[2];
static atomic_int blocked_count;
static volatile int zero;

__attribute__((noinline, noclone)) static int wait_here(void)
{
	char byte;

	atomic_fetch_add(&blocked_count, 1);
	return (int)read(pipe_fds[0], &byte, 1) + 1;
}

static void handler(int signal)
{
	(void)signal;
	zero += wait_here();
}

__attribute__((noinline, noclone)) static void interrupted(void)
{
	raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline, noclone)) static void call_null(void)
{
	void (*volatile null)(void) = NULL;

	null();
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline, noclone)) static int deep(int depth)
{
	return depth ? deep(depth - 1) + zero : wait_here() + zero;
}

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
__attribute__((noinline, noclone)) static int through_jit(void)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5,
					      0xff, 0xd7, 0x5d, 0xc3 };
	int (*function)(int (*)(void));
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	memcpy(memory, code, sizeof(code));
	memcpy(&function, &memory, sizeof(function));
	return function(wait_here) + zero;
}

static void use_alternate_stack(void)
{
	stack_t stack = { .ss_size = 65536 };

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) < 0)
		abort();
}

static void *thread_main(void *argument)
{
	const char *kind = argument;

	printf("thread %ld %s 0\n", (long)syscall(SYS_gettid), kind);
	if (!strcmp(kind, "alternate"))
		use_alternate_stack();
	if (!strcmp(kind, "same") || !strcmp(kind, "alternate"))
		interrupted();
	else if (!strcmp(kind, "null"))
		call_null();
	else if (!strcmp(kind, "deep"))
		zero += deep(3000);
	else
		zero += through_jit();
	return NULL;
}

int main(void)
{
	static char *kinds[] = { "same", "alternate", "null", "deep", "jit" };
	const int count = sizeof(kinds) / sizeof(kinds[0]);
	struct sigaction action = { .sa_flags = SA_ONSTACK };
	pthread_t id;
	char byte;

	setvbuf(stdout, NULL, _IOLBF, 0);
	action.sa_handler = handler;
	if (pipe(pipe_fds) < 0 || sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigaction(SIGSEGV, &action, NULL) < 0)
		return 1;
	printf("function wait_here %p\n", (void *)(size_t)wait_here);
	printf("function handler %p\n", (void *)(size_t)handler);
	printf("function interrupted %p\n", (void *)(size_t)interrupted);
	printf("function call_null %p\n", (void *)(size_t)call_null);
	printf("function deep %p\n", (void *)(size_t)deep);
	printf("function through_jit %p\n", (void *)(size_t)through_jit);
	printf("function thread_main %p\n", (void *)(size_t)thread_main);
	printf("function main %p\n", (void *)(size_t)main);
	for (int i = 0; i < count; i++)
		if (pthread_create(&id, NULL, thread_main, kinds[i]) != 0)
			return 1;
	while (atomic_load(&blocked_count) < count)
		usleep(1000);
	printf("ready\n");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
