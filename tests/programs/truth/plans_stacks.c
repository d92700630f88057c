/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of stacks that are hard to unwind: coroutines on the heap, two
 * thousand frames, handlers on an alternate stack, generated code.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "plan.h"
#include "work.h"

#define COROUTINE_BYTES (96u << 10)
#define ALTSTACK_BYTES	(64u << 10)
#define ALTSTACK_SIGNAL (SIGRTMIN + 5)
#define CODE_BYTES	4096u

struct coroutine {
	ucontext_t context;
	void (*run)(uint64_t ns);
	uint64_t ns;
};

/* Of the one thread that has coroutines. */
static ucontext_t home;
static struct coroutine *current;

static NOINLINE void live_in_coroutine(void)
{
	struct coroutine *self = current;

	for (;;) {
		self->run(self->ns);
		swapcontext(&self->context, &home);
	}
}

static void resume(struct coroutine *coroutine, void (*run)(uint64_t),
		   uint64_t ns)
{
	current = coroutine;
	coroutine->ns = ns;
	if (!coroutine->run) {
		coroutine->run = run;
		getcontext(&coroutine->context);
		coroutine->context.uc_stack.ss_sp = malloc(COROUTINE_BYTES);
		coroutine->context.uc_stack.ss_size = COROUTINE_BYTES;
		makecontext(&coroutine->context, live_in_coroutine, 0);
	}
	swapcontext(&home, &coroutine->context);
	truth_anchor++;
}

#define DEFINE_COROUTINE(name, work)                                           \
	static NOINLINE void name(uint64_t ns)                                 \
	{                                                                      \
		static struct coroutine coroutine;                             \
                                                                               \
		resume(&coroutine, work, ns);                                  \
	}
DEFINE_COROUTINE(resume_alpha, burn_alpha)
DEFINE_COROUTINE(resume_beta, burn_beta)
DEFINE_COROUTINE(resume_sleep, block_nanosleep)

void plan_coroutines(void)
{
	struct plan *plan = add_plan("coroutines", 15);

	add_step(plan, "burn_alpha", NULL, resume_alpha, 7 * NS_PER_MS);
	add_step(plan, "burn_beta", NULL, resume_beta, 3 * NS_PER_MS);
	add_step(plan, "block_nanosleep", "clock_nanosleep", resume_sleep,
		 4 * NS_PER_MS);
}

void plan_deep(void)
{
	struct plan *plan = add_plan("deep", 12);

	STEP(plan, burn_alpha, NULL, 25000)->depth = 2000;
	STEP(plan, burn_beta, NULL, 12000)->depth = 300;
	STEP(plan, block_nanosleep, "clock_nanosleep", 18000)->depth = 1000;
	STEP(plan, burn_gamma, NULL, 8000)->depth = 12;
}

static _Thread_local void (*handler_run)(uint64_t ns);
static _Thread_local uint64_t handler_ns;

static NOINLINE void handle_on_altstack(int number)
{
	(void)number;
	handler_run(handler_ns);
	truth_anchor++;
}

static NOINLINE void raise_beta(uint64_t ns)
{
	handler_run = burn_beta;
	handler_ns = ns;
	raise(ALTSTACK_SIGNAL);
	truth_anchor++;
}

static NOINLINE void raise_sleep(uint64_t ns)
{
	handler_run = block_nanosleep;
	handler_ns = ns;
	raise(ALTSTACK_SIGNAL);
	truth_anchor += 2;
}

static void take_altstack(struct plan *plan)
{
	struct sigaction action = { .sa_handler = handle_on_altstack,
				    .sa_flags = SA_ONSTACK | SA_RESTART };
	stack_t stack = { .ss_size = ALTSTACK_BYTES,
			  .ss_sp = malloc(ALTSTACK_BYTES) };

	(void)plan;
	if (sigaltstack(&stack, NULL) < 0 ||
	    sigaction(ALTSTACK_SIGNAL, &action, NULL) < 0)
		abort();
}

static void add_altstack(const char *name, unsigned int depth)
{
	struct plan *plan = add_plan(name, depth);

	plan->prepare = take_altstack;
	STEP(plan, burn_alpha, NULL, 15000);
	STEP(plan, raise_beta, NULL, 12000);
	STEP(plan, raise_sleep, "clock_nanosleep", 18000);
}

void plan_altstack(void)
{
	add_altstack("altstack-40", 40);
	add_altstack("altstack-400", 400);
}

/* uint64_t loop(uint64_t rounds): a leaf with the usual frame. */
#if defined(__x86_64__)
static const unsigned char loop_code[] = {
	0x55, /* push %rbp */
	0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
	0x48, 0x89, 0xf8, /* mov %rdi, %rax */
	0x48, 0xff, 0xc8, /* dec %rax */
	0x75, 0xfb, /* jne back to the dec */
	0x5d, /* pop %rbp */
	0xc3, /* ret */
};
#elif defined(__aarch64__)
static const uint32_t loop_code[] = {
	0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
	0x910003fd, /* mov x29, sp */
	0xf1000400, /* subs x0, x0, #1 */
	0x54ffffe1, /* b.ne back to the subs */
	0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
	0xd65f03c0, /* ret */
};
#else
#error "the loop of the jit scenario in this processor's code"
#endif

static uint64_t (*generated_loop)(uint64_t rounds);

static NOINLINE void run_generated(uint64_t ns)
{
	uint64_t until_ns = truth_now_ns() + ns;

	do {
		truth_anchor += generated_loop(100000);
	} while (truth_now_ns() < until_ns);
}

static void generate_loop(struct plan *plan)
{
	char *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)plan;
	if (code == MAP_FAILED)
		abort();
	memcpy(code, loop_code, sizeof(loop_code));
	if (mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC) < 0)
		abort();
	__builtin___clear_cache(code, code + sizeof(loop_code));
	memcpy(&generated_loop, &code, sizeof(generated_loop));
}

void plan_jit(void)
{
	struct plan *plan = add_plan("jit", 15);

	plan->prepare = generate_loop;
	STEP(plan, run_generated, NULL, 31000);
	STEP(plan, burn_alpha, NULL, 17000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 20000);
}
