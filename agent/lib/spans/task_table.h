/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where tasks and their spans live. A number names a slot and a serial number
 * within it, so that a stale one is known to be stale; slots are used again as
 * late as possible, since what an ended task hung under is asked for by tasks
 * that are begun below it.
 *
 * Tasks begin and end under one lock. Spans take none: all that decides about
 * them is in one word of their task's slot, which is changed by
 * compare-and-exchange, and whose serial number never comes again. Who has
 * brought the depth from d to d + 1 owns the span's place, d, until it is
 * brought back; what is read of a place holds if the word has not changed
 * since.
 */
#ifndef FGT_AGENT_LIB_SPANS_TASK_TABLE_H
#define FGT_AGENT_LIB_SPANS_TASK_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/spans/span_log.h"

#define FGT_TASKS_MAX  4096u /* that live */
#define FGT_TASK_SLOTS (1u << FGT_NUMBER_SLOT_BITS)

#define FGT_SPAN_NAME_WORDS   (FGT_SPAN_NAME_MAX / 8)
#define FGT_UNIQUE_NAME_WORDS (FGT_SPAN_UNIQUE_MAX / 8)

/* An active span. Number last: the others hold once it is there. */
struct fgt_span_place {
	_Atomic uint64_t number;
	_Atomic uint64_t begin_ns;
	_Atomic uint64_t about; /* tid, bytes of the name, calls at its end */
	_Atomic uint64_t name[FGT_SPAN_NAME_WORDS];
};

/* What only a task that lives needs. Under the lock, but for what is atomic. */
struct fgt_task_body {
	_Atomic uint64_t name[FGT_UNIQUE_NAME_WORDS]; /* unique */
	_Atomic uint64_t about; /* track, bytes of the name */
	uint64_t previous; /* task that was current when it began */
	uint64_t begin_ns;
	uint32_t name_entry, name_n; /* see task_names.h */
	uint32_t parent_track;
	uint32_t children; /* tasks that live */
	int32_t tid;
	struct fgt_span_place places[FGT_SPAN_DEPTH_MAX];
};

struct fgt_task_slot {
	/* The word: 1 bit: a task lives here; 7 bits: its active spans; from
	 * bit 21 on the last serial number given in this slot. */
	_Atomic uint64_t word;
	_Atomic uint64_t task; /* number of the last task here */
	_Atomic uint64_t parent; /* its number, 0: none */
	_Atomic(struct fgt_task_body *) body; /* of a task that lives */
};

#define FGT_TASK_LIVE  UINT64_C(1)
#define FGT_TASK_DEPTH UINT64_C(2) /* one span more */

static inline uint32_t fgt_word_depth(uint64_t word)
{
	return (uint32_t)(word >> 1) & 127;
}

/* [FGT_TASK_SLOTS]; NULL before the first task. */
extern _Atomic(struct fgt_task_slot *) fgt_task_slots;

/* Protects the tree of tasks, their names, and which slots and bodies are
 * free. Innermost, but for the one that hands out memory. */
extern pthread_mutex_t fgt_task_lock;

/* The number's slot, whatever is in it. NULL before the first task. */
static inline struct fgt_task_slot *fgt_task_slot(uint64_t number)
{
	/* Acquire: pairs with the release when the table was made. */
	struct fgt_task_slot *slots =
		atomic_load_explicit(&fgt_task_slots, memory_order_acquire);

	return slots ? &slots[fgt_number_slot(number)] : NULL;
}

/*
 * The slot of a task that lives, and its word: what is read of it afterwards
 * holds if the word has not changed by then. NULL: it has ended or never was.
 */
static inline struct fgt_task_slot *fgt_task_find(uint64_t task,
						  uint64_t *ret_word)
{
	struct fgt_task_slot *slot = task ? fgt_task_slot(task) : NULL;
	uint64_t word;

	if (!slot)
		return NULL;
	/* Acquire: pairs with the release that made the task alive. */
	word = atomic_load_explicit(&slot->word, memory_order_acquire);
	if (!(word & FGT_TASK_LIVE) ||
	    atomic_load_explicit(&slot->task, memory_order_acquire) != task)
		return NULL;
	*ret_word = word;
	return slot;
}

/* Has such a number ever been given? (Not every false one is known.) */
bool fgt_number_was_given(uint64_t number);

/* ---- Under the lock ----------------------------------------------------- */

/* A slot and a body for a task. -ENOSPC, -ENOMEM. */
int fgt_task_table_take(uint32_t *ret_slot, struct fgt_task_body **ret_body);
void fgt_task_table_release(uint32_t slot);

/* Tasks that live, tasks begun so far. */
void fgt_task_table_count(unsigned int *ret_live, uint64_t *ret_begun);

/* Spans begun so far. MT-Safe, without the lock. */
uint64_t fgt_task_table_spans(void);

/* The body of that index, if a task lives in it, and its slot; else NULL. */
struct fgt_task_body *fgt_task_table_at(uint32_t index, uint32_t *ret_slot);

/* ---- Fork --------------------------------------------------------------- */

/* In the child: AS-Safe. */
void fgt_task_table_forked(void);
/* No task lives any more; numbers of the parent are stale. */
void fgt_task_table_resume(void);

#endif
