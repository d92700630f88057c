/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and what they wait for. Runs in the sampler's thread; must not
 * trust what it reads of a target.
 */
#include "agent/capture/waits/waits.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/wait.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/capture/waits/futex.h"
#include "agent/capture/waits/polled.h"
#include "ringbuf/base/clock.h"

#define HOLDER_MAX 72
/* Of a file that is locked, for the holder's sake. */
#define PATH_SHOWN     (FGT_WAIT_TEXT_MAX - HOLDER_MAX - 16)
#define SECOND_NS      1000000000u
#define MS_NS	       1000000u
#define INSTANT_MAX_NS (UINT64_C(1000000000) * UINT32_MAX)

/* Which argument of a call is what; numbers from 0 on, NONE without. */
enum {
	NONE = -1
};
struct call {
	int32_t number;
	enum fgt_wait_kind kind;
	int8_t id; /* the descriptor, child, queue */
	int8_t time; /* a struct timespec, or ms if is_ms */
	bool is_ms;
};

static const struct call calls[] = {
#define FD(name)                                                               \
	{                                                                      \
		SYS_##name, FGT_WAIT_DESCRIPTOR, 0, NONE, false                \
	}
	FD(read),
	FD(write),
	FD(readv),
	FD(writev),
	FD(pread64),
	FD(pwrite64),
	FD(preadv),
	FD(pwritev),
	FD(preadv2),
	FD(pwritev2),
	FD(recvfrom),
	FD(recvmsg),
	FD(recvmmsg),
	FD(sendto),
	FD(sendmsg),
	FD(sendmmsg),
	FD(accept),
	FD(accept4),
	FD(connect),
	FD(fsync),
	FD(fdatasync),
	FD(flock),
	FD(fcntl),
	FD(ioctl),
	FD(ftruncate),
	FD(fallocate),
	FD(close),
	FD(syncfs),
	FD(splice),
	FD(vmsplice),
	FD(tee),
	FD(getdents64),
	FD(sync_file_range),
#undef FD
	{ SYS_sendfile, FGT_WAIT_DESCRIPTOR, 1, NONE, false },
	{ SYS_nanosleep, FGT_WAIT_SLEEP, NONE, 0, false },
	{ SYS_clock_nanosleep, FGT_WAIT_SLEEP, NONE, 2, false },
#ifdef SYS_poll
	{ SYS_poll, FGT_WAIT_EVENTS, 1, 2, true },
	{ SYS_select, FGT_WAIT_EVENTS, 0, NONE, false },
	{ SYS_epoll_wait, FGT_WAIT_EVENTS, 0, 3, true },
	{ SYS_pause, FGT_WAIT_SIGNAL, NONE, NONE, false },
#endif
	{ SYS_ppoll, FGT_WAIT_EVENTS, 1, 2, false },
	{ SYS_pselect6, FGT_WAIT_EVENTS, 0, 4, false },
	{ SYS_epoll_pwait, FGT_WAIT_EVENTS, 0, 3, true },
	{ SYS_epoll_pwait2, FGT_WAIT_EVENTS, 0, 3, false },
	{ SYS_io_uring_enter, FGT_WAIT_EVENTS, 0, NONE, false },
	{ SYS_io_getevents, FGT_WAIT_EVENTS, NONE, 4, false },
	{ SYS_wait4, FGT_WAIT_CHILD, 0, NONE, false },
	{ SYS_waitid, FGT_WAIT_CHILD, 1, NONE, false },
	{ SYS_rt_sigsuspend, FGT_WAIT_SIGNAL, NONE, NONE, false },
	{ SYS_rt_sigtimedwait, FGT_WAIT_SIGNAL, NONE, 2, false },
	{ SYS_semop, FGT_WAIT_IPC, 0, NONE, false },
	{ SYS_semtimedop, FGT_WAIT_IPC, 0, 3, false },
	{ SYS_msgsnd, FGT_WAIT_IPC, 0, NONE, false },
	{ SYS_msgrcv, FGT_WAIT_IPC, 0, NONE, false },
};

static const struct call *find_call(int32_t number)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

uint64_t fgt_wait_round_ns(uint64_t ns)
{
	uint64_t unit = 1;

	while (ns / unit >= 100)
		unit *= 10;
	return (ns + unit / 2) / unit * unit;
}

static uint64_t read_timespec(const struct fgt_wait_source *source,
			      uint64_t address)
{
	struct timespec time;

	if (!address ||
	    !source->read(source->context, address, &time, sizeof(time)) ||
	    time.tv_sec < 0 || time.tv_sec > UINT32_MAX || time.tv_nsec < 0 ||
	    time.tv_nsec >= (long)SECOND_NS)
		return 0;
	return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

static uint64_t read_length(const struct fgt_wait_source *source,
			    uint64_t address)
{
	return fgt_wait_round_ns(read_timespec(source, address));
}

/*
 * What is left until that instant; 0: not known. The wait has begun at most a
 * tick ago: rounded up, it is most often what was asked for.
 */
static uint64_t read_instant(const struct fgt_wait_source *source,
			     clockid_t clock, uint64_t address)
{
	uint64_t end_ns = read_timespec(source, address), unit = 1, left_ns;
	uint64_t now_ns = end_ns ? fgt_clock_ns(clock) : 0;

	if (end_ns <= now_ns || end_ns - now_ns > INSTANT_MAX_NS)
		return 0;
	left_ns = end_ns - now_ns;
	while (left_ns / unit >= 100)
		unit *= 10;
	return (left_ns + unit - 1) / unit * unit;
}

static uint64_t read_futex_time(const uint64_t *args,
				const struct fgt_wait_source *source)
{
	bool is_real = args[1] & FUTEX_CLOCK_REALTIME;

	switch ((uint32_t)args[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
		return read_length(source, args[3]);
	case FUTEX_LOCK_PI:
		is_real = true;
		break;
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI2:
		break;
	default:
		return 0;
	}
	return read_instant(source, is_real ? CLOCK_REALTIME : CLOCK_MONOTONIC,
			    args[3]);
}

static uint64_t read_timeout(const struct call *call, const uint64_t *args,
			     const struct fgt_wait_source *source)
{
	int32_t ms;

	if (call->time == NONE)
		return 0;
	if (call->number == SYS_clock_nanosleep && args[1] & TIMER_ABSTIME)
		return args[0] == CLOCK_REALTIME || args[0] == CLOCK_MONOTONIC
			       ? read_instant(source, (clockid_t)args[0],
					      args[call->time])
			       : 0;
	if (!call->is_ms)
		return read_length(source, args[call->time]);
	ms = (int32_t)args[call->time];
	return ms > 0 ? fgt_wait_round_ns((uint64_t)ms * MS_NS) : 0;
}

/* ---- Descriptors -------------------------------------------------------- */

static bool is_poll(int32_t number)
{
#ifdef SYS_poll
	if (number == SYS_poll)
		return true;
#endif
	return number == SYS_ppoll;
}

/* Without descriptors these are pauses. */
static bool counts_descriptors(int32_t number)
{
#ifdef SYS_poll
	if (number == SYS_select)
		return true;
#endif
	return is_poll(number) || number == SYS_pselect6;
}

static void read_polled(const struct call *call, const uint64_t *args,
			const struct fgt_wait_source *source,
			struct fgt_wait *wait)
{
	struct fgt_polled polled = { 0 };
	char before[32] = "";

	if (is_poll(call->number)) {
		fgt_polled_read_poll(args, source, &polled);
	} else if (counts_descriptors(call->number)) {
		fgt_polled_read_select(args, source, &polled);
	} else if (call->id != NONE && call->number != SYS_io_uring_enter) {
		snprintf(before, sizeof(before), FGT_WAIT_EPOLL "%d of ",
			 wait->number);
		fgt_polled_read_epoll(wait->number, source, &polled);
	}
	fgt_polled_write(&polled, source, before, wait->text);
}

/* What is waited for, and who has it. */
static void read_file_lock(const struct call *call, const uint64_t *args,
			   const struct fgt_wait_source *source,
			   struct fgt_wait *wait)
{
	bool is_flock = call->number == SYS_flock;
	char path[FGT_WAIT_TEXT_MAX], holder[HOLDER_MAX];

	if (!source->find_file_lock ||
	    (!is_flock && (call->number != SYS_fcntl || args[1] != F_SETLKW)) ||
	    !source->find_file_lock(source->context, is_flock, holder,
				    sizeof(holder), &wait->owner_tid))
		return;
	memcpy(path, wait->text, sizeof(path));
	snprintf(wait->text, sizeof(wait->text), "%.*s" FGT_WAIT_HELD_BY "%s",
		 PATH_SHOWN, path[0] ? path : "a file", holder);
}

static void read_detail(const struct call *call, const uint64_t *args,
			const struct fgt_wait_source *source,
			struct fgt_wait *wait)
{
	if (call->id != NONE)
		wait->number = (int32_t)args[call->id];
	wait->timeout_ns = read_timeout(call, args, source);
	if (wait->kind == FGT_WAIT_DESCRIPTOR && source->describe &&
	    wait->number >= 0 &&
	    !source->describe(source->context, wait->number, wait->text,
			      sizeof(wait->text)))
		wait->text[0] = '\0';
	read_file_lock(call, args, source, wait);
	if (wait->kind == FGT_WAIT_CHILD &&
	    (wait->number <= 0 ||
	     (call->number == SYS_waitid && args[0] != P_PID)))
		wait->number = -1;
	else if (wait->kind == FGT_WAIT_CHILD && source->find_child)
		wait->number = source->find_child(source->context, wait->number,
						  wait->text,
						  sizeof(wait->text));
	if (counts_descriptors(call->number) && !wait->number) {
		wait->kind = FGT_WAIT_SLEEP;
		wait->number = -1;
	}
	if (wait->kind == FGT_WAIT_EVENTS)
		read_polled(call, args, source, wait);
}

void fgt_wait_of_call(int32_t number, struct fgt_wait *ret_wait)
{
	const struct call *call = find_call(number);

	*ret_wait = (struct fgt_wait){ .kind = FGT_WAIT_KERNEL, .number = -1 };
	if (number < 0)
		ret_wait->kind = FGT_WAIT_FAULT;
	else if (number == SYS_futex || number == SYS_restart_syscall)
		ret_wait->kind = FGT_WAIT_UNKNOWN;
	else if (call)
		ret_wait->kind = call->kind;
}

void fgt_wait_decode(int32_t number, const uint64_t args[6],
		     const struct fgt_wait_source *source,
		     struct fgt_wait *ret_wait)
{
	const struct call *call = find_call(number);

	fgt_wait_of_call(number, ret_wait);
	if (number == SYS_futex) {
		fgt_futex_decode(args, source, ret_wait);
		ret_wait->timeout_ns = read_futex_time(args, source);
	} else if (call) {
		read_detail(call, args, source, ret_wait);
	}
}

static bool read_nothing(void *context, uint64_t address, void *buffer,
			 size_t len)
{
	(void)context;
	(void)address;
	(void)buffer;
	(void)len;
	return false;
}

static int32_t find_no_thread(void *context, int32_t number, bool is_shared)
{
	(void)context;
	(void)number;
	(void)is_shared;
	return 0;
}

void fgt_wait_decode_past(int32_t number, const uint64_t args[6],
			  struct fgt_wait *ret_wait)
{
	static const struct fgt_wait_source nothing = {
		.read = read_nothing,
		.find_thread = find_no_thread,
	};

	fgt_wait_decode(number, args, &nothing, ret_wait);
	if (number == SYS_futex && (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT &&
	    (uint32_t)args[2] == FGT_FUTEX_LOCKED)
		ret_wait->kind = FGT_WAIT_UNKNOWN;
}
