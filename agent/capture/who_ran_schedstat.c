/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who ran, by polling: the CPU clock of the whole process minus the known use
 * of its threads is constant as long as no idle thread runs, so idle threads
 * are looked at only when it moves. Active threads are looked at in every
 * tick: a thread that is on a CPU right now has its clock brought up to date
 * only at the kernel's own tick.
 * Runs in the sampler's thread.
 */
#include "agent/capture/who_ran.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define SUM_TRIES 3

struct poll_state {
	struct fgt_threads *threads;
	clockid_t clock;
	uint64_t rest_ns; /* process minus known threads: ended and untold */
	bool is_rest_known;
};

static bool parse_number(const char **cursor, uint64_t *ret_value)
{
	const char *at = *cursor;
	uint64_t value = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*cursor = *at == ' ' ? at + 1 : at;
	*ret_value = value;
	return true;
}

int fgt_cpu_use_parse(const char *text, struct fgt_cpu_use *ret_use)
{
	struct fgt_cpu_use use;

	if (!parse_number(&text, &use.runtime_ns) ||
	    !parse_number(&text, &use.wait_ns) ||
	    !parse_number(&text, &use.switches))
		return -EBADMSG;
	*ret_use = use;
	return 0;
}

static int poll_open(const struct fgt_process *process,
		     struct fgt_threads *threads, struct fgt_switches *switches,
		     void **ret_state)
{
	struct poll_state *state = calloc(1, sizeof(*state));

	(void)switches;
	if (!state)
		return -ENOMEM;
	state->threads = threads;
	/* CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3). */
	state->clock = (clockid_t)((~(unsigned int)process->pid << 3) | 2u);
	*ret_state = state;
	return 0;
}

/*
 * Waiting time alone is no activity: it grows when a thread gets a CPU, and
 * then the switches grow too.
 */
static int poll_look(void *context, struct fgt_thread *thread)
{
	struct poll_state *state = context;
	char path[32], text[96];
	struct fgt_cpu_use use;
	bool has_run;
	int rc;

	snprintf(path, sizeof(path), "%d/schedstat", thread->tid);
	rc = fgt_fd_budget_read(state->threads->budget, &thread->schedstat_fd,
				true, state->threads->task_fd, path, text,
				sizeof(text));
	if (rc < 0)
		return rc == -ENOENT ? -ESRCH : rc;
	rc = fgt_cpu_use_parse(text, &use);
	if (rc < 0)
		return rc;
	has_run = use.runtime_ns != thread->use.runtime_ns ||
		  use.switches != thread->use.switches;
	state->threads->known_runtime_ns +=
		use.runtime_ns - thread->use.runtime_ns;
	thread->use = use;
	return has_run;
}

static void poll_thread(struct poll_state *state, struct fgt_thread *thread,
			uint64_t now_ns)
{
	int rc = poll_look(state, thread);

	thread->has_run = rc > 0;
	if (rc == -ESRCH) {
		fgt_threads_end(state->threads, thread);
		state->threads->is_stale = true;
		state->is_rest_known = false;
	} else if (rc > 0) {
		fgt_threads_activate(state->threads, thread, now_ns);
	}
}

/* CPU time of the process; 0 if it cannot be had (then all are polled). */
static uint64_t process_clock(const struct poll_state *state)
{
	struct timespec now;

	if (clock_gettime(state->clock, &now) < 0)
		return 0;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void poll_active(struct poll_state *state, uint64_t now_ns)
{
	struct fgt_threads *threads = state->threads;

	for (uint32_t i = 0; i < threads->active_count; i++)
		poll_thread(state, threads->active[i], now_ns);
}

/*
 * True if no idle thread ran. Sound only if nobody's clock was brought up to
 * date between reading the process and its threads: then the process clock is
 * the same before and after.
 */
static bool is_rest_unchanged(struct poll_state *state, uint64_t before)
{
	struct fgt_threads *threads = state->threads;

	for (int i = 0; i < SUM_TRIES && state->is_rest_known; i++) {
		uint64_t after;

		if (before - threads->known_runtime_ns == state->rest_ns)
			return true;
		after = process_clock(state);
		if (after == before)
			return false;
		before = after;
		for (uint32_t at = 0; at < threads->active_count; at++) {
			struct fgt_thread *thread = threads->active[at];
			bool has_run = thread->has_run;

			if (!thread->is_ended && poll_look(state, thread) > 0)
				has_run = true;
			thread->has_run = has_run;
		}
	}
	return false;
}

static void poll_all(struct poll_state *state, uint64_t now_ns)
{
	struct fgt_threads *threads = state->threads;
	uint64_t before = process_clock(state);

	for (uint32_t i = 0; i < threads->count; i++) {
		struct fgt_thread *thread = threads->items[i];
		bool has_run = thread->has_run && thread->active_index;

		if (thread->is_ended)
			continue;
		poll_thread(state, thread, now_ns);
		thread->has_run |= has_run;
	}
	state->rest_ns = before - threads->known_runtime_ns;
	state->is_rest_known = before && before == process_clock(state);
}

static int poll_tick(void *context, uint64_t now_ns)
{
	struct poll_state *state = context;
	uint64_t clock = process_clock(state);

	poll_active(state, now_ns);
	if (!is_rest_unchanged(state, clock))
		poll_all(state, now_ns);
	return 0;
}

static void poll_close(void *context)
{
	free(context);
}

const struct fgt_who_ran fgt_who_ran_schedstat = {
	.name = "schedstat",
	.open = poll_open,
	.tick = poll_tick,
	.look = poll_look,
	.close = poll_close,
};
