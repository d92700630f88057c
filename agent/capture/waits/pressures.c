/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes the pressures of the machine (Linux 4.20 with CONFIG_PSI). Runs in the
 * sampler's thread; must not wait for the threads that cut slices.
 */
#include "agent/capture/waits/pressures.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/clock.h"

#define KEPT	    512u
#define INTERVAL_NS 500000000u
/* No cut notes one that is closer to the last one: KEPT of them are 51 s. */
#define LEAST_NS  100000000u
#define STOLEN_AT 8 /* number on the first line of /proc/stat */

static const char *const paths[FGT_PRESSURE_KINDS] = {
	[FGT_PRESSURE_CPU] = "/proc/pressure/cpu",
	[FGT_PRESSURE_IO] = "/proc/pressure/io",
	[FGT_PRESSURE_MEMORY] = "/proc/pressure/memory",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Entry n is at [n % KEPT]. */
static struct fgt_slice_pressure history[KEPT];
static _Atomic uint64_t noted; /* entries so far */
static uint64_t next_ns; /* the sampler's alone */

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" */
static bool read_total(const char *path, uint64_t *ret_us)
{
	char text[256];
	const char *total;

	if (fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	total = strstr(text, "total=");
	if (!total)
		return false;
	*ret_us = strtoull(total + strlen("total="), NULL, 10);
	return true;
}

static uint64_t read_stolen(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), hz = sysconf(_SC_CLK_TCK);
	char text[256], *at = text;
	uint64_t ticks = 0;

	if (cpus <= 0 || hz <= 0 ||
	    fgt_procfs_read(AT_FDCWD, "/proc/stat", text, sizeof(text)) <= 0)
		return 0;
	at += strcspn(at, " ");
	for (int i = 0; i < STOLEN_AT; i++)
		ticks = strtoull(at, &at, 10);
	return ticks * 1000000 / (uint64_t)hz / (uint64_t)cpus;
}

/* False: this kernel does not count them. */
static bool read_now(struct fgt_slice_pressure *ret_now)
{
	for (int kind = 0; kind < FGT_PRESSURE_KINDS; kind++)
		if (paths[kind] && !read_total(paths[kind], &ret_now->us[kind]))
			return false;
	ret_now->us[FGT_PRESSURE_STOLEN] = read_stolen();
	ret_now->mono_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	return true;
}

/* To be called with the lock, which another thread may have had since now. */
static void note(const struct fgt_slice_pressure *now)
{
	if (noted && now->mono_ns <= history[(noted - 1) % KEPT].mono_ns)
		return;
	history[noted++ % KEPT] = *now;
}

void fgt_pressures_note(uint64_t now_ns)
{
	struct fgt_slice_pressure now = { .mono_ns = 0 };

	if (now_ns < next_ns)
		return;
	next_ns = now_ns + INTERVAL_NS;
	if (!read_now(&now))
		return;
	/* One that cuts has it: the next time. */
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	note(&now);
	pthread_mutex_unlock(&lock);
}

static int cut(struct fgt_ring_slice *slice)
{
	struct fgt_slice_pressure now, kept[KEPT + 1];
	bool is_known = read_now(&now);
	uint64_t last_ns;
	uint32_t count;

	pthread_mutex_lock(&lock);
	count = noted < KEPT ? (uint32_t)noted : KEPT;
	for (uint32_t i = 0; i < count; i++)
		kept[i] = history[(noted - count + i) % KEPT];
	last_ns = kept[count - 1].mono_ns;
	if (is_known && now.mono_ns > last_ns &&
	    last_ns < fgt_slice_end_ns(slice)) {
		kept[count++] = now;
		/* Another cut of this time has the same then. */
		if (now.mono_ns >= last_ns + LEAST_NS)
			note(&now);
	}
	pthread_mutex_unlock(&lock);
	return fgt_pressures_copy(kept, count, slice);
}

int fgt_pressures_cut(struct fgt_ring_slice *slice)
{
	/* A program that records itself has none, and may fork. */
	return noted ? cut(slice) : 0;
}
