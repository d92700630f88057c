/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of a process that has ended, with any words in it changed, as a
 * hostile process would leave it: never a crash, and the slice that is cut out
 * of it is valid.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/ring/ring.h"

#define RING_BYTES  (1u << 20)
#define TICKS	    300
#define PATCHES_MAX 64
#define PATCH_BYTES 11

static struct {
	int fd;
	uint64_t *words; /* what fd holds */
	size_t count;
	uint32_t *used; /* indices of words that are not 0 */
	size_t used_count;
} region;

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void wait_and_wake(struct fgt_ring *ring, uint32_t slot, uint64_t tick,
			  const struct fgt_frame *frames)
{
	const struct fgt_wait wait = { .kind = FGT_WAIT_FAULT,
				       .address = tick / 9,
				       .text = "some text" };
	const struct fgt_wake_source waker = { .tid = (int32_t)tick % 5,
					       .context = FGT_WAKE_TASK,
					       .name = "waker",
					       .frames = frames,
					       .frame_count = 4 };

	must(fgt_ring_set_wait(ring, slot, &wait) == 0);
	must(fgt_ring_add_wake(ring, slot, tick * 10000000 - 5000, 7, &waker) ==
	     0);
	fgt_ring_lose_wakes(ring, tick % 2);
}

static struct fgt_ring *make_ring(void)
{
	const struct fgt_ring_options options = { .hz = 100,
						  .seconds = 2,
						  .size_bytes = RING_BYTES,
						  .is_shared = true };
	const struct fgt_image image = { .path = "/bin/true",
					 .build_id = { 1, 2, 3 },
					 .build_id_len = 3 };
	struct fgt_ring *ring;
	uint32_t slots[3], number;

	must(fgt_ring_new(&options, &ring) == 0);
	must(fgt_ring_image_get(ring, &image, &number) == 0);
	for (int32_t i = 0; i < 3; i++)
		must(fgt_ring_thread_add(ring, 100 + i, 7, "worker",
					 &slots[i]) == 0);
	for (uint64_t tick = 1; tick <= TICKS; tick++) {
		struct fgt_frame frames[4] = {
			{ .image = number, .address = 0x1000 + tick % 7 },
			{ .image = number, .address = 0x2000 + tick % 3 },
			{ .image = number, .address = 0x3000 },
			{ .image = number, .address = 0x4000 },
		};

		fgt_ring_tick_begin(ring, tick * 10000000, tick * 10000000, 0);
		must(fgt_ring_set(ring, slots[tick % 3], frames, 4,
				  (uint32_t)tick % 2, 0) == 0);
		wait_and_wake(ring, slots[tick % 3], tick, frames);
		fgt_ring_tick_commit(ring);
	}
	return ring;
}

/* Writable, unlike the ring's own memfd. */
static void copy_region(int from)
{
	off_t len = lseek(from, 0, SEEK_END);

	region.count = (size_t)len / sizeof(*region.words);
	region.fd = memfd_create("ring", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	must(region.fd >= 0 && ftruncate(region.fd, len) == 0);
	region.words = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE,
			    MAP_SHARED, region.fd, 0);
	must(region.words != MAP_FAILED);
	must(pread(from, region.words, (size_t)len, 0) == len);
	must(fcntl(region.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	region.used = calloc(region.count, sizeof(*region.used));
	must(region.used);
	for (uint32_t i = 0; i < region.count; i++)
		if (region.words[i])
			region.used[region.used_count++] = i;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct fgt_ring *ring = make_ring();

	(void)argc;
	(void)argv;
	copy_region(fgt_ring_fd(ring));
	fgt_ring_free(ring);
	return 0;
}

/* A change of a word, as the input has it. */
struct patch {
	uint32_t index;
	uint64_t before;
};

/* How, which word, and a value. */
static struct patch apply(const uint8_t *bytes)
{
	uint32_t which = bytes[1] | (uint32_t)bytes[2] << 8;
	struct patch patch = { .index =
				       region.used[which % region.used_count] };
	uint64_t value;

	if (bytes[0] & 1)
		patch.index = (uint32_t)(which * 64u % region.count);
	patch.before = region.words[patch.index];
	memcpy(&value, bytes + 3, sizeof(value));
	if (bytes[0] & 2)
		value += patch.before;
	else if (bytes[0] & 4)
		value ^= patch.before;
	region.words[patch.index] = value;
	return patch;
}

static void cut(void)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;

	if (fgt_ring_open(region.fd, &ring) == 0 &&
	    fgt_ring_cut(ring, 0, UINT64_MAX, &slice) == 0)
		must(fgt_slice_is_valid(slice));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct patch patches[PATCHES_MAX];
	size_t count = 0;

	for (; len >= PATCH_BYTES && count < PATCHES_MAX; count++) {
		patches[count] = apply(bytes);
		bytes += PATCH_BYTES;
		len -= PATCH_BYTES;
	}
	cut();
	while (count-- > 0)
		region.words[patches[count].index] = patches[count].before;
	return 0;
}
