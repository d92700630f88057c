/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a range of a slice was unlike the rest of it: where the time of one
 * thread went, which threads kept it waiting, and what took more time than in
 * the other windows of the same length.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_EXPLAIN_H
#define FGT_UPLOAD_WHY_EXPLAIN_H

#include "upload/why/culprit.h"
#include "upload/why/filter.h"
#include "upload/why/windows.h"

/* For holders of locks, in all ticks: about three seconds. A thousand threads
 * that wait all the time take three million of a recording of 30 s. */
#define FGT_EXPLAIN_LOOKS_MAX (1u << 25)

#define FGT_EXPLAIN_CAUSES_MAX 8u
#define FGT_EXPLAIN_ROWS_MAX   8u
#define FGT_EXPLAIN_STEPS_MAX  6u
/* Fewer windows than this are no baseline. */
#define FGT_EXPLAIN_WINDOWS_MIN 4u
/* More of a wait for work explains less than more of anything else. */
#define FGT_EXPLAIN_PASSIVE_PART 0.2

/* Time of the thread that was asked about, in the range. All rows together are
 * the range's length. */
struct fgt_explained_row {
	uint32_t doing; /* of the doings; FGT_ID_NONE: all others together, or
			 * the time in which it did not exist */
	uint32_t run; /* one of its runs */
	double ms;
	struct fgt_rank rank;
};

#define FGT_EXPLAIN_PARTS_MAX 2u

struct fgt_explained_part {
	uint32_t run;
	double ms;
};

/* A part of that time, in order: what it waited for at last. */
struct fgt_explained_step {
	uint32_t first, end; /* ticks */
	double begin_ms; /* since the range's begin */
	double ms;
	uint32_t run; /* what it did itself … */
	struct fgt_culprit culprit; /* … and the thread behind that, */
	/* … most of what that one did, the longest first */
	struct fgt_explained_part parts[FGT_EXPLAIN_PARTS_MAX];
	uint32_t part_count;
};

/* Something that took more time than usual. */
struct fgt_explained_cause {
	uint32_t group; /* of threads */
	uint32_t doing;
	uint32_t run; /* one of its runs in the range */
	uint32_t threads; /* that did so in the range */
	double own_ms; /* their time, in the range */
	double waited_ms; /* time for which other threads waited for them */
	uint32_t waiters; /* other threads */
	uint32_t waiter_run; /* one of their runs, FGT_ID_NONE: none */
	struct fgt_lock_cycle cycle; /* a deadlock, if it has threads */
	struct fgt_rank rank; /* of both times together */
	double excess_ms; /* over what is usual */
};

/* What the whole machine lacked in the range. */
struct fgt_explained_pressure {
	double ms; /* NAN: not known */
	struct fgt_rank rank;
	bool is_unusual;
};

struct fgt_explanation {
	const struct fgt_ring_slice *slice; /* borrowed */
	struct fgt_doings *doings;
	struct fgt_windows *windows;
	uint32_t thread; /* that was asked about, or differs most */
	bool is_thread_chosen; /* by the caller */
	uint32_t thread_windows; /* others in which it existed: its baseline */
	/* [run_count]: the time by which it was chosen; NULL: all time. */
	bool *marks;
	struct fgt_explained_row rows[FGT_EXPLAIN_ROWS_MAX];
	uint32_t row_count; /* by ms */
	double others_running_ms; /* of the row that has no doing */
	struct fgt_explained_step steps[FGT_EXPLAIN_STEPS_MAX];
	uint32_t step_count; /* the longest ones, in order of time */
	double steps_left_out_ms;
	struct fgt_explained_cause causes[FGT_EXPLAIN_CAUSES_MAX];
	uint32_t cause_count; /* by what they explain */
	/* Most time of threads that are too new for a baseline, where others
	 * have one; 0 threads: none is worth a line. */
	struct fgt_explained_cause fresh;
	/* A process that is not in the slice, and woke the thread last in the
	 * range; 0: none did. */
	int32_t outside_pid;
	struct fgt_explained_pressure pressures[FGT_PRESSURE_KINDS];
	double unknown_ms; /* stacks or states that were not known */
	bool has_wakes, has_waits; /* anything in the slice knows them */
	bool has_all_holders; /* FGT_EXPLAIN_LOOKS_MAX was enough */
};

/*
 * [from_ns, to_ns] of the slice, CLOCK_MONOTONIC; tid 0: the thread whose
 * behaviour differs most, by the samples that the filter takes. The slice must
 * have its symbols and state names, and must outlive the explanation. -EINVAL
 * if from > to; -ENODATA with fewer than two ticks in the range; -ESRCH: the
 * range has no such thread, or sample; -ENOMEM.
 */
int fgt_explain(const struct fgt_ring_slice *slice, uint64_t from_ns,
		uint64_t to_ns, int32_t tid,
		const struct fgt_filter *candidates,
		struct fgt_explanation **ret_explanation);
void fgt_explanation_free(struct fgt_explanation *explanation);
FGT_DEFINE_AUTO(struct fgt_explanation *, fgt_explanation_free);

/* ---- Between the parts of an explanation -------------------------------- */

/* Fills the causes. -ENOMEM. */
int fgt_explain_causes(struct fgt_explanation *explanation);
/* Chooses the thread unless it is chosen, fills rows and steps. -ENOMEM. */
int fgt_explain_thread(struct fgt_explanation *explanation);

/* Is that much time worth a line at all? */
bool fgt_explain_is_worth(const struct fgt_explanation *explanation, double ms,
			  bool is_passive);
/* Is the range's value so unlike the other windows' that it is worth a line? A
 * wait for work must differ by more. What the rank has too few of is not. */
bool fgt_explain_is_unusual(const struct fgt_explanation *explanation,
			    double ms, bool is_passive,
			    const struct fgt_rank *rank);

#endif
