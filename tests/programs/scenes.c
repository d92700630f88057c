/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scene each for the live tests of the sampler: threads that are busy,
 * block, come and go; a process that execs or forks.
 *
 * scenes mixed|pause|busy|churn|exec|late|fork|orphan|measure|handler|deep
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define COUNTERS_FD 3 /* two counters: failures, rounds */

static volatile uint64_t anchor;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static unsigned int *counters;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_nsec = ms * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		continue;
}

static void burn_ms(unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ull;

	while (now_ns() < end)
		for (int i = 0; i < 10000; i++)
			anchor = anchor * 31 + (uint64_t)i;
}

static void start_thread(const char *name, void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL) != 0)
		_exit(9);
	pthread_setname_np(thread, name);
}

static void *be_busy(void *argument)
{
	for (;;)
		burn_ms(1000);
	return argument;
}

static void *be_asleep(void *argument)
{
	for (;;)
		sleep_ms(3);
	return argument;
}

static void *be_waiting(void *argument)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	/* A stop and go on ends the call with EINTR. */
	for (;;)
		epoll_wait(fd, &event, 1, -1);
	return argument;
}

static void *be_locked_out(void *argument)
{
	pthread_mutex_lock(&held);
	return argument;
}

static void act_mixed(void)
{
	pthread_mutex_lock(&held);
	start_thread("busy", be_busy);
	start_thread("asleep", be_asleep);
	start_thread("waiting", be_waiting);
	start_thread("locked", be_locked_out);
	pause();
}

static void *burn_and_end(void *argument)
{
	pthread_setname_np(pthread_self(), "mayfly");
	burn_ms(25);
	return argument;
}

static void act_churn(void)
{
	for (;;) {
		pthread_t thread;

		pthread_create(&thread, NULL, burn_and_end, NULL);
		pthread_join(thread, NULL);
	}
}

static void act_exec(void)
{
	sleep_ms(300);
	execlp("sleep", "sleep", "30", (char *)NULL);
}

#ifdef __x86_64__
long pause_late(void);
long nap_lost(const struct timespec *pause, struct timespec *left);

__asm__(".text\n"
	".type pause_late, @function\n"
	"pause_late:\n"
	".cfi_startproc\n"
	"	push $0x1234567\n"
	".cfi_adjust_cfa_offset 8\n"
	"	mov $34, %eax\n" /* pause */
	"	syscall\n"
	"	pop %rdx\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size pause_late, . - pause_late\n"
	".type nap_lost, @function\n"
	"nap_lost:\n"
	".cfi_startproc\n"
	"	push $0x1234567\n" /* its caller by the unwind tables */
	"	mov $35, %eax\n" /* nanosleep */
	"	syscall\n"
	"	pop %rdx\n"
	"	ret\n"
	".cfi_endproc\n"
	".size nap_lost, . - nap_lost\n");

/* Maps the code of this program once more; there, pause_late(). */
static int map_late(struct dl_phdr_info *info, size_t size, void *ret_late)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t skew = part->p_vaddr % 4096;
		char *copy;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		copy = mmap(NULL, part->p_memsz + skew, PROT_READ | PROT_EXEC,
			    MAP_PRIVATE, fd, (off_t)(part->p_offset - skew));
		*(char **)ret_late = copy +
				     ((uintptr_t)pause_late - info->dlpi_addr -
				      part->p_vaddr) +
				     skew;
	}
	close(fd);
	return 1; /* the first is the program itself */
}

/*
 * Naps in code without a mapping, so that the reader of maps reads less often;
 * then pauses in code that was mapped after that.
 */
static void act_late(void)
{
	const struct timespec nap = { .tv_nsec = 50000000 };
	long (*late)(void) = pause_late;

	sleep_ms(300);
	for (int i = 0; i < 8; i++) {
		nap_lost(&nap, NULL);
		sleep_ms(10);
	}
	dl_iterate_phdr(map_late, &late);
	late();
}
#else
static void act_late(void)
{
	pause();
}
#endif

static void act_fork(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "offspring");
		be_busy(NULL);
	}
	pause();
}

static void act_orphan(void)
{
	start_thread("survivor", be_asleep);
	pthread_exit(NULL);
}

static void *wait_and_measure(void *argument)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (;;) {
		struct timespec pause = { .tv_nsec = 12000000 };
		uint64_t begin = now_ns();

		if (epoll_wait(fd, &event, 1, 25) != 0 ||
		    now_ns() - begin < 24900000)
			__atomic_fetch_add(&counters[0], 1, __ATOMIC_RELAXED);
		begin = now_ns();
		if (nanosleep(&pause, NULL) != 0 || now_ns() - begin < 12000000)
			__atomic_fetch_add(&counters[0], 1, __ATOMIC_RELAXED);
		burn_ms(4);
		__atomic_fetch_add(&counters[1], 1, __ATOMIC_RELAXED);
	}
	return argument;
}

static void act_measure(void)
{
	counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			COUNTERS_FD, 0);
	if (counters == MAP_FAILED)
		_exit(8);
	for (int i = 0; i < 4; i++)
		start_thread("measure", wait_and_measure);
	pause();
}

static void sleep_in_handler(int number)
{
	(void)number;
	for (;;)
		sleep_ms(900);
}

/* Frames below the signal, larger than what is read at first. */
static __attribute__((noinline)) void raise_deep_down(int depth)
{
	volatile char room[2000];

	room[0] = (char)depth;
	if (depth)
		raise_deep_down(depth - 1);
	else
		raise(SIGUSR1);
	room[1] = room[0];
}

static void *be_in_a_handler(void *argument)
{
	const stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	if (!stack.ss_sp || sigaltstack(&stack, NULL) < 0)
		_exit(7);
	raise_deep_down(12);
	return argument;
}

static void act_handler(void)
{
	const struct sigaction action = { .sa_handler = sleep_in_handler,
					  .sa_flags = SA_ONSTACK };

	sigaction(SIGUSR1, &action, NULL);
	start_thread("handler", be_in_a_handler);
	pause();
}

/* More than a megabyte of stack. */
static __attribute__((noinline)) void pause_deep_down(int depth)
{
	volatile char room[10000];

	room[0] = (char)depth;
	if (depth)
		pause_deep_down(depth - 1);
	else
		pause();
	room[1] = room[0];
}

static void *be_deep(void *argument)
{
	pause_deep_down(120);
	return argument;
}

/* Most pages of these frames are never touched. */
static __attribute__((noinline)) void spin_deep_down(int depth)
{
	volatile char room[16000];

	room[0] = (char)depth;
	if (depth)
		spin_deep_down(depth - 1);
	else
		be_busy(NULL);
	room[1] = room[0];
}

static void *be_busy_deep_down(void *argument)
{
	spin_deep_down(19);
	return argument;
}

/* The handler's stack is mapped last, below the one that it interrupts. */
static void *be_handled_below(void *argument)
{
	const stack_t stack = { .ss_sp = mmap(
					NULL, 65536, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
				.ss_size = 65536 };

	if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) < 0)
		_exit(7);
	raise_deep_down(12);
	return argument;
}

/* All of that later than the maps were read. */
static void act_deep(void)
{
	const struct sigaction action = { .sa_handler = sleep_in_handler,
					  .sa_flags = SA_ONSTACK };
	pthread_attr_t small;
	pthread_t thread;

	/* Pages that nothing was written to stay missing. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	sleep_ms(400);
	sigaction(SIGUSR1, &action, NULL);
	start_thread("deep", be_deep);
	start_thread("spin", be_busy_deep_down);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 20);
	if (pthread_create(&thread, &small, be_handled_below, NULL) != 0)
		_exit(9);
	pthread_setname_np(thread, "handler");
	be_deep(NULL);
}

/* Its end takes long: the kernel frees it page by page. */
static void act_large(void)
{
	const size_t size = (size_t)384 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(9);
	madvise(memory, size, MADV_NOHUGEPAGE);
	memset(memory, 1, size);
	pause();
}

static void act_busy(void)
{
	be_busy(NULL);
}

static void act_pause(void)
{
	pause();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*act)(void);
	} scenes[] = {
		{ "mixed", act_mixed },	    { "pause", act_pause },
		{ "busy", act_busy },	    { "churn", act_churn },
		{ "exec", act_exec },	    { "fork", act_fork },
		{ "orphan", act_orphan },   { "measure", act_measure },
		{ "handler", act_handler }, { "late", act_late },
		{ "large", act_large },	    { "deep", act_deep },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(scenes) / sizeof(scenes[0]);
	     i++)
		if (strcmp(argv[1], scenes[i].name) == 0)
			scenes[i].act();
	fprintf(stderr, "usage: scenes SCENE\n");
	return 2;
}
