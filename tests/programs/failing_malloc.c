/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that fails by a plan: LD_PRELOAD it, with
 * FAILING_MALLOC=FILE. The file holds a struct plan, which may be changed at
 * any time. Only the program itself has it, not what it executes.
 *
 * Runs in every thread of a foreign program; must not allocate.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct plan {
	_Atomic uint32_t odds; /* one call in so many fails; 0: none */
	_Atomic uint32_t at; /* the call after so many fails; 0: none */
	_Atomic uint64_t calls;
	_Atomic uint64_t failed;
};

typedef int attributes_fn(pthread_t thread, pthread_attr_t *ret);
typedef void *malloc_fn(size_t size);
typedef void *calloc_fn(size_t count, size_t size);
typedef void *realloc_fn(void *old, size_t size);
typedef void *aligned_fn(size_t alignment, size_t size);
typedef int posix_fn(void **ret, size_t alignment, size_t size);

static struct plan *plan;
static __thread int is_exempt;

static void __attribute__((constructor)) begin(void)
{
	const char *path = getenv("FAILING_MALLOC");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory = fd < 0 ? MAP_FAILED
			      : mmap(NULL, sizeof(*plan),
				     PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (memory != MAP_FAILED)
		plan = memory;
}

/* The same calls of one thread fail in each run; those of several may not. */
static int is_due(uint64_t call, uint32_t odds)
{
	uint64_t mixed = call * UINT64_C(0x9e3779b97f4a7c15);

	return odds && (mixed >> 32) % odds == 0;
}

static int fails(void)
{
	uint64_t call;
	uint32_t left;

	if (!plan || is_exempt)
		return 0;
	call = atomic_fetch_add(&plan->calls, 1);
	left = atomic_load(&plan->at);
	while (left &&
	       !atomic_compare_exchange_weak(&plan->at, &left, left - 1))
		;
	if (left != 1 && !is_due(call, atomic_load(&plan->odds)))
		return 0;
	atomic_fetch_add(&plan->failed, 1);
	errno = ENOMEM;
	return 1;
}

/* The allocator's own, or that of a sanitizer. */
#define NEXT(type, name)                                                       \
	static type *next;                                                     \
                                                                               \
	if (!next)                                                             \
	next = (type *)(uintptr_t)dlsym(RTLD_NEXT, name)

EXPORT void *malloc(size_t size)
{
	NEXT(malloc_fn, "malloc");
	return fails() ? NULL : next(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	NEXT(calloc_fn, "calloc");
	return fails() ? NULL : next(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
	NEXT(realloc_fn, "realloc");
	return fails() ? NULL : next(old, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	NEXT(aligned_fn, "aligned_alloc");
	return fails() ? NULL : next(alignment, size);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	NEXT(posix_fn, "posix_memalign");
	return fails() ? ENOMEM : next(ret, alignment, size);
}

/* A sanitizer calls it in each new thread, and ends the program if it fails. */
EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret)
{
	int error;

	NEXT(attributes_fn, "pthread_getattr_np");
	is_exempt = 1;
	error = next(thread, ret);
	is_exempt = 0;
	return error;
}
