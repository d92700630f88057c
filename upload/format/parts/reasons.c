/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names states by their reasons. Any thread; must not change a slice that it
 * does not own.
 */
#include "upload/format/parts/reasons.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/id_map.h"

#define TEXT_MAX   300
#define EVENTS_MAX 4 /* kinds of what an event loop waits for */

/* What runs of one state and one reason become. */
struct shown {
	uint32_t state, wait; /* of the runs */
	uint32_t as; /* state: the same number if it has no reason to show */
};

struct naming {
	struct fgt_ring_slice *slice;
	struct fgt_id_map pairs; /* (state, wait) → index into shown */
	struct shown *shown;
	size_t count, capacity;
	struct fgt_slice_state *states; /* the new table */
	uint32_t state_count;
	uint32_t next; /* number of the next new state; they go downwards */
};

/* ---- Texts --------------------------------------------------------------- */

static const char *thread_name(const struct fgt_ring_slice *slice, int32_t tid)
{
	uint32_t at = fgt_slice_find_thread(slice, tid);

	return at < slice->thread_count
		       ? fgt_slice_string(slice, slice->threads[at].name)
		       : "";
}

/* Memory that many things share is no name. */
static const char *object_of(const struct fgt_ring_slice *slice,
			     const struct fgt_slice_wait *wait)
{
	const char *object = fgt_slice_string(slice, wait->object);

	return strcmp(object, "heap") == 0 ||
			       strncmp(object, "stack of ", 9) == 0
		       ? ""
		       : object;
}

/* "pipe:[12]" → pipe, "anon_inode:[eventfd]" → eventfd: numbers of single ones
 * are no names, nor is the process that has a file in passing. */
static void name_descriptor(const char *text, char *name, size_t size)
{
	const char *holder = strstr(text, FGT_WAIT_HELD_BY);
	char inner[TEXT_MAX];

	if (sscanf(text, "anon_inode:[%250[^]]]", inner) == 1 ||
	    sscanf(text, "anon_inode:%250s", inner) == 1)
		snprintf(name, size, "%s", inner);
	else if (strncmp(text, "pipe:[", 6) == 0)
		snprintf(name, size, "pipe");
	else if (strncmp(text, "socket:[", 8) == 0)
		snprintf(name, size, "socket");
	else
		snprintf(name, size, "%.*s",
			 holder ? (int)(holder - text) : (int)strlen(text),
			 text);
}

struct kinds {
	struct {
		const char *name;
		size_t len;
	} kinds[EVENTS_MAX];
	size_t count, used;
	char *names;
	size_t size;
};

/* Names the kind of a descriptor, what is in its brackets, if none before it
 * was of that kind. */
static void name_kind(struct kinds *kinds, const char *text)
{
	static const char socket[] = "socket:[";
	size_t count = kinds->count, at;

	kinds->kinds[count].name = text;
	kinds->kinds[count].len = !strncmp(text, socket, strlen(socket))
					  ? strlen("socket")
					  : strcspn(text, ")");
	for (at = 0;
	     kinds->kinds[at].len != kinds->kinds[count].len ||
	     memcmp(kinds->kinds[at].name, text, kinds->kinds[at].len) != 0;)
		at++;
	if (at < count)
		return;
	kinds->used += (size_t)snprintf(
		kinds->names + kinds->used, kinds->size - kinds->used, "%s%.*s",
		count ? ", " : "", (int)kinds->kinds[count].len, text);
	kinds->count = kinds->used < kinds->size ? count + 1 : EVENTS_MAX;
}

static bool is_server(const char *text)
{
	return strncmp(text, "tcp to ", 7) == 0 ||
	       strncmp(text, "udp to ", 7) == 0;
}

/*
 * "descriptors 3 (pipe), 5 (tcp port 80), 6 (pipe) and 2 more" → "pipe, tcp port
 * 80": each of the first kinds once, servers that may be slow to answer before
 * all others. Numbers would make a state of each moment of an event loop.
 */
static void name_events(const char *text, char *names, size_t size)
{
	struct kinds kinds = { .names = names, .size = size };

	names[0] = '\0';
	for (int pass = 0; pass < 2; pass++)
		for (const char *at = text;
		     kinds.count < EVENTS_MAX && (at = strchr(at, '('));)
			if (is_server(++at) == (pass == 0))
				name_kind(&kinds, at);
}

/* Without the offset of a word inside a condition variable, which has several
 * that are waited for. */
static size_t base_len(const char *object)
{
	const char *plus = strrchr(object, '+');

	return plus && strtoul(plus + 1, NULL, 16) < sizeof(pthread_cond_t)
		       ? (size_t)(plus - object)
		       : strlen(object);
}

/* "": nothing more than the state is known. */
static void write_reason(const struct fgt_ring_slice *slice,
			 const struct fgt_slice_wait *wait, char *text,
			 size_t size)
{
	const char *object = object_of(slice, wait);
	size_t len = wait->kind == FGT_WAIT_NOTIFICATION ? base_len(object)
							 : strlen(object);
	const char *owner = thread_name(slice, wait->owner_tid);

	/* It is a thread of another process, which the slice may lack. */
	if (!*owner && wait->owner_tid)
		owner = fgt_slice_string(slice, wait->text);
	text[0] = '\0';
	switch ((enum fgt_wait_kind)wait->kind) {
	case FGT_WAIT_NOTIFICATION:
	case FGT_WAIT_MUTEX:
	case FGT_WAIT_RWLOCK:
	case FGT_WAIT_PI_LOCK:
		snprintf(text, size, "%.*s%s%s%s", (int)len, object,
			 *object && *owner ? " " : "", *owner ? "← " : "",
			 owner);
		break;
	case FGT_WAIT_JOIN:
		if (*owner)
			snprintf(text, size, "← %s", owner);
		break;
	case FGT_WAIT_DESCRIPTOR:
		if (*object)
			snprintf(text, size, "%s", object);
		else
			name_descriptor(fgt_slice_string(slice, wait->text),
					text, size);
		break;
	case FGT_WAIT_EVENTS:
		name_events(*object ? object
				    : fgt_slice_string(slice, wait->text),
			    text, size);
		break;
	case FGT_WAIT_CHILD:
		snprintf(text, size, "%s", fgt_slice_string(slice, wait->text));
		break;
	default:
		break;
	}
}

/* ---- States --------------------------------------------------------------- */

/* The number that has this name already; 0: none. */
static uint32_t find_state(const struct naming *naming, uint32_t name)
{
	for (uint32_t i = 0; i < naming->state_count; i++)
		if (naming->states[i].name == name)
			return naming->states[i].state;
	return 0;
}

static bool is_taken(const struct naming *naming, uint32_t state)
{
	for (uint32_t i = 0; i < naming->slice->state_count; i++)
		if (naming->slice->states[i].state == state)
			return true;
	return false;
}

/* The state of that name; the given one where there is no room. */
static int make_state(struct naming *naming, uint32_t state, const char *reason,
		      uint32_t *ret_state)
{
	char text[2 * TEXT_MAX];
	uint32_t name;
	int error;

	*ret_state = state;
	snprintf(text, sizeof(text), "%s %s",
		 fgt_slice_state_name(naming->slice, state), reason);
	error = fgt_strings_intern(&naming->slice->strings, text, strlen(text),
				   &name);
	if (error)
		return error;
	if (find_state(naming, name)) {
		*ret_state = find_state(naming, name);
		return 0;
	}
	while (naming->next > FGT_STATE_MAX - FGT_REASONS_MAX &&
	       is_taken(naming, naming->next))
		naming->next--;
	if (naming->next <= FGT_STATE_MAX - FGT_REASONS_MAX)
		return 0;
	*ret_state = naming->next--;
	naming->states[naming->state_count++] =
		(struct fgt_slice_state){ .state = *ret_state, .name = name };
	return 0;
}

static int make_shown(struct naming *naming, const struct fgt_run *run,
		      struct shown *ret_shown)
{
	char reason[TEXT_MAX];

	*ret_shown = (struct shown){ run->state, run->wait, run->state };
	write_reason(naming->slice, &naming->slice->waits[run->wait - 1],
		     reason, sizeof(reason));
	return *reason ? make_state(naming, run->state, reason, &ret_shown->as)
		       : 0;
}

static int show_run(struct naming *naming, struct fgt_run *run)
{
	uint32_t known = naming->pairs.count, id;
	int error;

	if (!run->wait)
		return 0;
	error = fgt_id_map_add(&naming->pairs,
			       (uint64_t)run->state << 32 | run->wait, &id);
	if (!error && id == known) {
		error = FGT_ARRAY_RESERVE(naming->shown, id + 1,
					  naming->capacity);
		if (!error)
			error = make_shown(naming, run, &naming->shown[id]);
	}
	if (!error)
		run->state = naming->shown[id].as;
	return error;
}

static int compare_states(const void *left, const void *right)
{
	const struct fgt_slice_state *a = left, *b = right;

	return (a->state > b->state) - (a->state < b->state);
}

/* What a poll waits for is read when it has lasted a tick: it is the reason of
 * the beginning, too. */
static void name_beginnings(struct fgt_ring_slice *slice)
{
	for (uint32_t i = slice->run_count; i-- > 1;) {
		const struct fgt_run *rest = &slice->runs[i];
		struct fgt_run *begin = &slice->runs[i - 1];
		const struct fgt_slice_wait *wait;

		if (!begin->wait || !rest->wait ||
		    begin->thread != rest->thread ||
		    begin->state != rest->state ||
		    begin->stack != rest->stack ||
		    begin->first_tick + begin->tick_count != rest->first_tick)
			continue;
		wait = &slice->waits[begin->wait - 1];
		if (wait->kind == FGT_WAIT_EVENTS &&
		    !strchr(fgt_slice_string(slice, wait->text), '(') &&
		    wait->number == slice->waits[rest->wait - 1].number)
			begin->wait = rest->wait;
	}
}

int fgt_reasons_apply(struct fgt_ring_slice *slice)
{
	struct naming naming = { .slice = slice, .next = FGT_STATE_MAX };
	int error = 0;

	if (!slice->wait_count)
		return 0;
	if (!FGT_ARRAY_NEW(naming.states, slice->state_count + FGT_REASONS_MAX))
		return -ENOMEM;
	if (slice->state_count)
		memcpy(naming.states, slice->states,
		       slice->state_count * sizeof(*naming.states));
	naming.state_count = slice->state_count;
	name_beginnings(slice);
	for (uint32_t i = 0; i < slice->run_count && !error; i++)
		error = show_run(&naming, &slice->runs[i]);
	FGT_ARRAY_SORT(naming.states, naming.state_count, compare_states);
	free(slice->states);
	slice->states = naming.states;
	slice->state_count = naming.state_count;
	fgt_id_map_done(&naming.pairs);
	free(naming.shown);
	return error;
}

/* Of the names that it begins with the shortest: the others have reasons. */
uint32_t fgt_reasons_base(const struct fgt_ring_slice *slice, uint32_t state)
{
	const char *name = fgt_slice_state_name(slice, state);
	size_t shortest = strlen(name);
	uint32_t base = state;

	for (uint32_t i = 0; i < slice->state_count; i++) {
		const char *other =
			fgt_slice_string(slice, slice->states[i].name);
		size_t len = strlen(other);

		if (len && len < shortest && name[len] == ' ' &&
		    memcmp(name, other, len) == 0) {
			shortest = len;
			base = slice->states[i].state;
		}
	}
	return base;
}

/* ---- A slice of another owner ----------------------------------------------- */

static void *copy_of(const void *items, size_t bytes)
{
	void *copy = malloc(bytes + 1);

	if (copy && bytes)
		memcpy(copy, items, bytes);
	return copy;
}

/* Each distinct, in their order: their numbers stay. */
static int copy_strings(const struct fgt_strings *strings,
			struct fgt_strings *ret_copy)
{
	int error = fgt_strings_init(ret_copy);
	uint32_t id;

	for (uint32_t i = 1; i < strings->count && !error; i++) {
		const char *text = fgt_strings_get(strings, i);

		error = fgt_strings_intern(ret_copy, text, strlen(text), &id);
	}
	return error;
}

int fgt_reasons_write(const struct fgt_ring_slice *slice,
		      const struct fgt_format_options *options,
		      const struct fgt_sink *sink,
		      int (*write)(const struct fgt_ring_slice *slice,
				   const struct fgt_format_options *options,
				   const struct fgt_sink *sink))
{
	struct fgt_ring_slice shown = *slice;
	int error;

	if (!slice->wait_count)
		return write(slice, options, sink);
	shown.runs =
		copy_of(slice->runs, slice->run_count * sizeof(*slice->runs));
	shown.states = copy_of(slice->states,
			       slice->state_count * sizeof(*slice->states));
	error = copy_strings(&slice->strings, &shown.strings);
	if (!error && !(shown.runs && shown.states))
		error = -ENOMEM;
	if (!error)
		error = fgt_reasons_apply(&shown);
	if (!error)
		error = write(&shown, options, sink);
	free(shown.runs);
	free(shown.states);
	fgt_strings_done(&shown.strings);
	return error;
}
