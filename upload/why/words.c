/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doings and waits in words. Pure.
 */
#include "upload/why/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"

void fgt_words_add(struct fgt_words *words, const char *format, ...)
{
	size_t room = sizeof(words->text) - words->len;
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(words->text + words->len, room, format, arguments);
	va_end(arguments);
	if (len > 0)
		words->len += (size_t)len < room ? (size_t)len : room - 1;
}

void fgt_words_add_process(struct fgt_words *words,
			   const struct fgt_ring_slice *slice)
{
	fgt_words_add(words, "%s (pid %d%s%s)", slice->process.name,
		      slice->process.pid, *slice->ended_by ? ", ended by " : "",
		      slice->ended_by);
	if (slice->process_count > 1)
		fgt_words_add(words, " and %u more process%s",
			      slice->process_count - 1,
			      slice->process_count == 2 ? "" : "es");
}

void fgt_words_add_thread(struct fgt_words *words,
			  const struct fgt_ring_slice *slice, int32_t tid)
{
	uint32_t at = fgt_slice_find_thread(slice, tid);
	int32_t pid;

	if (at >= slice->thread_count) {
		fgt_words_add(words, "tid %d", tid);
		return;
	}
	fgt_words_add(words, "%s (tid %d",
		      fgt_slice_string(slice, slice->threads[at].name), tid);
	pid = fgt_slice_process_of(slice, at).pid;
	if (slice->process_count > 1 && pid != tid)
		fgt_words_add(words, " of pid %d", pid);
	fgt_words_add(words, ")");
}

void fgt_words_add_ms(struct fgt_words *words, double ms)
{
	if (ms >= 1000)
		fgt_words_add(words, "%.2f s", ms / 1000);
	else
		fgt_words_add(words, ms < 100 ? "%.1f ms" : "%.0f ms", ms);
}

const char *fgt_words_kind(uint32_t kind)
{
	return fgt_wait_kind_name(kind);
}

/* A name for an address, or the address. */
static void add_object(struct fgt_words *words,
		       const struct fgt_ring_slice *slice,
		       const struct fgt_slice_wait *wait)
{
	const char *object = fgt_slice_string(slice, wait->object);

	if (object[0])
		fgt_words_add(words, " %s", object);
	else if (wait->address)
		fgt_words_add(words, " at 0x%" PRIx64, wait->address);
}

static void add_lock(struct fgt_words *words,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_slice_wait *wait, const char *what)
{
	bool is_there = fgt_slice_find_thread(slice, wait->owner_tid) <
			slice->thread_count;
	const char *other = fgt_slice_string(slice, wait->text);

	fgt_words_add(words, "%s", what);
	add_object(words, slice, wait);
	if (wait->owner_tid && !is_there && other[0]) {
		fgt_words_add(words, ", held by %s (tid %d of another process)",
			      other, wait->owner_tid);
	} else if (wait->owner_tid && !is_there) {
		fgt_words_add(words, ", held by tid %d, which has ended",
			      wait->owner_tid);
	} else if (wait->owner_tid) {
		fgt_words_add(words, ", held by ");
		fgt_words_add_thread(words, slice, wait->owner_tid);
	} else if (wait->kind == FGT_WAIT_RWLOCK) {
		fgt_words_add(words, ", held by readers");
	}
}

static void add_sleep(struct fgt_words *words,
		      const struct fgt_slice_wait *wait)
{
	fgt_words_add(words, "asleep by choice");
	if (wait && wait->timeout_ns) {
		fgt_words_add(words, " for ");
		fgt_words_add_ms(words, (double)wait->timeout_ns / 1e6);
	}
}

/* Of poll and select the number is a count. */
static bool is_descriptor(const struct fgt_slice_wait *wait, const char *call)
{
	return wait->number >= 0 && (wait->kind != FGT_WAIT_EVENTS ||
				     !strncmp(call, "epoll", strlen("epoll")));
}

/* "read of pipe:[12]": the call, and what it is about. */
static void add_call(struct fgt_words *words,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_slice_wait *wait, uint32_t state)
{
	const char *text = fgt_slice_string(slice, wait->object ? wait->object
								: wait->text);

	const char *call = fgt_slice_state_name(slice, state);

	/* It names the call by itself. */
	if (wait->kind == FGT_WAIT_EVENTS &&
	    !strncmp(text, FGT_WAIT_EPOLL, strlen(FGT_WAIT_EPOLL))) {
		fgt_words_add(words, "%s", text);
		return;
	}
	fgt_words_add(words, "%s", call);
	if (text[0])
		fgt_words_add(words, " of %s", text);
	else if (is_descriptor(wait, call))
		fgt_words_add(words, " of descriptor %d", wait->number);
}

static void add_child(struct fgt_words *words,
		      const struct fgt_ring_slice *slice,
		      const struct fgt_slice_wait *wait)
{
	const char *text = fgt_slice_string(slice, wait->text);

	if (wait->number < 0)
		fgt_words_add(words, "end of any child");
	else if (!wait->number)
		fgt_words_add(words, "end of a child");
	else
		fgt_words_add(words, "end of child %s%s(pid %d)", text,
			      text[0] ? " " : "", wait->number);
}

static void add_notification(struct fgt_words *words,
			     const struct fgt_ring_slice *slice,
			     const struct fgt_slice_wait *wait)
{
	fgt_words_add(words, "notification");
	if (fgt_slice_string(slice, wait->object)[0])
		add_object(words, slice, wait);
}

static void add_wait(struct fgt_words *words,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_slice_wait *of, uint32_t state)
{
	uint32_t kind = of ? of->kind : FGT_WAIT_UNKNOWN;

	switch ((enum fgt_wait_kind)kind) {
	case FGT_WAIT_MUTEX:
		add_lock(words, slice, of, "mutex");
		break;
	case FGT_WAIT_RWLOCK:
		add_lock(words, slice, of, "rwlock");
		break;
	case FGT_WAIT_PI_LOCK:
		add_lock(words, slice, of,
			 fgt_wait_is_refused(of)
				 ? "lock that it never gets, since the holder "
				   "has ended, or is or waits for this thread"
				 : "lock");
		break;
	case FGT_WAIT_JOIN:
		fgt_words_add(words, "join of ");
		fgt_words_add_thread(words, slice, of->owner_tid);
		break;
	case FGT_WAIT_NOTIFICATION:
		add_notification(words, slice, of);
		break;
	case FGT_WAIT_DESCRIPTOR:
	case FGT_WAIT_EVENTS:
		add_call(words, slice, of, state);
		break;
	case FGT_WAIT_CHILD:
		add_child(words, slice, of);
		break;
	case FGT_WAIT_SLEEP:
		add_sleep(words, of);
		break;
	case FGT_WAIT_FAULT:
		fgt_words_add(words, "page fault");
		break;
	default:
		if (state == FGT_STATE_PAGE_FAULT)
			fgt_words_add(words, "page fault");
		else if (fgt_doing_kind_of_state(slice, state) ==
			 FGT_WAIT_SLEEP)
			add_sleep(words, NULL);
		else
			fgt_words_add(words, "%s",
				      fgt_slice_state_name(slice, state));
	}
	if (of && kind != FGT_WAIT_SLEEP && of->timeout_ns) {
		fgt_words_add(words, " (at most ");
		fgt_words_add_ms(words, (double)of->timeout_ns / 1e6);
		fgt_words_add(words, ")");
	}
}

void fgt_words_add_wait(struct fgt_words *words,
			const struct fgt_ring_slice *slice, uint32_t wait,
			uint32_t state)
{
	add_wait(words, slice, wait ? &slice->waits[wait - 1] : NULL, state);
}

/* Only what holds of all its waits. */
static void add_wait_of_doing(struct fgt_words *words,
			      const struct fgt_ring_slice *slice,
			      const struct fgt_doing *doing)
{
	struct fgt_slice_wait wait;

	if (!doing->wait) {
		add_wait(words, slice, NULL, doing->state);
		return;
	}
	wait = slice->waits[doing->wait - 1];
	if (doing->has_other_times)
		wait.timeout_ns = 0;
	add_wait(words, slice, &wait, doing->state);
	if (doing->has_other_owners && wait.owner_tid)
		fgt_words_add(words, ", and others");
}

static bool is_in_kernel(const struct fgt_ring_slice *slice, uint32_t stack)
{
	uint64_t marker = fgt_slice_leaf_marker(slice, stack);

	return marker == FGT_MARKER_KERNEL ||
	       marker == FGT_MARKER_KERNEL_DENIED;
}

void fgt_words_add_doing(struct fgt_words *words,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_doing *doing)
{
	const char *function = fgt_slice_string(slice, doing->place.function);
	const char *call = fgt_slice_string(slice, doing->place.call);
	struct fgt_words wait = { .len = 0 };

	if (doing->state == FGT_STATE_RUNNABLE) {
		fgt_words_add(words, "waiting for a CPU");
		return;
	}
	fgt_words_add(words, "%s", function[0] ? function : "[stack unknown]");
	if (call[0])
		fgt_words_add(words, " → %s", call);
	if (doing->state == FGT_STATE_RUNNING) {
		fgt_words_add(words, ", running");
		if (is_in_kernel(slice, doing->stack))
			fgt_words_add(words, " in the kernel");
		return;
	}
	add_wait_of_doing(&wait, slice, doing);
	if (strcmp(wait.text, call) != 0)
		fgt_words_add(words, ": %s", wait.text);
	if (doing->shows_callers)
		fgt_words_add_callers(words, slice, &doing->place,
				      FGT_WORDS_CALLED_BY);
}

void fgt_words_add_callers(struct fgt_words *words,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_place *place, const char *before)
{
	for (uint32_t i = 0; i < FGT_PLACE_CALLERS && place->callers[i]; i++)
		fgt_words_add(words, "%s%s", i ? ", " : before,
			      fgt_slice_string(slice, place->callers[i]));
}

void fgt_words_add_pace(struct fgt_words *words,
			const struct fgt_ring_slice *slice)
{
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	if (slowest > 1)
		fgt_words_add(
			words,
			"the rate was lowered to %.3g Hz for %.1f s, to keep "
			"sampling.max_cpu_percent (record --max-cpu): a tick "
			"there counts as up to %u samples of a thread",
			1e9 / ((double)slowest * (double)slice->period_ns),
			(double)lowered * (double)slice->period_ns / 1e9,
			slowest);
}
