/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of tasks and their spans. A number consists of a slot and a serial
 * number within it, so that a stale number is recognised. Slots are reused as
 * late as possible, because the parent of an ended task is looked up when a
 * task is begun below it.
 *
 * Tasks begin and end under one lock. Spans take no lock: their state is one
 * word of the task's slot, which is changed by compare-and-exchange and whose
 * serial number never repeats. The thread that raises the depth from d to d + 1
 * owns the place d until the depth is lowered again. What is read from a place
 * is valid if the word has not changed since.
 */
#ifndef FGT_AGENT_LIB_SPANS_TASK_TABLE_H
#define FGT_AGENT_LIB_SPANS_TASK_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ringbuf/spans/span_log.h"

#define FGT_TASKS_MAX  4096u /* live at a time */
#define FGT_TASK_SLOTS (1u << FGT_NUMBER_SLOT_BITS)

#define FGT_SPAN_NAME_WORDS   (FGT_SPAN_NAME_MAX / 8)
#define FGT_UNIQUE_NAME_WORDS (FGT_SPAN_UNIQUE_MAX / 8)

/* An active span. The number is written last, so the rest is valid then. */
struct fgt_span_place {
	_Atomic uint64_t number;
	_Atomic uint64_t begin_ns;
	_Atomic uint64_t about; /* tid, length of the name, calls at its end */
	_Atomic uint64_t name[FGT_SPAN_NAME_WORDS];
};

/* What only a live task needs. Under the lock, except atomic members. */
struct fgt_task_body {
	_Atomic uint64_t name[FGT_UNIQUE_NAME_WORDS]; /* unique */
	_Atomic uint64_t about; /* track, length of the name */
	uint64_t previous; /* task that was current when it began */
	uint64_t begin_ns;
	uint32_t name_entry, name_n; /* see task_names.h */
	uint32_t parent_track;
	uint32_t children; /* live tasks */
	int32_t tid;
	struct fgt_span_place places[FGT_SPAN_DEPTH_MAX];
};

struct fgt_task_slot {
	/* The word: 1 bit: a task lives here; 7 bits: its active spans; from
	 * bit 21 on the last serial number given in this slot. */
	_Atomic uint64_t word;
	_Atomic uint64_t task; /* number of the last task here */
	_Atomic uint64_t parent; /* number, 0: none */
	_Atomic(struct fgt_task_body *) body; /* of a live task */
};

/* Acquire: the word of the slot is read again afterwards. */
static inline uint32_t fgt_task_track(const struct fgt_task_body *body)
{
	return (uint32_t)(atomic_load_explicit(&body->about,
					       memory_order_acquire) >>
			  32);
}

/* Copies the unique name, without a NUL. */
static inline void fgt_task_read_name(const struct fgt_task_body *body,
				      char ret_name[FGT_SPAN_UNIQUE_MAX])
{
	for (uint32_t i = 0; i < FGT_UNIQUE_NAME_WORDS; i++) {
		uint64_t word = atomic_load_explicit(&body->name[i],
						     memory_order_acquire);

		memcpy(ret_name + 8 * i, &word, 8);
	}
}

#define FGT_TASK_LIVE  UINT64_C(1)
#define FGT_TASK_DEPTH UINT64_C(2) /* one more span */

static inline uint32_t fgt_word_depth(uint64_t word)
{
	return (uint32_t)(word >> 1) & 127;
}

/* [FGT_TASK_SLOTS]; NULL before the first task. */
extern _Atomic(struct fgt_task_slot *) fgt_task_slots;

/* Protects the tree of tasks, their names, and the lists of free slots and
 * bodies. Innermost, except for locks of malloc(). */
extern pthread_mutex_t fgt_task_lock;

/* The slot of a number, also of a stale one. NULL before the first task. */
static inline struct fgt_task_slot *fgt_task_slot(uint64_t number)
{
	/* Acquire: pairs with the release in make_table(). */
	struct fgt_task_slot *slots =
		atomic_load_explicit(&fgt_task_slots, memory_order_acquire);

	return slots ? &slots[fgt_number_slot(number)] : NULL;
}

/*
 * The slot of a live task, and its word: what is read from the slot afterwards
 * is valid if the word has not changed by then. NULL: the task has ended or
 * never existed.
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

/* True if the number was returned once. Some invented numbers are true, too. */
bool fgt_number_was_given(uint64_t number);

/* ---- Under the lock ----------------------------------------------------- */

/* A slot and a body for a task. -ENOSPC, -ENOMEM. */
int fgt_task_table_take(uint32_t *ret_slot, struct fgt_task_body **ret_body);
void fgt_task_table_release(uint32_t slot);

/* Live tasks. */
unsigned int fgt_task_table_live(void);

/* Spans begun so far. MT-Safe, without the lock. */
uint64_t fgt_task_table_spans(void);

/* Body and slot at an index; NULL: no task lives there. */
struct fgt_task_body *fgt_task_table_at(uint32_t index, uint32_t *ret_slot);

/* ---- Fork --------------------------------------------------------------- */

/* In the child: AS-Safe. */
void fgt_task_table_forked(void);
/* Ends all tasks; numbers of the parent are stale. */
void fgt_task_table_resume(void);

#endif
