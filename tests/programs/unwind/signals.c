/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that block in a signal handler: "same" on the interrupted stack,
 * "alternate" on a separate one, "null" after a call through a null pointer
 * whose SIGSEGV handler blocks. Also "deep": 3000 calls of recursion, "jit":
 * a frame of code that no file backs, "jit-leaf": such code blocks itself, and
 * "vfork", "clone": the kernel suspends the thread for its child. Prints
 * functions and threads, then "ready".
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

static void *map_code(const unsigned char *code, size_t len)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	memcpy(memory, code, len);
	return memory;
}

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
__attribute__((noinline, noclone)) static int through_jit(void)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5,
					      0xff, 0xd7, 0x5d, 0xc3 };
	void *memory = map_code(code, sizeof(code));
	int (*function)(int (*)(void));

	memcpy(&function, &memory, sizeof(function));
	return function(wait_here) + zero;
}

/* xor %eax, %eax; syscall; ret: it reads, without a frame. */
__attribute__((noinline, noclone)) static int into_jit(void)
{
	static const unsigned char code[] = { 0x31, 0xc0, 0x0f, 0x05, 0xc3 };
	void *memory = map_code(code, sizeof(code));
	int (*function)(int, void *, size_t);
	char byte;

	memcpy(&function, &memory, sizeof(function));
	atomic_fetch_add(&blocked_count, 1);
	return function(pipe_fds[0], &byte, 1) + zero;
}

/* A child that uses its parent's memory; it dies with it. */
static int be_child(void *argument)
{
	char byte;

	(void)argument;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	atomic_fetch_add(&blocked_count, 1);
	return (int)read(pipe_fds[0], &byte, 1);
}

__attribute__((noinline, noclone)) static int by_vfork(void)
{
	if (vfork() == 0)
		_exit(be_child(NULL));
	return 1 + zero;
}

__attribute__((noinline, noclone)) static int by_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	return clone(be_child, stack + sizeof(stack),
		     CLONE_VM | CLONE_VFORK | SIGCHLD, NULL) +
	       zero;
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
	else if (!strcmp(kind, "jit"))
		zero += through_jit();
	else if (!strcmp(kind, "jit-leaf"))
		zero += into_jit();
	else if (!strcmp(kind, "vfork"))
		zero += by_vfork();
	else
		zero += by_clone();
	return NULL;
}

int main(void)
{
	static char *kinds[] = { "same", "alternate", "null",  "deep",
				 "jit",	 "jit-leaf",  "vfork", "clone" };
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
	printf("function into_jit %p\n", (void *)(size_t)into_jit);
	printf("function by_vfork %p\n", (void *)(size_t)by_vfork);
	printf("function by_clone %p\n", (void *)(size_t)by_clone);
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
