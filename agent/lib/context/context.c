/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the service of the program as an OpenTelemetry process context
 * (OTEP 4719), for agents and profilers of any kind: a page of memory that is
 * named OTEL_CTX. Without a name of the service, too: readers look for contexts
 * of threads only where there is one. A part of the library: from fgt_start() to
 * fgt_stop().
 *
 * A child of a fork does not have the page, since it is another instance of the
 * service; it publishes when it calls fgt_start() itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/context/payload.h"
#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define NAME	"OTEL_CTX"
#define VERSION 2

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d61
#define PR_SET_VMA_ANON_NAME 0
#endif

struct published {
	char signature[8];
	uint32_t version, payload_bytes;
	_Atomic uint64_t published_ns; /* CLOCK_BOOTTIME; 0: not complete */
	uint64_t payload; /* address */
	uint8_t bytes[FGT_PAYLOAD_MAX];
};
_Static_assert(offsetof(struct published, bytes) == 32, "as readers expect it");

/* Written by start and stop only; in the child of a fork also by forked. */
static struct published *published;

/* ---- Is there one already? ---------------------------------------------- */

static bool has_name(const char *text, size_t len)
{
	static const char *const names[] = { "/memfd:" NAME,
					     "[anon_shmem:" NAME "]",
					     "[anon:" NAME "]" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (memmem(text, len, names[i], strlen(names[i])))
			return true;
	return false;
}

/* In pieces that overlap by more than a name. */
static bool is_published(void)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const size_t overlap = 32;
	char text[4096];
	size_t kept = 0;
	off_t offset = 0;
	ssize_t got;

	while (fd >= 0 && (got = pread(fd, text + kept, sizeof(text) - kept,
				       offset)) > 0) {
		size_t len = kept + (size_t)got;

		if (has_name(text, len))
			return true;
		offset += got;
		kept = len < overlap ? len : overlap;
		memmove(text, text + len - kept, kept);
	}
	return false;
}

/* ---- Publishing --------------------------------------------------------- */

static int open_named(size_t size)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(NAME, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return FGT_TAKE_FD(fd);
}

/* A page that a name shows in the maps, by its file or by itself. */
static int map_named(struct published **ret_page)
{
	const size_t size = sizeof(struct published);
	FGT_AUTO(fgt_fd_close) int fd = open_named(size);
	int flags = fd >= 0 ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, flags,
			  fd >= 0 ? fd : -1, 0);
	int r;

	if (page == MAP_FAILED)
		return -errno;
	r = madvise(page, size, MADV_DONTFORK) < 0 ? -errno : 0;
	/* Linux 5.17 */
	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, size, NAME) < 0 &&
	    fd < 0)
		r = -errno;
	if (r < 0) {
		munmap(page, size);
		return r;
	}
	*ret_page = page;
	return 0;
}

/* A UUID of version 4. */
static void make_instance(char ret_text[37])
{
	unsigned char random[16] = { 0 };
	char *to = ret_text;

	(void)!getrandom(random, sizeof(random), 0);
	random[6] = (random[6] & 0x0f) | 0x40;
	random[8] = (random[8] & 0x3f) | 0x80;
	for (size_t i = 0; i < sizeof(random); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		to += snprintf(to, 3, "%02x", random[i]);
	}
}

static int publish(const struct fgt_options *options)
{
	struct fgt_options own = *options;
	char instance[37];
	struct published *page;
	int r = map_named(&page);

	if (r < 0)
		return r;
	make_instance(instance);
	if (own.service_name && !own.service_instance)
		own.service_instance = instance;
	page->version = VERSION;
	page->payload_bytes = (uint32_t)fgt_payload_write(&own, page->bytes);
	page->payload = (uintptr_t)page->bytes;
	memcpy(page->signature, NAME, sizeof(page->signature));
	/* Release: a reader that sees the time sees all of the above. */
	atomic_store_explicit(&page->published_ns, fgt_clock_ns(CLOCK_BOOTTIME),
			      memory_order_release);
	published = page;
	return 0;
}

static int start(const struct fgt_options *options)
{
	int r = is_published() ? 0 : publish(options);

	if (r < 0)
		fgt_report("the service's name and the traces of threads are "
			   "not published: %s: allow memfd_create(2) and "
			   "madvise(2)",
			   strerror(-r));
	return 0;
}

static void stop(void)
{
	if (published)
		munmap(FGT_TAKE(published), sizeof(*published));
}

/* The page is the parent's: something else may lie at its address. */
static void forked(void)
{
	published = NULL;
}

const struct fgt_part fgt_context_part = {
	.start = start,
	.stop = stop,
	.forked = forked,
};
