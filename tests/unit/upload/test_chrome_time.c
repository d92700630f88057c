/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that Chrome traces show a thread running and blocked: of rhythms
 * that ticks cannot follow, too.
 */
#include "tests/unit/upload/chrome_kit.h"

/* ---- Time in all -------------------------------------------------------- */

#define TICKS	2000u
#define TICK_US 10000u

#define MARKER "[not sampled: last known stack]"

#define EDGES_MAX 14u /* in one tick: the recorder keeps no more */

/* A thread that runs and blocks in turns, from 10 % shorter to 10 % longer. */
struct turns {
	uint64_t random;
	uint64_t lasts_us[2]; /* blocked, running */
	uint64_t change_us; /* when the present turn ends */
	bool is_running;
	struct {
		uint32_t count;
		bool is_on_first;
		uint64_t us[EDGES_MAX];
	} edges; /* since the tick before */
	uint64_t ran_us;
};

static void end_turn(struct turns *turns)
{
	uint64_t us = turns->lasts_us[!turns->is_running];

	turns->is_running = !turns->is_running;
	if (!turns->edges.count)
		turns->edges.is_on_first = turns->is_running;
	if (turns->edges.count < EDGES_MAX)
		turns->edges.us[turns->edges.count] = turns->change_us;
	turns->edges.count++;
	turns->random = turns->random * 6364136223846793005u + 1;
	turns->change_us += us * 9 / 10 + (turns->random >> 33) % (us / 5 + 1);
}

static void go_on(struct turns *turns, uint64_t until_us)
{
	uint64_t at_us = until_us - TICK_US;

	turns->edges.count = 0;
	while (turns->change_us <= until_us) {
		if (turns->is_running)
			turns->ran_us += turns->change_us - at_us;
		at_us = turns->change_us;
		end_turn(turns);
	}
	if (turns->is_running)
		turns->ran_us += until_us - at_us;
}

/* As the recorder: all edges, or none where there are more than it keeps. */
static void claim(struct fgt_ring_slice *slice, uint32_t tick,
		  const struct turns *turns)
{
	uint64_t now_us = (uint64_t)tick * TICK_US + 1;
	const uint64_t *us = turns->edges.us;
	uint32_t count = turns->edges.count;

	for (uint32_t i = 0; i < count && count <= EDGES_MAX; i += 2) {
		uint32_t first = (uint32_t)(now_us - us[i]);
		uint32_t second = i + 1 < count ? (uint32_t)(now_us - us[i + 1])
						: 0;

		fixture_edge(slice, 0, tick,
			     turns->edges.is_on_first ? first : second,
			     turns->edges.is_on_first ? second : first);
	}
}

/* The X of that name, and from each B of it to its E. */
static double drawn_us(const char *json, const char *name)
{
	char begins[80];
	const char *line = json;
	double us = 0, begin = 0;

	snprintf(begins, sizeof(begins), "\n{\"name\":\"%s\"", name);
	/* strstr() takes the length of all that is left with sanitizers. */
	while ((line = strchr(line, '\n'))) {
		char phase, copy[EVENT_LINE_MAX];
		double ts, dur;
		bool is_wanted = !strncmp(line, begins, strlen(begins));

		line++;
		if (!is_wanted ||
		    sscanf(event_line(line, copy),
			   "{\"name\":\"%*[^\"]\",\"ph\":\"%c\",\"pid\":4242,"
			   "\"tid\":4242,\"ts\":%lf,\"dur\":%lf}",
			   &phase, &ts, &dur) < 2)
			continue;
		if (phase == 'X')
			us += dur;
		else if (phase == 'B')
			begin = ts;
		else
			us += ts - begin;
	}
	return us;
}

/* In points of all the time. All edges: what is drawn is true. Not all: it is
 * as right as the ticks are. */
static void assert_time_is_right(uint64_t run_us, uint64_t block_us)
{
	struct turns turns = { .random = run_us * 31 + block_us,
			       .lasts_us = { block_us, run_us },
			       .change_us = 1 };
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	const double all_us = (TICKS - 1.0) * TICK_US;
	uint32_t stacks[2] = { 0, 0 }, ticks_running = 0;
	struct fixture_buffer buffer;
	double true_share, drawn_error, tick_error;

	fixture_thread(slice, 4242, "main");
	stacks[0] = fixture_stack(slice, "main;nap");
	stacks[1] = fixture_stack(slice, "main;work");
	for (uint32_t tick = 0; tick < TICKS; tick++) {
		if (tick)
			go_on(&turns, (uint64_t)tick * TICK_US);
		fixture_run(slice, 0, tick, 1, stacks[turns.is_running],
			    turns.is_running ? FGT_STATE_RUNNING
					     : FIXTURE_FUTEX);
		ticks_running += turns.is_running;
		if (tick)
			claim(slice, tick, &turns);
	}
	buffer = write_chrome(slice, FGT_STATE_FRAMES_ROOT);
	true_share = (double)turns.ran_us * 100 / all_us;
	drawn_error =
		drawn_us(buffer.bytes, "running") * 100 / all_us - true_share;
	tick_error = ticks_running * 100.0 / TICKS - true_share;
	if (run_us + block_us >= TICK_US / 6)
		tick_error = 0;
	assert_true(drawn_error <= (tick_error > 0 ? tick_error : 0) + 0.3);
	assert_true(drawn_error >= (tick_error < 0 ? tick_error : 0) - 0.3);
	/* No tick is marked: only before a state's first sample and after its
	 * last one is time marked. */
	assert_true(drawn_us(buffer.bytes, MARKER) <= 8.0 * TICK_US);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void time_in_all_is_right(void **state)
{
	static const uint32_t turns_us[][2] = {
		{ 3000, 7000 }, { 3000, 4000 },	  { 1000, 3300 },
		{ 2000, 3000 }, { 8000, 3000 },	  { 1000, 9000 },
		{ 1000, 5000 }, { 15000, 3000 },  { 4000, 1000 },
		{ 500, 20000 }, { 40000, 60000 }, { 300, 1200 },
		{ 1000, 450 },	{ 500, 600 },	  { 200, 300 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(turns_us) / sizeof(turns_us[0]); i++)
		assert_time_is_right(turns_us[i][0], turns_us[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_in_all_is_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
