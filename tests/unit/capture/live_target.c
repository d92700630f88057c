/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler and a child that it samples.
 */
#include "tests/unit/capture/live_target.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/capture/who_ran/switches.h"
#include "tests/unit/unwind/copy_file.h"

#define NOBODY	    65534
#define COUNTERS_FD 3 /* as tests/programs/scenes.c */

static const char *scenes_program = SCENES_PROGRAM;

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_sec = ms / 1000,
				  .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		continue;
}

int set_up(void **state)
{
	const struct fgt_sampler_options options = {
		.switches = FGT_SWITCHES_BUILT_IN,
		.ring = { .size_bytes = 8 << 20 }
	};
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	assert_int_equal(
		fgt_sampler_new(&options, fixture->cache, &fixture->sampler),
		0);
	assert_int_equal(fgt_sampler_start(fixture->sampler), 0);
	*state = fixture;
	return 0;
}

int tear_down(void **state)
{
	struct fixture *fixture = *state;

	if (fixture->child > 0) {
		kill(fixture->child, SIGKILL);
		waitpid(fixture->child, NULL, 0);
	}
	fgt_ring_slice_free(fixture->slice);
	fgt_sampler_free(fixture->sampler);
	fgt_target_put(fixture->target);
	fgt_image_cache_free(fixture->cache);
	free(fixture);
	return 0;
}

void start_child(struct fixture *fixture, const char *scene, int counters_fd)
{
	fixture->child = fork();
	assert_true(fixture->child >= 0);
	if (fixture->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (counters_fd >= 0)
			fcntl(dup2(counters_fd, COUNTERS_FD), F_SETFD, 0);
		execl(scenes_program, "scenes", scene, (char *)NULL);
		_exit(1);
	}
	sleep_ms(80);
}

void attach(struct fixture *fixture)
{
	struct fgt_why why = { "" };
	int rc = fgt_sampler_attach(fixture->sampler, fixture->child, 0,
				    &fixture->target, &why);

	if (rc < 0)
		print_message("%s\n", why.text);
	assert_int_equal(rc, 0);
}

void cut(struct fixture *fixture, uint64_t from_ns)
{
	fgt_ring_slice_free(fixture->slice);
	fixture->slice = NULL;
	assert_int_equal(fgt_ring_cut(fgt_target_ring(fixture->target), from_ns,
				      UINT64_MAX, &fixture->slice),
			 0);
	assert_int_equal(fgt_slice_name_states(fixture->slice, fgt_state_name),
			 0);
	assert_true(fgt_slice_is_valid(fixture->slice));
}

static bool have_all_stacks(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (slice->runs[i].stack == FGT_NODE_NONE)
			return false;
	return true;
}

void wait_for_stacks(struct fixture *fixture)
{
	const struct fgt_ring *ring = fgt_target_ring(fixture->target);

	for (int i = 0; i < 100; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;

		sleep_ms(100);
		if (fgt_ring_cut(ring, now_ns() - 100000000u, UINT64_MAX,
				 &slice) == 0 &&
		    have_all_stacks(slice))
			return;
	}
}

double share(const struct fgt_ring_slice *slice, const char *name,
	     const char *state_name)
{
	unsigned int in_state = 0, all = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (name &&
		    strcmp(fgt_slice_string(slice,
					    slice->threads[run->thread].name),
			   name) != 0)
			continue;
		all += run->tick_count;
		if (strcmp(fgt_slice_state_name(slice, run->state),
			   state_name) == 0)
			in_state += run->tick_count;
	}
	return all ? in_state * 100.0 / all : 0;
}

unsigned int count_threads(const struct fgt_ring_slice *slice, const char *name)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < slice->thread_count; i++)
		count += strcmp(fgt_slice_string(slice, slice->threads[i].name),
				name) == 0;
	return count;
}

bool is_truncated(const struct fgt_ring_slice *slice, uint32_t node)
{
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_frame *frame =
			&slice->frames[slice->nodes[node].frame].frame;

		if ((frame->flags & FGT_FRAME_MARKER) &&
		    frame->address >= FGT_MARKER_TRUNCATED_NO_CFI)
			return true;
	}
	return false;
}

/* In a child process. */
static int run_as_user_nobody(int (*run_group)(const char *user))
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 ||
		    setuid(NOBODY) < 0)
			_exit(8);
		prctl(PR_SET_DUMPABLE, 1);
		status = run_group("as an ordinary user");
		fflush(NULL); /* what failed */
		_exit(status);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* With a copy of the program: the build may be in a folder of root alone. */
static int run_copy_as_user_nobody(int (*run_group)(const char *user))
{
	char folder[] = "/tmp/fgt-live-XXXXXX", program[64];
	int failed = 1;

	if (!mkdtemp(folder))
		return 1;
	snprintf(program, sizeof(program), "%s/scenes", folder);
	scenes_program = program;
	if (!chmod(folder, 0755) && !copy_file(SCENES_PROGRAM, program))
		failed = run_as_user_nobody(run_group);
	scenes_program = SCENES_PROGRAM;
	unlink(program);
	rmdir(folder);
	return failed;
}

int run_twice(int (*run_group)(const char *user))
{
	int failed = run_group("as this user");

	fflush(stdout);
	if (geteuid() == 0)
		failed += run_copy_as_user_nobody(run_group);
	return failed;
}
