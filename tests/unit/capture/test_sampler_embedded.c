/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler inside the process that it samples: this one.
 */
#include "agent/capture/sampler.h"
#include "agent/embed/signal/running_signal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"

struct fixture {
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_target *target;
	struct fgt_ring_slice *slice;
	/* Protects what the sampler's thread logs. */
	pthread_mutex_t lock;
	char logged[256];
};

static atomic_bool may_end;
static atomic_int excluded_tid;
static atomic_uint early; /* waits that ended before their time */

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lets the sampler work, which has real threads as targets. */
static void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_sec = ms / 1000,
				  .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		continue;
}

static void keep(void *context, int32_t pid, const char *text)
{
	struct fixture *fixture = context;

	(void)pid;
	pthread_mutex_lock(&fixture->lock);
	snprintf(fixture->logged, sizeof(fixture->logged), "%s", text);
	pthread_mutex_unlock(&fixture->lock);
}

static void start(struct fixture *fixture, unsigned int hz)
{
	const struct fgt_sampler_options options = {
		.hz = hz,
		.ring = { .size_bytes = 8 << 20, .is_shared = true },
		.is_self_included = true,
		.is_embedded = true,
		.running = &fgt_running_signal,
		.excluded_tids = { atomic_load(&excluded_tid) },
		.explain = keep,
		.context = fixture,
	};
	struct fgt_why why = { "" };

	pthread_mutex_init(&fixture->lock, NULL);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	assert_int_equal(
		fgt_sampler_new(&options, fixture->cache, &fixture->sampler),
		0);
	assert_int_equal(fgt_sampler_start(fixture->sampler), 0);
	if (fgt_sampler_attach(fixture->sampler, getpid(), 0, &fixture->target,
			       &why) < 0)
		fail_msg("%s", why.text);
}

static void stop(struct fixture *fixture)
{
	fgt_ring_slice_free(fixture->slice);
	fgt_sampler_free(fixture->sampler);
	fgt_target_put(fixture->target);
	fgt_image_cache_free(fixture->cache);
	memset(fixture, 0, sizeof(*fixture));
}

static void cut(struct fixture *fixture, uint64_t from_ns)
{
	fgt_ring_slice_free(FGT_TAKE(fixture->slice));
	assert_int_equal(fgt_ring_cut(fgt_target_ring(fixture->target), from_ns,
				      UINT64_MAX, &fixture->slice),
			 0);
	assert_int_equal(fgt_slice_name_states(fixture->slice, fgt_state_name),
			 0);
}

/* Ticks of a thread in a state, in percent; -1 without such a thread. */
static int share(const struct fgt_ring_slice *slice, const char *name,
		 const char *state_name)
{
	unsigned int in_state = 0, all = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const char *thread = fgt_slice_string(
			slice, slice->threads[run->thread].name);
		const char *state = fgt_slice_state_name(slice, run->state);

		if (strcmp(thread, name))
			continue;
		all += run->tick_count;
		if (!strcmp(state, state_name))
			in_state += run->tick_count;
	}
	return all ? (int)(in_state * 100 / all) : -1;
}

/* ---- What threads do --------------------------------------------------- */

static atomic_ulong work_done;

static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	while (!atomic_load_explicit(&may_end, memory_order_relaxed))
		atomic_fetch_add_explicit(&work_done, 1, memory_order_relaxed);
	return NULL;
}

#define NAP_WORK_NS 400000u
#define NAP_WAIT_MS 2

/* Times that it worked and waited: on a busy machine few a second, since it
 * waits for a CPU besides. */
static atomic_uint naps;

/* Short work, then a wait that no signal may end. */
static void *nap(void *name)
{
	pthread_setname_np(pthread_self(), name);
	while (!atomic_load(&may_end)) {
		uint64_t from = now_ns(CLOCK_THREAD_CPUTIME_ID);

		while (now_ns(CLOCK_THREAD_CPUTIME_ID) - from < NAP_WORK_NS)
			atomic_fetch_add_explicit(&work_done, 1,
						  memory_order_relaxed);
		if (poll(NULL, 0, NAP_WAIT_MS) < 0)
			early++;
		atomic_fetch_add(&naps, 1);
	}
	return NULL;
}

/* Of that wall time it did ns in each nap, in percent. */
static int part_of_naps(uint64_t ns, uint64_t wall_ns)
{
	return (int)(atomic_load(&naps) * ns * 100 / wall_ns);
}

static void *wait_long(void *name)
{
	pthread_setname_np(pthread_self(), name);
	if (!strcmp(name, "left-out"))
		atomic_store(&excluded_tid, gettid());
	while (!atomic_load(&may_end)) {
		uint64_t from = now_ns(CLOCK_MONOTONIC);

		if (poll(NULL, 0, 500) < 0 ||
		    now_ns(CLOCK_MONOTONIC) - from < 499000000)
			early++;
	}
	return NULL;
}

static const struct {
	const char *name;
	void *(*run)(void *);
} crew[] = {
	{ "left-out", wait_long }, { "working", work },
	{ "napping", nap },	   { "waiting", wait_long },
	{ "waiting2", wait_long },
};
#define CREW (sizeof(crew) / sizeof(crew[0]))
static pthread_t threads[CREW];

static void start_crew(void)
{
	atomic_store(&may_end, false);
	atomic_store(&early, 0);
	for (size_t i = 0; i < CREW; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, crew[i].run,
				       (void *)(uintptr_t)crew[i].name),
			0);
	sleep_ms(30);
}

static void end_crew(void)
{
	atomic_store(&may_end, true);
	for (size_t i = 0; i < CREW; i++)
		pthread_join(threads[i], NULL);
}

/* ---- Tests ------------------------------------------------------------- */

/* Until the thread that naps has been seen running as often as it ran: it gets
 * its timer when it has been found running twice, after half a second as a
 * rule, later where others are busy. */
static void record_crew(struct fixture *fixture, uint64_t from_ns)
{
	struct fgt_target_status status;

	for (int i = 0; i < 10; i++) {
		uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
		uint64_t wall_ns;
		int shown;

		atomic_store(&naps, 0);
		sleep_ms(1300);
		cut(fixture, i ? begin_ns : from_ns);
		wall_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
		fgt_target_get_status(fixture->target, &status);
		shown = share(fixture->slice, "napping", "running");
		if (status.samples_running > 10 &&
		    shown * 2 >= part_of_naps(NAP_WORK_NS, wall_ns) &&
		    share(fixture->slice, "napping", "poll") * 2 >=
			    part_of_naps(NAP_WAIT_MS * 1000000u, wall_ns))
			return;
	}
	fail_msg("napping: %d naps in 1.3 s, %d %% running, %d %% in poll",
		 (int)atomic_load(&naps),
		 share(fixture->slice, "napping", "running"),
		 share(fixture->slice, "napping", "poll"));
}

static void threads_of_this_process_are_seen(void **state)
{
	struct fixture fixture = { 0 };
	struct fgt_target_status status;

	(void)state;
	start_crew();
	start(&fixture, 101);
	record_crew(&fixture, now_ns(CLOCK_MONOTONIC) + 200000000u);
	end_crew();
	fgt_target_get_status(fixture.target, &status);
	assert_string_equal(status.who_ran, "clock");
	assert_string_equal(status.running, "signal");
	/* Where other programs are busy it waits for a CPU besides. */
	assert_true(share(fixture.slice, "working", "running") +
			    share(fixture.slice, "working", "runnable") >
		    90);
	assert_int_equal(share(fixture.slice, "waiting", "poll"), 100);
	assert_true(share(fixture.slice, "napping", "poll") +
			    share(fixture.slice, "napping", "running") +
			    share(fixture.slice, "napping", "runnable") >
		    90);
	/* Neither the sampler nor the threads that are to be left out. */
	assert_int_equal(share(fixture.slice, "fgt-sampler", "running"), -1);
	assert_int_equal(share(fixture.slice, "left-out", "poll"), -1);
	assert_int_equal(early, 0);
	stop(&fixture);
}

/* ---- A thread that cannot be sampled for some ticks ----------------------- */

static uint64_t blocked_ns, unblocked_ns; /* when it was so */

static void work_ms(unsigned int ms)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	while (now_ns(CLOCK_MONOTONIC) < end_ns)
		atomic_fetch_add_explicit(&work_done, 1, memory_order_relaxed);
}

static void *hide(void *context)
{
	sigset_t all, before;

	(void)context;
	pthread_setname_np(pthread_self(), "hiding");
	work_ms(400);
	sigfillset(&all);
	blocked_ns = now_ns(CLOCK_MONOTONIC);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	work_ms(800);
	unblocked_ns = now_ns(CLOCK_MONOTONIC);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	work_ms(1500);
	return NULL;
}

static bool is_marked(const struct fgt_ring_slice *slice, uint32_t node)
{
	const struct fgt_frame *leaf;

	if (node == FGT_NODE_NONE)
		return true;
	leaf = &slice->frames[slice->nodes[node].frame].frame;
	return (leaf->flags & FGT_FRAME_MARKER) &&
	       leaf->address == FGT_MARKER_NOT_SAMPLED;
}

/* Part of the thread's ticks without a known stack, in per cent. */
static unsigned int count_marked(const struct fgt_ring_slice *slice)
{
	unsigned int marked = 0, all = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const char *name = fgt_slice_string(
			slice, slice->threads[run->thread].name);

		if (strcmp(name, "hiding") != 0)
			continue;
		all += run->tick_count;
		marked += is_marked(slice, run->stack) ? run->tick_count : 0;
	}
	return all ? marked * 100 / all : 0;
}

static unsigned int marked_between(struct fixture *fixture, uint64_t from_ns,
				   uint64_t to_ns)
{
	unsigned int marked;

	fgt_ring_slice_free(fixture->slice);
	fixture->slice = NULL;
	assert_int_equal(fgt_ring_cut(fgt_target_ring(fixture->target), from_ns,
				      to_ns, &fixture->slice),
			 0);
	marked = count_marked(fixture->slice);
	return marked;
}

/* Neither the stack before it nor that after it is what it did meanwhile. */
static void what_was_not_sampled_is_marked(void **state)
{
	struct fixture fixture = { 0 };
	pthread_t thread;

	(void)state;
	start(&fixture, 101);
	assert_int_equal(pthread_create(&thread, NULL, hide, NULL), 0);
	pthread_join(thread, NULL);
	assert_in_range(marked_between(&fixture, blocked_ns + 50000000u,
				       unblocked_ns - 50000000u),
			80, 100);
	/* It is sampled again. */
	assert_in_range(marked_between(&fixture, unblocked_ns + 1200000000u,
				       unblocked_ns + 1450000000u),
			0, 50);
	stop(&fixture);
}

static void no_wait_ends_early_at_full_rate(void **state)
{
	struct fixture fixture = { 0 };

	(void)state;
	start_crew();
	start(&fixture, 1000);
	sleep_ms(2000);
	end_crew();
	assert_int_equal(early, 0);
	stop(&fixture);
}

static atomic_uint theirs;

static void count_call(int number)
{
	(void)number;
	theirs++;
}

static void signal_that_is_taken_back_is_logged_once(void **state)
{
	struct sigaction action = { .sa_handler = count_call }, after;
	struct fixture fixture = { 0 };
	struct fgt_target_status status;
	int rounds = 0;

	(void)state;
	start_crew();
	start(&fixture, 101);
	sleep_ms(300);
	sigaction(SIGURG, &action, NULL);
	do {
		sleep_ms(20);
		fgt_target_get_status(fixture.target, &status);
	} while (!strstr(status.limitation, "signal") && rounds++ < 250);
	end_crew();
	pthread_mutex_lock(&fixture.lock);
	assert_non_null(strstr(fixture.logged, "signal"));
	pthread_mutex_unlock(&fixture.lock);
	assert_non_null(strstr(status.limitation, "signal"));
	sigaction(SIGURG, NULL, &after);
	assert_ptr_equal(after.sa_handler, count_call);
	stop(&fixture);
	action.sa_handler = SIG_DFL;
	sigaction(SIGURG, &action, NULL);
}

static unsigned int count_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void nothing_is_left_after_the_end(void **state)
{
	struct fixture fixture = { 0 };
	struct rlimit before, after;
	struct sigaction action;
	unsigned int fds = count_fds();

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	for (int i = 0; i < 5; i++) {
		start_crew();
		start(&fixture, 200);
		sleep_ms(100);
		end_crew();
		stop(&fixture);
	}
	getrlimit(RLIMIT_NOFILE, &after);
	sigaction(SIGURG, NULL, &action);
	assert_ptr_equal(action.sa_handler, SIG_DFL);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(before.rlim_cur, after.rlim_cur);
}

static void a_child_of_fork_is_as_it_was(void **state)
{
	struct fixture fixture = { 0 };
	unsigned int fds = count_fds();
	int status;
	pid_t child;

	(void)state;
	start_crew();
	start(&fixture, 101);
	sleep_ms(300);
	child = fork();
	if (child == 0) {
		struct sigaction action;

		fgt_sampler_forked(fixture.sampler, fixture.target);
		fgt_image_cache_forked(fixture.cache);
		sigaction(SIGURG, NULL, &action);
		_exit((action.sa_handler != SIG_DFL) +
		      2 * (count_fds() != fds));
	}
	waitpid(child, &status, 0);
	end_crew();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* And the parent records on. */
	sleep_ms(50);
	cut(&fixture, 0);
	stop(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_this_process_are_seen),
		cmocka_unit_test(what_was_not_sampled_is_marked),
		cmocka_unit_test(no_wait_ends_early_at_full_rate),
		cmocka_unit_test(signal_that_is_taken_back_is_logged_once),
		cmocka_unit_test(nothing_is_left_after_the_end),
		cmocka_unit_test(a_child_of_fork_is_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
