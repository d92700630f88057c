/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of the ring: memory under three million stacks, a writer that is
 * killed, regions that are broken or none at all, tables that are full.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACKS		  1000000u
#define IS_RESIDENT_EXACT 0 /* the sanitizer's shadow counts, too */
#else
#define STACKS		  3000000u
#define IS_RESIDENT_EXACT 1
#endif
#define STACKS_OF_SOAK (4 * STACKS) /* tests/run --soak */
#define THREADS	       100u
#define DAMAGES	       3000
#define SHARED_BYTES   ((size_t)1 << 20)
#define SEALS	       (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint64_t resident_bytes(void)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
	return (uint64_t)resident * 4096;
}

/* A new stack for each thread at each tick: two new nodes and frames. */
static void flood_tick(struct fgt_ring *ring, const uint32_t *slots,
		       uint64_t tick)
{
	struct fgt_frame frames[8];

	for (uint32_t i = 0; i < 8; i++)
		frames[i] = (struct fgt_frame){ .address = i };
	fgt_ring_tick_begin(ring, tick * PERIOD_NS, 0, 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		frames[0].address = tick << 20 | i << 8;
		frames[1].address = frames[0].address + 1;
		fgt_ring_set(ring, slots[i], frames, 8, 0, 0);
	}
	fgt_ring_tick_commit(ring);
}

static void assert_flood_can_be_cut(const struct fgt_ring *ring, uint64_t tick)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;

	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	/* Nothing grew old enough: what is gone had to make room. */
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.ticks, tick);
	assert_int_equal(stats.evicted_ticks, tick - slice->tick_count);
	/* 64 MiB hold more than ten seconds even of this. */
	assert_true(slice->tick_count > 1010);
	assert_int_equal(slice->run_count, slice->tick_count * THREADS);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint64_t at = slice->tick_ns[run->first_tick] / PERIOD_NS;

		assert_int_equal(kit_leaf(slice, run) >> 20, at);
		assert_int_equal(kit_depth(slice, run->stack), 8);
	}
	assert_int_equal(slice->tick_ns[slice->tick_count - 1],
			 tick * PERIOD_NS);
}

static void millions_of_stacks_pass_without_growth(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, (size_t)64 << 20);
	uint64_t start_bytes = resident_bytes(), tick = 0, largest = 0;
	uint32_t slots[THREADS], nodes = 0;
	const uint32_t stacks = getenv("FGT_TESTS_SOAK") ? STACKS_OF_SOAK
							 : STACKS;
	struct fgt_ring_stats stats;

	(void)state;
	for (uint32_t i = 0; i < THREADS; i++)
		slots[i] = kit_thread(ring, (int32_t)i + 1);
	while (tick < stacks / THREADS) {
		flood_tick(ring, slots, ++tick);
		if (tick % 1000)
			continue;
		fgt_ring_get_stats(ring, &stats);
		if (stats.nodes > nodes)
			nodes = stats.nodes;
		if (resident_bytes() - start_bytes > largest)
			largest = resident_bytes() - start_bytes;
	}
	fgt_ring_get_stats(ring, &stats);
	print_message("%u stacks: %.1f MiB touched of %.1f, %u nodes at most\n",
		      stacks, (double)largest / (1 << 20),
		      (double)stats.size_bytes / (1 << 20), nodes);
	assert_true(stats.size_bytes <= (uint64_t)64 << 20);
	if (IS_RESIDENT_EXACT)
		assert_true(largest < ((uint64_t)64 << 20) + (1 << 20));
	assert_true(stats.evicted_ticks > 0);
	assert_int_equal(stats.overflows, 0);
	assert_int_equal(stats.changes, stacks);
	assert_flood_can_be_cut(ring, tick);
	/* And all of it is given back. */
	kit_tick(ring, tick * PERIOD_NS + 100000000000);
	kit_tick(ring, tick * PERIOD_NS + 200000000000);
	kit_tick(ring, tick * PERIOD_NS + 300000000000);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.nodes, 1 + 6 + 2 * THREADS);
	assert_int_equal(stats.frames, 1 + 6 + 2 * THREADS);
}

/* ---- Shared rings ----------------------------------------------------- */

static struct fgt_ring *shared_ring(void)
{
	const struct fgt_ring_options options = {
		.size_bytes = SHARED_BYTES,
		.is_shared = true,
	};
	struct fgt_ring *ring = NULL;

	assert_int_equal(fgt_ring_new(&options, &ring), 0);
	assert_true(fgt_ring_fd(ring) >= 0);
	return ring;
}

static void write_for_ever(struct fgt_ring *ring)
{
	const struct fgt_process_info process = { .pid = 77, .name = "lost" };
	uint32_t slots[4];

	fgt_ring_set_process(ring, &process);
	for (int32_t i = 0; i < 4; i++)
		slots[i] = kit_thread(ring, i + 1);
	for (uint64_t tick = 1;; tick++) {
		fgt_ring_tick_begin(ring, tick * PERIOD_NS, tick, 0);
		for (uint32_t i = 0; i < 4; i++)
			kit_set(ring, slots[i], tick << 20, 6, 0);
		fgt_ring_tick_commit(ring);
	}
}

static void wait_for_ticks(const struct fgt_ring *ring, uint64_t ticks)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct fgt_ring_stats stats;

	do {
		nanosleep(&pause, NULL);
		fgt_ring_get_stats(ring, &stats);
	} while (stats.ticks < ticks);
}

static void ring_of_a_killed_writer_can_be_cut(void **state)
{
	(void)state;
	for (uint64_t round = 1; round <= 10; round++) {
		FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = shared_ring();
		FGT_AUTO(fgt_ring_free) struct fgt_ring *reader = NULL;
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;
		pid_t pid = fork();

		if (!pid)
			write_for_ever(ring);
		assert_true(pid > 0);
		assert_int_equal(fgt_ring_open(fgt_ring_fd(ring), &reader), 0);
		assert_int_equal(fgt_ring_fd(reader), -1);
		wait_for_ticks(reader, round * 701);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		slice = kit_cut(reader, 0, UINT64_MAX);
		kit_validate(slice);
		assert_int_equal(slice->process.pid, 77);
		assert_string_equal(slice->process.name, "lost");
		assert_int_equal(slice->thread_count, 4);
		for (uint32_t i = 0; i < slice->run_count; i++) {
			const struct fgt_run *run = &slice->runs[i];

			assert_int_equal(kit_leaf(slice, run) >> 20,
					 slice->tick_ns[run->first_tick] /
						 PERIOD_NS);
			assert_int_equal(kit_depth(slice, run->stack), 6);
		}
	}
}

static void other_process_cannot_write_to_a_shared_ring(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = shared_ring();
	int fd = fgt_ring_fd(ring);

	(void)state;
	assert_true(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	if (fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE)
		assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED, fd, 0),
				 MAP_FAILED);
}

/* A private copy of a shared ring that a test may damage. */
struct copy {
	int fd;
	uint8_t *bytes;
	size_t len;
};

static struct copy copy_of(const struct fgt_ring *ring)
{
	struct copy copy = { .fd = memfd_create(
				     "copy", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	void *source;

	copy.len = (size_t)lseek(fgt_ring_fd(ring), 0, SEEK_END);
	assert_int_equal(ftruncate(copy.fd, (off_t)copy.len), 0);
	assert_int_equal(fcntl(copy.fd, F_ADD_SEALS, SEALS), 0);
	copy.bytes = mmap(NULL, copy.len, PROT_READ | PROT_WRITE, MAP_SHARED,
			  copy.fd, 0);
	source = mmap(NULL, copy.len, PROT_READ, MAP_SHARED, fgt_ring_fd(ring),
		      0);
	assert_ptr_not_equal(copy.bytes, MAP_FAILED);
	assert_ptr_not_equal(source, MAP_FAILED);
	memcpy(copy.bytes, source, copy.len);
	munmap(source, copy.len);
	return copy;
}

static void copy_done(struct copy *copy)
{
	munmap(copy->bytes, copy->len);
	close(copy->fd);
}

static void wait_and_wake(struct fgt_ring *ring, uint32_t slot, uint64_t tick,
			  const struct fgt_frame *frames)
{
	const struct fgt_wait wait = { .kind = tick % FGT_WAIT_KINDS,
				       .address = tick / 9,
				       .text = "some text" };
	const struct fgt_wake_source waker = { .tid = (int32_t)tick % 5,
					       .context = tick % 3,
					       .name = "waker",
					       .frames = frames + 2,
					       .frame_count = tick % 3 };

	if (tick % 3 == 0)
		assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	if (tick % 7 == 0)
		assert_int_equal(fgt_ring_add_wake(ring, slot,
						   tick * PERIOD_NS - 1000, 9,
						   &waker),
				 0);
	fgt_ring_lose_wakes(ring, tick % 2);
}

static struct fgt_ring *filled_ring(void)
{
	struct fgt_ring *ring = shared_ring();
	struct fgt_image image = { .path = "/lib/x" };
	struct fgt_frame frames[5] = { 0 };
	uint32_t slots[10];

	assert_int_equal(fgt_ring_image_get(ring, &image, &frames[0].image), 0);
	for (int32_t i = 0; i < 10; i++)
		slots[i] = kit_thread(ring, i);
	for (uint64_t tick = 1; tick <= 400; tick++) {
		fgt_ring_tick_begin(ring, tick * PERIOD_NS, tick, tick % 7);
		for (uint32_t i = 0; i < 10; i++) {
			frames[0].address = tick / (i + 1) + i;
			frames[2].address = tick % 5;
			fgt_ring_set(ring, slots[i], frames, 5, i,
				     tick % 11 ? 0 : i);
			wait_and_wake(ring, slots[i], tick, frames);
		}
		fgt_ring_tick_commit(ring);
	}
	return ring;
}

/* Any bytes give an error or a valid slice. */
static bool try_to_cut(int fd)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t oldest_ns, newest_ns;
	struct fgt_ring_stats stats;
	int error;

	if (fgt_ring_open(fd, &ring))
		return false;
	fgt_ring_get_stats(ring, &stats);
	fgt_ring_range(ring, &oldest_ns, &newest_ns);
	error = fgt_ring_cut(ring, 0, UINT64_MAX, &slice);
	if (error) {
		assert_true(error == -EBADMSG || error == -ENODATA ||
			    error == -EAGAIN || error == -ENOMEM);
		return false;
	}
	assert_true(fgt_slice_is_valid(slice));
	return true;
}

static uint32_t next_random(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*random >> 33);
}

/* Somewhere in the first len bytes, mostly where something is. */
static size_t pick_offset(const struct copy *copy, uint64_t *random)
{
	size_t at = 0;

	for (int i = 0; i < 200; i++) {
		at = next_random(random) % copy->len;
		if (!(next_random(random) % 3))
			at %= 12288; /* header and directory */
		if (copy->bytes[at])
			break;
	}
	return at;
}

static void damaged_region_never_harms_its_reader(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = filled_ring();
	struct copy copy = copy_of(ring);
	uint64_t random = 20261121;
	uint32_t survived = 0;

	(void)state;
	assert_true(try_to_cut(copy.fd));
	for (int i = 0; i < DAMAGES; i++) {
		uint32_t flips = 1 + next_random(&random) % 6;
		size_t offsets[6];
		uint8_t saved[6];

		for (uint32_t k = 0; k < flips; k++) {
			offsets[k] = pick_offset(&copy, &random);
			saved[k] = copy.bytes[offsets[k]];
			copy.bytes[offsets[k]] ^= (uint8_t)next_random(&random);
		}
		survived += try_to_cut(copy.fd);
		while (flips--)
			copy.bytes[offsets[flips]] = saved[flips];
	}
	print_message("%u of %u damaged rings could still be cut\n", survived,
		      DAMAGES);
	assert_true(try_to_cut(copy.fd));
	assert_in_range(survived, 1, DAMAGES - 1);
	copy_done(&copy);
}

static void memory_that_is_not_a_ring_is_refused(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = filled_ring();
	struct copy copy = copy_of(ring);
	struct fgt_ring *opened = NULL;
	int fd = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(fgt_ring_open(-1, &opened), -EINVAL);
	assert_int_equal(fgt_ring_open(fd, &opened), -EINVAL);
	assert_int_equal(ftruncate(fd, 100000), 0);
	/* Could be truncated while it is read. */
	assert_int_equal(fgt_ring_open(fd, &opened), -EINVAL);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	assert_int_equal(fgt_ring_open(fd, &opened), -EINVAL);
	/* A header that promises more than there is. */
	assert_int_equal(pwrite(fd, copy.bytes, 50000, 0), 50000);
	assert_int_equal(fgt_ring_open(fd, &opened), -EINVAL);
	copy.bytes[8]++; /* another version */
	assert_int_equal(fgt_ring_open(copy.fd, &opened), -EINVAL);
	assert_null(opened);
	close(fd);
	copy_done(&copy);
}

static void full_tables_are_reported(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	struct fgt_image image = { .path = "/a" };
	uint32_t id, slot, images = 0, threads = 0;
	int error;

	(void)state;
	do {
		image.ino++;
		error = fgt_ring_image_get(ring, &image, &id);
		images += !error;
	} while (!error && images < 1000000);
	assert_int_equal(error, -ENOSPC);
	assert_true(images >= 64);
	do {
		error = fgt_ring_thread_add(ring, 1, 1, "t", &slot);
		threads += !error;
	} while (!error && threads < 1000000);
	assert_int_equal(error, -ENOSPC);
	assert_true(threads >= 500);
	kit_tick(ring, 1);
	assert_int_equal(fgt_ring_thread_end(ring, 0), 0);
	kit_tick(ring, 2);
	/* Held by its ticks; the last two seconds are never dropped. */
	assert_int_equal(fgt_ring_thread_add(ring, 1, 1, "t", &slot), -ENOSPC);
	kit_tick(ring, 2000000000);
	assert_int_equal(fgt_ring_thread_add(ring, 1, 1, "t", &slot), -ENOSPC);
	kit_tick(ring, 4000000000);
	assert_int_equal(fgt_ring_thread_add(ring, 1, 1, "t", &slot), 0);
}

static bool is_leaf_used(const struct fgt_ring_slice *slice, uint64_t leaf)
{
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (kit_leaf(slice, &slice->runs[i]) == leaf)
			return true;
	return false;
}

/* Fault T4. */
static void stack_without_room_becomes_overflow(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;
	uint32_t slots[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		slots[i] = kit_thread(ring, i + 1);
	for (uint64_t tick = 1; tick <= 50; tick++) {
		fgt_ring_tick_begin(ring, tick * PERIOD_NS, 0, 0);
		for (uint32_t i = 0; i < 100; i++)
			kit_set(ring, slots[i], (tick * 100 + i) << 20, 500, 0);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	fgt_ring_get_stats(ring, &stats);
	assert_true(stats.overflows > 0);
	assert_true(stats.evicted_ticks > 0);
	assert_true(is_leaf_used(slice, FGT_MARKER_OVERFLOW));
	assert_true(is_leaf_used(slice, (uint64_t)5000 << 20) ||
		    is_leaf_used(slice, (uint64_t)4900 << 20));
	/* And it recovers as soon as there is room. */
	fgt_ring_tick_begin(ring, 50 * PERIOD_NS + 40000000000, 0, 0);
	for (uint32_t i = 0; i < 100; i++)
		kit_set(ring, slots[i], 77, 5, 0);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, 50 * PERIOD_NS + 50000000000);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, 50 * PERIOD_NS + 40000000000, UINT64_MAX);
	assert_int_equal(kit_leaf(slice, kit_run(slice, 100, 1)), 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_tables_are_reported),
		cmocka_unit_test(stack_without_room_becomes_overflow),
		cmocka_unit_test(millions_of_stacks_pass_without_growth),
		cmocka_unit_test(ring_of_a_killed_writer_can_be_cut),
		cmocka_unit_test(other_process_cannot_write_to_a_shared_ring),
		cmocka_unit_test(damaged_region_never_harms_its_reader),
		cmocka_unit_test(memory_that_is_not_a_ring_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
