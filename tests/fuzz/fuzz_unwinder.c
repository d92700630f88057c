/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the unwinder with registers, stacks and a damaged ELF file. The file
 * is a real small one (this kernel's vDSO) with bytes of the input laid over
 * it; maps shows that it lies where the input's copy is in our own memory.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/unwind/unwinder.h"
#include "tests/unit/unwind/unwind_mutate.h"

#define MAX_DEPTH  64
#define IMAGE_SIZE 8192u
#define PATCH_LEN  3u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static uint8_t image[IMAGE_SIZE] __attribute__((aligned(4096)));
static struct mutated mutated;

/* Patches: two bytes of position, one of value. Returns how many were used. */
static size_t patch_image(const uint8_t *bytes, size_t len)
{
	const void *vdso = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	size_t count = len ? bytes[0] % 16u : 0, used = 1;

	memcpy(image, vdso, sizeof(image));
	for (size_t i = 0; i < count && len - used >= PATCH_LEN; i++) {
		size_t at = bytes[used] | (size_t)bytes[used + 1] << 8;

		image[at % sizeof(image)] = bytes[used + 2];
		used += PATCH_LEN;
	}
	return used;
}

static void check(const struct fgt_unwind_result *result)
{
	if (!result->count || result->count > MAX_DEPTH + 2)
		abort();
}

static void go_on(struct fgt_unwinder *unwinder, const struct fgt_maps *maps,
		  bool is_later, struct fgt_unwind_result *result)
{
	struct fgt_snapshot piece = { .stack = mutated.snapshot.stack,
				      .stack_len = mutated.snapshot.stack_len };

	if (!result->next_sp)
		return;
	piece.stack_start =
		result->next_sp - (is_later ? FGT_UNWIND_OVERLAP_BYTES : 0);
	piece.stack_limit = piece.stack_start + 2 * piece.stack_len;
	fgt_unwind_go_on(unwinder, maps, &piece, is_later, result);
	check(result);
	if (result->later_first > result->count)
		abort();
}

static struct fgt_maps *make_maps(struct fgt_image_cache *cache, int proc_fd)
{
	uint64_t start = (uint64_t)(uintptr_t)image;
	struct fgt_maps *maps = NULL;
	char text[256];
	int text_len;

	text_len = snprintf(text, sizeof(text),
			    "%" PRIx64 "-%" PRIx64
			    " r-xp 00000000 00:00 0 [vdso]\n"
			    "7fff00000000-7fff00001000 rwxp 00000000 00:00 0\n",
			    start, start + sizeof(image));
	if (fgt_maps_parse(text, (size_t)text_len, proc_fd, getpid(), cache,
			   &maps) < 0)
		return NULL;
	return maps;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_unwound_frame frames[MAX_DEPTH + 2];
	uint64_t code[] = { (uint64_t)(uintptr_t)image, 0x7fff00000000 };
	FGT_AUTO(fgt_fd_close) int proc_fd = -1;
	struct fgt_unwind_result result;
	struct fgt_unwinder *unwinder;
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	size_t used;

	if (len < 2)
		return 0;
	proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	used = patch_image(bytes, len);
	if (used >= len || fgt_image_cache_new(&cache) < 0)
		return 0;
	maps = make_maps(cache, proc_fd);
	if (maps && fgt_unwinder_new(cache, MAX_DEPTH, &unwinder) == 0) {
		mutate(bytes + used, len - used, code, 2, &mutated);
		/* Twice: with rules fresh and with rules cached. */
		for (int i = 0; i < 2; i++) {
			fgt_unwind(unwinder, maps, &mutated.snapshot, frames,
				   MAX_DEPTH + 2, &result);
			check(&result);
			/* The rest of it, as if it had been read later. */
			go_on(unwinder, maps, i, &result);
		}
		fgt_unwinder_free(unwinder);
	}
	fgt_maps_free(maps);
	fgt_image_cache_free(cache);
	return 0;
}
