/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the programs whose stacks are known. A child dies with its test.
 */
#include "tests/unit/unwind/unwind_child.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/programs/unwind/unwind_capture.h"

static void run_program(const char *program, const char *argument, int input,
			int output)
{
	char path[512];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), FGT_UNWIND_PROGRAMS "/%s", program);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	execl(path, program, argument, (char *)NULL);
	_exit(127);
}

static void take_line(struct child *child, const char *line)
{
	struct child_function *function =
		&child->functions[child->function_count];
	struct child_thread *thread = &child->threads[child->thread_count];

	assert_true(child->function_count < CHILD_FUNCTIONS_MAX - 1);
	assert_true(child->thread_count < CHILD_THREADS_MAX - 1);
	if (sscanf(line, "function %31s %" SCNx64, function->name,
		   &function->start) == 2)
		child->function_count++;
	else if (sscanf(line, "thread %d %31s %d", &thread->tid, thread->kind,
			&thread->depth) == 3)
		child->thread_count++;
}

void child_start(struct child *child, const char *program, const char *argument,
		 unsigned int max_depth)
{
	int input[2], output[2];
	char line[256] = "";

	memset(child, 0, sizeof(*child));
	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (!child->pid)
		run_program(program, argument, input[0], output[1]);
	close(input[0]);
	close(output[1]);
	child->input = fdopen(input[1], "w");
	child->output = fdopen(output[0], "r");
	while (fgets(line, sizeof(line), child->output) &&
	       strcmp(line, "ready\n") != 0)
		take_line(child, line);
	assert_string_equal(line, "ready\n");
	assert_int_equal(fgt_image_cache_new(&child->cache), 0);
	assert_int_equal(capture_maps(child->pid, child->cache, &child->maps),
			 0);
	assert_int_equal(
		fgt_unwinder_new(child->cache, max_depth, &child->unwinder), 0);
}

void child_stop(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	fclose(child->input);
	fclose(child->output);
	fgt_unwinder_free(child->unwinder);
	fgt_maps_free(child->maps);
	fgt_image_cache_free(child->cache);
}

static uint32_t image_at(const struct child *child, uint64_t address)
{
	const struct fgt_mapping *mapping = fgt_maps_find(child->maps, address);

	return mapping ? mapping->image : FGT_MAPS_NO_IMAGE;
}

const char *child_function_at(const struct child *child,
			      const struct fgt_unwound_frame *frame)
{
	const struct child_function *found = NULL;
	uint64_t pc = frame->pc - (frame->flags & FGT_FRAME_CALLER);

	for (size_t i = 0; i < child->function_count; i++) {
		const struct child_function *function = &child->functions[i];

		if (function->start <= pc &&
		    image_at(child, function->start) == image_at(child, pc) &&
		    (!found || found->start < function->start))
			found = function;
	}
	return found ? found->name : "";
}

void child_print_stack(const struct child *child,
		       const struct fgt_unwound_frame *frames,
		       const struct fgt_unwind_result *result)
{
	printf("%zu frames, reason %d, need %zu\n", result->count,
	       (int)result->reason, result->need_bytes);
	for (size_t i = 0; i < result->count; i++) {
		uint32_t image = image_at(child, frames[i].pc);

		printf("  %zu %" PRIx64 " flags %u %s %s\n", i, frames[i].pc,
		       frames[i].flags,
		       image == FGT_MAPS_NO_IMAGE
			       ? ""
			       : child->maps->images[image].image.path,
		       child_function_at(child, &frames[i]));
	}
}
