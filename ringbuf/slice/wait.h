/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blocked threads wait for, and which threads wake them: plain types, and
 * the parts of a slice that hold them.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_WAIT_H
#define FGT_RINGBUF_SLICE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a blocked thread waits for. The numbers are stable: they are in .fgt
 * files. */
enum fgt_wait_kind {
	FGT_WAIT_UNKNOWN = 0, /* could not be found out; text: why not */
	FGT_WAIT_MUTEX, /* of pthreads; owner_tid: the thread that holds it */
	FGT_WAIT_RWLOCK, /* owner_tid: the writer; 0: held by readers */
	FGT_WAIT_PI_LOCK, /* a futex word that holds the tid of its owner */
	FGT_WAIT_NOTIFICATION, /* any other futex: condition variable,
				* semaphore, a language's run time */
	FGT_WAIT_DESCRIPTOR, /* number: which; text: what it is; of a lock on a
			      * file, owner_tid: the only thread of the process
			      * that holds it */
	FGT_WAIT_EVENTS, /* poll, select, epoll; number: how many descriptors,
			  * of epoll its own; text: the first of them, with
			  * what each is if the wait lasted */
	FGT_WAIT_CHILD, /* number: its pid, -1: any, 0: one that is not known;
			 * text: its name */
	FGT_WAIT_SLEEP, /* by choice, for timeout_ns */
	FGT_WAIT_FAULT, /* a page fault, or the I/O that it needs */
	FGT_WAIT_SIGNAL, /* sigwait, pause, sigsuspend */
	FGT_WAIT_IPC, /* System V semaphore or message queue; number: its id */
	FGT_WAIT_STOPPED, /* by a signal or a debugger */
	FGT_WAIT_KERNEL, /* another system call, whose name explains it */
	FGT_WAIT_JOIN, /* the end of the thread owner_tid */
	FGT_WAIT_KINDS
};

/* ---- The whole machine -------------------------------------------------- */

enum fgt_pressure_kind {
	FGT_PRESSURE_CPU, /* some thread waited for one */
	FGT_PRESSURE_IO, /* likewise, for a disk */
	FGT_PRESSURE_MEMORY, /* likewise, for memory to be freed or read back */
	FGT_PRESSURE_STOLEN, /* other virtual machines had a CPU: of each */
	FGT_PRESSURE_KINDS
};

/* Up to an instant; only differences mean anything. */
struct fgt_slice_pressure {
	uint64_t mono_ns;
	uint64_t us[FGT_PRESSURE_KINDS];
};

struct fgt_ring_slice;
/* Between two instants, in ms; NAN: not known. */
double fgt_pressure_ms(const struct fgt_ring_slice *slice,
		       enum fgt_pressure_kind kind, uint64_t from_ns,
		       uint64_t to_ns);
/* Copies those that the ticks of result need. -ENOMEM. */
int fgt_pressures_copy(const struct fgt_slice_pressure *pressures,
		       uint32_t count, struct fgt_ring_slice *result);

/* ---- Waits -------------------------------------------------------------- */

#define FGT_WAIT_TEXT_MAX 228 /* NUL included: struct fgt_wait has 256 bytes */
/* In the text of a descriptor, between the file and who has locked it. */
#define FGT_WAIT_HELD_BY ", held by "
/* The text of an epoll's events begins with that and its number. */
#define FGT_WAIT_EPOLL "epoll "

/* Of the other end of a connection. */
struct fgt_wait_peer {
	uint8_t address[16]; /* IPv4: the first 4 bytes */
	bool is_six;
	uint16_t port;
};

/*
 * "tcp to 10.0.0.5:5432", "tcp from 10.0.0.9 at port 6379", "tcp port 80" (it
 * listens, or has no peer). A port that was given for this connection is left
 * out. size > 0.
 */
void fgt_wait_name_socket(const char *protocol, uint16_t local_port,
			  const struct fgt_wait_peer *peer, bool does_listen,
			  char *ret_name, size_t size);
/* "unix /run/x.sock", "unix @abstract": what is not printable, and a bracket,
 * becomes '?'. */
void fgt_wait_name_unix(const char *bytes, size_t len, char *ret_name,
			size_t size);

/* As it is recorded. */
struct fgt_wait {
	uint32_t kind; /* enum fgt_wait_kind */
	int32_t owner_tid; /* that is waited for: a thread of the process at that
			    * tick, or that has ended since, or, of a lock that processes share, of
			    * another one, whose name is in text; 0: none, or
			    * not known */
	uint64_t address; /* of the lock or futex word; 0: none */
	/* As asked for, to two significant digits; 0: without end, or not
	 * known. Of a wait until an instant, what was left as it was read. */
	uint64_t timeout_ns;
	int32_t number; /* see kind; -1: none */
	char text[FGT_WAIT_TEXT_MAX];
};

/* The same in a slice. */
struct fgt_slice_wait {
	uint64_t address, timeout_ns;
	uint32_t kind;
	int32_t owner_tid, number;
	uint32_t text; /* string id */
	/* String id: the address by name, "g_lock+0x8", or where a socket
	 * leads, "tcp to 10.0.0.5:5432"; 0: not known. Set with the symbols. */
	uint32_t object;
};

/* The kernel has refused that lock, and glibc lets the thread wait for ever; of a
 * lock that can be had an owner or an address is known. */
static inline bool fgt_wait_is_refused(const struct fgt_slice_wait *wait)
{
	return wait->kind == FGT_WAIT_PI_LOCK && !wait->owner_tid &&
	       !wait->address;
}

/* Where a wake-up comes from. The numbers are stable: they are in .fgt
 * files. */
enum fgt_wake_context {
	FGT_WAKE_TASK, /* a thread that made a system call */
	FGT_WAKE_INTERRUPT, /* a device, or softirq: network, disk */
	FGT_WAKE_TIMER,
	FGT_WAKE_CONTEXTS
};

struct fgt_slice_waker {
	int32_t pid, tid; /* 0: an interrupt */
	uint32_t name; /* string id: comm */
	uint32_t context; /* enum fgt_wake_context */
	/* The leaf of what it was doing; FGT_NODE_NONE: not known, or of
	 * another process. */
	uint32_t stack;
};

#define FGT_WAKE_DELAY_UNKNOWN UINT32_MAX

struct fgt_slice_wake {
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint32_t thread; /* that was woken: index into threads */
	uint32_t waker; /* index into wakers */
	uint32_t delay_us; /* until it had a CPU */
};

/* In .fgt files only: runs keep the wait themselves. */
struct fgt_run_wait {
	uint32_t run; /* index into runs */
	uint32_t wait; /* index into waits + 1 */
};

/* "mutex", "rwlock", "descriptor", …; "unknown" for any other number. */
const char *fgt_wait_kind_name(uint32_t kind);

struct fgt_ring_slice;

/*
 * Kinds, contexts and string ids exist; each run's wait does, and only runs of
 * blocked threads have one; wakes are ordered by thread, then time, none after
 * the last tick; their threads, wakers and stacks exist.
 */
bool fgt_waits_are_valid(const struct fgt_ring_slice *slice);

/*
 * The wake-up that ended the wait which a thread is in at a tick, and the tick
 * after it; NULL: not known. Up to end, which is behind the last tick of its
 * run, the thread waits: in one function and state that may be many waits.
 */
const struct fgt_slice_wake *fgt_wake_find(const struct fgt_ring_slice *slice,
					   uint32_t thread, uint32_t tick,
					   uint32_t end, uint32_t *ret_next);

/* ---- Between the parts of narrowing ------------------------------------- */

/* Marks, in both tables, the threads that hold what the result's runs wait for,
 * as far as they are not marked yet: their names are shown. */
void fgt_waits_mark_holders(const struct fgt_ring_slice *source,
			    const struct fgt_ring_slice *result,
			    uint32_t *threads, uint32_t *named);

/* Copies the waits that the result's runs use, and numbers them. -ENOMEM. */
int fgt_waits_narrow(const struct fgt_ring_slice *source,
		     struct fgt_ring_slice *result);

/*
 * Copies the wakes within the result's ticks of threads that are marked, still
 * with the source's numbers, and marks the nodes that their wakers use.
 * -ENOMEM.
 */
int fgt_wakes_keep(const struct fgt_ring_slice *source, const uint32_t *threads,
		   uint64_t from_ns, uint64_t to_ns,
		   struct fgt_ring_slice *result, uint32_t *nodes);

/* Copies their wakers, and puts in the numbers of the result: + 1 in threads
 * and nodes. -ENOMEM. */
int fgt_wakes_narrow(const struct fgt_ring_slice *source,
		     const uint32_t *threads, const uint32_t *nodes,
		     struct fgt_ring_slice *result);

/* ---- Between the parts of the .fgt form --------------------------------- */

/* The table of runs with a wait, of malloc(). -ENOMEM. */
int fgt_run_waits_new(const struct fgt_ring_slice *slice,
		      struct fgt_run_wait **ret_run_waits, uint32_t *ret_count);
/* Puts run_waits, and frees that table; what is out of range is left to the
 * check. False: a run stands twice or does not exist. */
bool fgt_run_waits_settle(struct fgt_ring_slice *slice);

#endif
