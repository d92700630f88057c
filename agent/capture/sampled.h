/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's side of a target: everything that its ticks need. Only the
 * sampler's thread touches it once it has been handed over.
 */
#ifndef FGT_AGENT_CAPTURE_SAMPLED_H
#define FGT_AGENT_CAPTURE_SAMPLED_H

#include "agent/capture/budget/rate.h"
#include "agent/capture/look/look.h"
#include "agent/capture/sampler.h"
#include "agent/capture/target.h"
#include "agent/unwind/maps/image_server.h"

struct fgt_sampled {
	/* What other threads see; holds a reference. */
	struct fgt_target *target;
	struct fgt_ring *ring; /* the target's */
	struct fgt_look look;
	bool is_stopped;
	bool is_in_tick;
	/* A thread of the sampler has not returned from a call about it:
	 * nothing is read of it any more. Set with the sampler's mutex. */
	bool is_given_up;

	/* Threads whose stacks lacked maps; see look_where_maps_lacked(). */
	struct {
		uint64_t generation; /* of stacks, at their last look */
		uint32_t next; /* in the thread store, while it goes on */
		bool has_found;
		uint64_t begun_ns, pause_ns;
	} lacking;
	/* A provider by procfs or clocks: always open, as the fallback. */
	const struct fgt_who_ran *polling;
	void *polling_state;
	bool has_no_switches; /* they cannot be had for this target */
	const struct fgt_running *running; /* the sampler's */
	void *running_state;
	uint64_t faults; /* of pages, when its maps were last read */
	int memory_fd; /* /proc/PID/mem: reads nothing after an exec */
	uint64_t memory_probe; /* an address that it can read */

	struct fgt_rate rate;
	struct fgt_rate_turn turn;
	uint32_t samples; /* of running threads, in this period */
	bool is_exceeded_logged;
	uint32_t
		logged_periods; /* the slowest rate that the log has; 0: none */

	/* Where brief_threads and brief_cpu_ns are counted from, and by which
	 * provider; NULL: not yet. */
	struct fgt_switch_brief brief_begin;
	const struct fgt_who_ran *brief_source;

	struct fgt_process_info info; /* as the ring has it */
	/* Of the program that it is now; see sampled_service.c. */
	struct {
		struct fgt_service published; /* by the program itself */
		struct fgt_service started; /* as its cgroup has it */
		uint64_t context; /* address of what was published, and when */
		uint64_t published_ns;
		uint64_t ran_ns; /* when it had run the last time */
		uint64_t arguments; /* address of its title; 0: not known */
		bool is_title_read;
		/* A payload that another process reads; bytes NULL: none. */
		struct fgt_context_asked {
			uint8_t *bytes;
			struct fgt_elf_source source;
			struct fgt_image_served file;
		} asked;
	} service;

	struct fgt_traces *traces; /* NULL: the program publishes none */

	uint64_t chores_ns; /* when the once-a-second work was done */
	uint64_t rate_ticks; /* for effective_hz */
	bool has_run; /* any thread, since the last chores */
	bool has_exec; /* the kernel reported one */
	/* How many since the last tick; more where reports were lost. */
	uint32_t execs;
	uint64_t program; /* number of the target's */
	struct fgt_owner owner; /* of it */
	uint64_t owner_tick; /* number of the tick that read it first */
	bool is_owner_sure; /* a later one has read it, too */
	bool is_report_due; /* of the one exec whose loss of memory was seen */
	bool is_explained;
	bool lacks_fds; /* as was explained last: see sampled_fds.c */
	const char *fds_limit; /* there was none left; NULL: there is */
	uint64_t claimed_ns; /* when it was last seen how many may be kept */

	void (*explain)(void *context, int32_t pid, const char *text);
	void *context;
	struct fgt_target_status status; /* published at each tick */
	bool has_new_texts; /* some of status's are not published yet */

	/* Guarded by the sampler's mutex. */
	bool is_detached, has_ticked;
};

/*
 * Opens a process as a target: checks access, makes the ring, reads the maps.
 * -ESRCH, -EPERM/-EACCES, -EINVAL, -ENOMEM with why.
 */
int fgt_sampled_new(int32_t pid, size_t ring_bytes,
		    const struct fgt_sampler_options *options,
		    struct fgt_image_cache *cache, struct fgt_fd_budget *budget,
		    struct fgt_sampled **ret_sampled, struct fgt_why *why);
/* Its two halves: the second one may have to be given up, and what it has made
 * by then is freed by _free. */
int fgt_sampled_alloc(const struct fgt_sampler_options *options,
		      struct fgt_fd_budget *budget,
		      struct fgt_sampled **ret_sampled);
int fgt_sampled_open(struct fgt_sampled *sampled, int32_t pid,
		     size_t ring_bytes,
		     const struct fgt_sampler_options *options,
		     struct fgt_image_cache *cache, struct fgt_why *why);
/* The target has ended, or is no longer sampled: closes all and shows its last
 * status. Sampler's thread, or before it was handed over. */
void fgt_sampled_stop(struct fgt_sampled *sampled, uint64_t now_ns,
		      bool is_alive);
/* Stops it if need be; the target lives on until its references are put. */
void fgt_sampled_free(struct fgt_sampled *sampled);
FGT_DEFINE_AUTO(struct fgt_sampled *, fgt_sampled_free);

/* Brings the status's count of threads that end between ticks up to date. */
void fgt_sampled_count_brief(struct fgt_sampled *sampled, uint64_t now_ns);

/* Publishes what the ticks have counted; the texts if they are new. */
void fgt_sampled_publish(struct fgt_sampled *sampled);

/* After an exec or a change of user: reads identity, access and maps again. */
void fgt_sampled_reread(struct fgt_sampled *sampled,
			const struct fgt_tick *tick, bool is_exec);

/*
 * ---- Its service (sampled_service.c) ----------------------------------------
 *
 * It is this program from now on: reads its cgroup, forgets what the former one
 * published.
 */
void fgt_sampled_begin_service(struct fgt_sampled *sampled);
void fgt_sampled_end_service(struct fgt_sampled *sampled);
/* Once a second: reads what the program publishes. has_run: since the last
 * second. */
void fgt_sampled_check_service(struct fgt_sampled *sampled,
			       const struct fgt_tick *tick, bool has_run);

/* Of the program that the maps are of, if it is not another one by now: the
 * bytes copied. May wait for a file system. errno of pread(2) */
int64_t fgt_sampled_copy(const struct fgt_sampled *sampled, uint64_t address,
			 void *buffer, size_t len);
/* All len bytes, and of memory only: for struct fgt_context_memory, whose
 * context is the target. -EFAULT */
int fgt_sampled_read_memory(void *sampled, uint64_t address, void *buffer,
			    size_t len);

/*
 * ---- Traces of its threads (sampled_traces.c) --------------------------------
 *
 * Once a second, and at the end: does the program publish contexts of threads?
 */
void fgt_sampled_find_traces(struct fgt_sampled *sampled);
void fgt_sampled_end_traces(struct fgt_sampled *sampled);
/* Where it does (traces is not NULL): in a tick that has looked at a thread,
 * whose stack so many ticks before it show, too; the thread has ended. */
void fgt_sampled_read_trace(struct fgt_sampled *sampled,
			    const struct fgt_tick *tick,
			    const struct fgt_thread *thread,
			    uint32_t credit_ticks);
void fgt_sampled_end_trace(struct fgt_sampled *sampled,
			   const struct fgt_thread *thread);

/* Between begin and commit: the wake-ups that the last look found, with what
 * their wakers did (sampled_wakes.c). */
void fgt_sampled_write_wakes(struct fgt_sampled *sampled,
			     const struct fgt_tick *tick,
			     const struct fgt_thread *thread);

/*
 * ---- Whose program it is (sampled_program.c) --------------------------------
 *
 * Before the look at its stacks: the process is another program now; or it has
 * ended with that not looked into.
 */
void fgt_sampled_take_program(struct fgt_sampled *sampled,
			      const struct fgt_tick *tick);
/*
 * In each tick, when all execs before it are known. The owner is read again at
 * the tick after an exec (during the call the process has its new memory before
 * it has its new rights) and at a few later ones.
 */
void fgt_sampled_check_program(struct fgt_sampled *sampled,
			       const struct fgt_tick *tick);
/* It has ended; at its last tick it was the program that is known, if no exec
 * was reported since. */
void fgt_sampled_end_program(struct fgt_sampled *sampled,
			     const struct fgt_tick *tick);

/* From now on the kernel reports which threads ran, if it can; or no longer. */
void fgt_sampled_take_switches(struct fgt_sampled *sampled,
			       struct fgt_switches *switches, uint64_t now_ns);
void fgt_sampled_leave_switches(struct fgt_sampled *sampled, uint64_t now_ns);

/* Logs a limitation of the target, and shows it; only the first is logged. */
void fgt_sampled_explain(struct fgt_sampled *sampled, const char *text);
/* Logs a text about the target. */
void fgt_sampled_log(const struct fgt_sampled *sampled, const char *text);

/*
 * ---- Descriptors (sampled_fds.c) ------------------------------------------
 *
 * Of a recorder inside the program that it records, after that has closed them:
 * daemons close all descriptors that they do not know, once they have begun.
 */

/*
 * Once a second: are the directories of the process still those that were
 * opened? Where it has no number left, what is kept is given back to it until
 * that was ten seconds ago, threads that could not be opened are looked for
 * again, and it is logged.
 */
void fgt_sampled_check_fds(struct fgt_sampled *sampled,
			   const struct fgt_tick *tick);
/*
 * Opens them again and forgets what was open below; all threads are looked at
 * in the next tick. Where that fails it is logged, and they are as they were.
 */
void fgt_sampled_reopen_fds(struct fgt_sampled *sampled,
			    const struct fgt_tick *tick);

#endif
