/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that end where nothing may be read, and frame pointers that point
 * there: fault S12. The program causes and handles faults itself, and must get
 * no other.
 *
 * bad_stacks MILLISECONDS    of each of its cases
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "zoo.h"

#define PAGE_BYTES  4096u
#define STACK_PAGES 4u
#define OWN_FAULTS  1000u

static ucontext_t home;
static unsigned int duration_ms;
static sigjmp_buf back;
static volatile sig_atomic_t is_own; /* the fault that is expected */
static volatile unsigned int own_faults, foreign_faults;
static volatile unsigned long sink;

static void handle_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	if (is_own) {
		own_faults++;
		siglongjmp(back, 1);
	}
	foreign_faults++;
	(void)!write(STDOUT_FILENO, "foreign fault\n", 14);
	_exit(1);
}

/* STACK_PAGES that may be touched; above them: nothing mapped, no access, or
 * pages of a file behind its end. */
static char *map_below(const char *what)
{
	size_t bytes = STACK_PAGES * PAGE_BYTES;
	int fd = memfd_create("stack", MFD_CLOEXEC);
	bool is_file = strcmp(what, "file") == 0;
	char *stack;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		exit(3);
	stack = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
		     is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
		     is_file ? fd : -1, 0);
	close(fd);
	if (stack == MAP_FAILED)
		exit(3);
	if (strcmp(what, "unmapped") == 0)
		munmap(stack + bytes, bytes);
	else if (strcmp(what, "forbidden") == 0)
		mprotect(stack + bytes, bytes, PROT_NONE);
	return stack;
}

static void burn_here(void)
{
	zoo_burn_ms(duration_ms);
}

static void burn_on(const char *what)
{
	ucontext_t there;

	getcontext(&there);
	there.uc_stack.ss_sp = map_below(what);
	there.uc_stack.ss_size = STACK_PAGES * PAGE_BYTES;
	there.uc_link = &home;
	makecontext(&there, burn_here, 0);
	swapcontext(&home, &there);
	printf("stack below %s: survived\n", what);
}

/* With a frame pointer of our choice; calls nothing. */
static ZOO_NOINLINE void zoo_burn_framed(uintptr_t frame, unsigned long turns)
{
#ifdef __x86_64__
	__asm__ volatile("mov %%rbp, %%r12\n\t"
			 "mov %1, %%rbp\n"
			 "1:\tdec %0\n\t"
			 "jnz 1b\n\t"
			 "mov %%r12, %%rbp"
			 : "+r"(turns)
			 : "r"(frame)
			 : "r12", "cc", "memory");
#else
	__asm__ volatile("mov x19, x29\n\t"
			 "mov x29, %1\n"
			 "1:\tsubs %0, %0, #1\n\t"
			 "b.ne 1b\n\t"
			 "mov x29, x19"
			 : "+r"(turns)
			 : "r"(frame)
			 : "x19", "cc", "memory");
#endif
}

static void burn_framed(const char *what, uintptr_t frame)
{
	uint64_t end_ns = zoo_now_ns() + duration_ms * 1000000ull;

	do
		zoo_burn_framed(frame, 2000000);
	while (zoo_now_ns() < end_ns);
	printf("frame pointer %s: survived\n", what);
}

static void burn_all_framed(void)
{
	size_t bytes = STACK_PAGES * PAGE_BYTES;
	uintptr_t loop[2] = { (uintptr_t)loop, (uintptr_t)zoo_burn_framed };

	burn_framed("null", 0);
	burn_framed("low", 16);
	burn_framed("odd", (uintptr_t)&home + 1);
	burn_framed("heap", (uintptr_t)malloc(64));
	burn_framed("itself", (uintptr_t)loop);
	burn_framed("no address", (uintptr_t)0xdead000000000000u);
	burn_framed("unmapped", (uintptr_t)map_below("unmapped") + bytes + 64);
	burn_framed("forbidden",
		    (uintptr_t)map_below("forbidden") + bytes + 64);
	burn_framed("file", (uintptr_t)map_below("file") + bytes + 64);
	burn_framed("at the edge",
		    (uintptr_t)map_below("unmapped") + bytes - 8);
}

static bool fault_often(void)
{
	const volatile char *forbidden =
		map_below("forbidden") + STACK_PAGES * PAGE_BYTES;
	const volatile char *file =
		map_below("file") + STACK_PAGES * PAGE_BYTES;
	struct sigaction action;
	bool is_first = true;

	for (volatile unsigned int i = 0; i < OWN_FAULTS; i++) {
		is_own = 1;
		if (sigsetjmp(back, 1) == 0)
			sink += (unsigned char)*(i % 2 ? forbidden : file);
		is_own = 0;
		sink += i;
	}
	for (int i = 0; i < 2; i++)
		if (sigaction(i ? SIGSEGV : SIGBUS, NULL, &action) < 0 ||
		    action.sa_sigaction != handle_fault)
			is_first = false;
	return zoo_note("own faults", OWN_FAULTS - own_faults) |
	       zoo_note("handlers of faults", !is_first);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = handle_fault,
				    .sa_flags = SA_SIGINFO | SA_NODEFER };
	bool is_harmed;

	zoo_begin();
	duration_ms = argc > 1 ? (unsigned int)atoi(argv[1]) : 100;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	zoo_start_burners(1);
	burn_on("unmapped");
	burn_on("forbidden");
	burn_on("file");
	burn_all_framed();
	is_harmed = fault_often();
	zoo_end();
	return is_harmed;
}
