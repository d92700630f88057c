/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who ran, by polling: the CPU clock of the whole process minus the known use
 * of its threads is constant as long as no idle thread runs, so idle threads
 * are looked at only when it moves. Active threads are looked at in every
 * tick: a thread that is on a CPU right now has its clock brought up to date
 * only at the kernel's own tick.
 * Runs in the sampler's thread.
 */
#include "agent/capture/who_ran/who_ran.h"

#include <errno.h>
#include <time.h>

#include "ringbuf/base/clock.h"

#define SUM_TRIES 3

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

int fgt_schedstat_read(const struct fgt_thread_table *threads,
		       struct fgt_thread *thread, struct fgt_cpu_use *ret_use)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_aside(&threads->table, thread);
	char text[96];
	int rc;

	rc = fgt_fd_budget_read(threads->budget, &aside->schedstat_fd,
				threads->task_fd, thread->tid, "schedstat",
				text, sizeof(text));
	if (rc < 0)
		return rc == -ENOENT ? -ESRCH : rc;
	rc = fgt_cpu_use_parse(text, ret_use);
	if (rc < 0)
		fgt_fd_budget_doubt(threads->budget, &aside->schedstat_fd);
	return rc;
}

struct poll_state {
	struct fgt_thread_table *threads;
	clockid_t clock;
	uint64_t rest_ns; /* process minus known threads: ended and untold */
	bool is_rest_known;
	uint64_t clock_ns; /* of the process, at the begin of the tick */
};

static int poll_open(const struct fgt_process *process,
		     struct fgt_thread_table *threads,
		     struct fgt_switches *switches, void **ret_state)
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
	struct fgt_cpu_use use;
	int rc = fgt_schedstat_read(state->threads, thread, &use);

	if (rc < 0)
		return rc;
	return fgt_thread_table_take_use(state->threads, thread, &use);
}

static void poll_thread(struct poll_state *state, struct fgt_thread *thread,
			uint64_t now_ns)
{
	int rc = poll_look(state, thread);

	thread->has_run = rc > 0;
	if (fgt_thread_table_note(state->threads, thread, rc, now_ns))
		state->is_rest_known = false;
}

/* CPU time of the process; 0 if it cannot be had (then all are polled). */
static uint64_t process_clock(const struct poll_state *state)
{
	struct timespec now;

	if (clock_gettime(state->clock, &now) < 0)
		return 0;
	return fgt_timespec_ns(&now);
}

static void poll_active(struct poll_state *state, uint64_t now_ns)
{
	struct fgt_thread_table *threads = state->threads;

	for (uint32_t i = 0; i < threads->active_count; i++)
		poll_thread(state, threads->active[i].thread, now_ns);
}

/* Brings the active ones up to date once more, within one tick. */
static void look_again(struct poll_state *state)
{
	struct fgt_thread_table *threads = state->threads;

	for (uint32_t at = 0; at < threads->active_count; at++) {
		struct fgt_thread *thread = threads->active[at].thread;

		if (!thread->is_ended && poll_look(state, thread) > 0)
			thread->has_run = true;
	}
}

/*
 * True if no idle thread ran. Sound only if no clock was brought up to
 * date between reading the process and its threads: then the process clock is
 * the same before and after.
 */
static bool is_rest_unchanged(struct poll_state *state, uint64_t before)
{
	for (int i = 0; i < SUM_TRIES && state->is_rest_known; i++) {
		uint64_t after;

		if (before - state->threads->known_runtime_ns == state->rest_ns)
			return true;
		after = process_clock(state);
		if (after == before)
			return false;
		before = after;
		look_again(state);
	}
	return false;
}

/* The process clock at an instant at which the active ones are known. */
static bool read_together(struct poll_state *state, uint64_t *ret_clock)
{
	uint64_t before = process_clock(state), after;

	for (int i = 0; i < SUM_TRIES && before; i++, before = after) {
		look_again(state);
		after = process_clock(state);
		if (after == before) {
			*ret_clock = after;
			return true;
		}
	}
	return false;
}

static void poll_idle(struct poll_state *state, uint64_t now_ns)
{
	struct fgt_thread_table *threads = state->threads;
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(threads, thread)))
		if (!thread->is_ended && !thread->active)
			poll_thread(state, thread, now_ns);
}

/*
 * Polling thousands takes longer than active threads keep their clocks: what
 * is left for idle ones is known if the process used nothing meanwhile, or
 * just what the active ones did and no idle one had run.
 */
static void poll_all(struct poll_state *state, uint64_t now_ns)
{
	const uint64_t *known_ns = &state->threads->known_runtime_ns;
	uint64_t begin_clock, end_clock = 0, begin_known, idle_used;
	bool is_sound = read_together(state, &begin_clock);

	begin_known = *known_ns;
	poll_idle(state, now_ns);
	idle_used = *known_ns - begin_known;
	is_sound = is_sound && read_together(state, &end_clock);
	state->is_rest_known =
		is_sound && (end_clock == begin_clock ||
			     (!idle_used && end_clock - begin_clock ==
						    *known_ns - begin_known));
	state->rest_ns = end_clock - *known_ns;
}

static int poll_tick(void *context, uint64_t now_ns)
{
	struct poll_state *state = context;
	uint64_t clock = process_clock(state);

	state->clock_ns = clock;
	poll_active(state, now_ns);
	if (!is_rest_unchanged(state, clock))
		poll_all(state, now_ns);
	return 0;
}

/* The threads were looked at right after the process. */
static bool poll_read_brief(void *context, struct fgt_switch_brief *ret_brief)
{
	const struct poll_state *state = context;
	const struct fgt_thread_table *threads = state->threads;

	*ret_brief = (struct fgt_switch_brief){
		.cpu_ns = state->clock_ns - threads->known_runtime_ns -
			  threads->ended_runtime_ns,
	};
	return state->clock_ns != 0;
}

const struct fgt_who_ran fgt_who_ran_schedstat = {
	.name = "schedstat",
	.open = poll_open,
	.tick = poll_tick,
	.look = poll_look,
	.read_brief = poll_read_brief,
	.close = free,
};
