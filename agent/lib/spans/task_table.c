/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates slots and bodies of tasks. Runs in the program's threads, under the
 * lock of the tasks.
 */
#include "agent/lib/spans/task_table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/lib/spans/task_names.h"

_Atomic(struct fgt_task_slot *) fgt_task_slots;
pthread_mutex_t fgt_task_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	struct fgt_task_body *bodies; /* [FGT_TASKS_MAX] */
	uint32_t slot_of[FGT_TASKS_MAX]; /* by body: its slot + 1; 0: free */
	uint16_t free_bodies[FGT_TASKS_MAX]; /* the last freed is next */
	uint32_t free_body_count, used_bodies;
	uint16_t free_slots[FGT_TASK_SLOTS]; /* the first freed is next */
	uint32_t first_free, free_slot_count, used_slots;
	_Atomic uint64_t begun; /* tasks */
	unsigned int live;
} table;

/* Only touched pages take memory: 4096 tasks with 64 spans take 23 MiB. */
static int map(size_t len_bytes, void **ret_memory)
{
	void *memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*ret_memory = memory;
	return 0;
}

static int make_table(void)
{
	void *slots, *bodies;
	int r;

	if (table.bodies)
		return 0;
	r = map(FGT_TASK_SLOTS * sizeof(struct fgt_task_slot), &slots);
	if (r < 0)
		return r;
	r = map(FGT_TASKS_MAX * sizeof(struct fgt_task_body), &bodies);
	if (r < 0) {
		munmap(slots, FGT_TASK_SLOTS * sizeof(struct fgt_task_slot));
		return r;
	}
	table.bodies = bodies;
	/* Release: pairs with the acquire in fgt_task_slot(). */
	atomic_store_explicit(&fgt_task_slots, slots, memory_order_release);
	return 0;
}

static struct fgt_task_body *take_body(uint32_t slot)
{
	uint32_t index = table.free_body_count
				 ? table.free_bodies[--table.free_body_count]
				 : table.used_bodies++;

	table.slot_of[index] = slot + 1;
	return &table.bodies[index];
}

/* Slots that were never used come first: used slots are reused late. */
static uint32_t take_slot(void)
{
	uint32_t slot;

	if (table.used_slots < FGT_TASK_SLOTS)
		return table.used_slots++;
	slot = table.free_slots[table.first_free];
	table.first_free = (table.first_free + 1) % FGT_TASK_SLOTS;
	table.free_slot_count--;
	return slot;
}

int fgt_task_table_take(uint32_t *ret_slot, struct fgt_task_body **ret_body)
{
	int r = make_table();

	if (r < 0)
		return r;
	if (table.live == FGT_TASKS_MAX)
		return -ENOSPC;
	table.live++;
	atomic_fetch_add_explicit(&table.begun, 1, memory_order_relaxed);
	*ret_slot = take_slot();
	*ret_body = take_body(*ret_slot);
	return 0;
}

void fgt_task_table_release(uint32_t slot)
{
	struct fgt_task_slot *slots =
		atomic_load_explicit(&fgt_task_slots, memory_order_relaxed);
	uint32_t index = (uint32_t)(atomic_load_explicit(&slots[slot].body,
							 memory_order_relaxed) -
				    table.bodies);

	table.slot_of[index] = 0;
	table.free_bodies[table.free_body_count++] = (uint16_t)index;
	table.free_slots[(table.first_free + table.free_slot_count) %
			 FGT_TASK_SLOTS] = (uint16_t)slot;
	table.free_slot_count++;
	table.live--;
}

unsigned int fgt_task_table_live(void)
{
	return table.live;
}

/* Each serial number belongs to a task or a span. */
uint64_t fgt_task_table_spans(void)
{
	struct fgt_task_slot *slots =
		atomic_load_explicit(&fgt_task_slots, memory_order_acquire);
	uint64_t tasks =
		atomic_load_explicit(&table.begun, memory_order_relaxed);
	uint64_t serials = 0;

	for (uint32_t i = 0; slots && i < FGT_TASK_SLOTS; i++) {
		uint64_t word = atomic_load_explicit(&slots[i].word,
						     memory_order_relaxed);

		if (!word)
			break; /* this slot and those after it are unused */
		serials += word / FGT_NUMBER_SERIAL_ONE;
	}
	return serials > tasks ? serials - tasks : 0;
}

struct fgt_task_body *fgt_task_table_at(uint32_t index, uint32_t *ret_slot)
{
	if (index >= table.used_bodies || !table.slot_of[index])
		return NULL;
	*ret_slot = table.slot_of[index] - 1;
	return &table.bodies[index];
}

bool fgt_number_was_given(uint64_t number)
{
	struct fgt_task_slot *slot = fgt_task_slot(number);
	uint64_t last;

	if (!slot || number < FGT_NUMBER_SERIAL_ONE ||
	    (!fgt_number_is_span(number) && fgt_number_depth(number)))
		return false;
	last = atomic_load_explicit(&slot->word, memory_order_acquire);
	return (number & FGT_NUMBER_SERIAL_MASK) <=
	       (last & FGT_NUMBER_SERIAL_MASK);
}

/* ---- Fork --------------------------------------------------------------- */

void fgt_task_table_forked(void)
{
	/* A thread of the parent may have held the lock. */
	pthread_mutex_init(&fgt_task_lock, NULL);
}

void fgt_task_table_resume(void)
{
	struct fgt_task_slot *slots =
		atomic_load_explicit(&fgt_task_slots, memory_order_relaxed);

	/* Slots keep their serial numbers, so that numbers of the parent are
	 * stale. All else is reset: a thread of the parent may have been
	 * changing it. */
	for (uint32_t i = 0; slots && i < FGT_TASK_SLOTS; i++)
		atomic_fetch_and_explicit(&slots[i].word,
					  FGT_NUMBER_SERIAL_MASK,
					  memory_order_relaxed);
	table.free_body_count = table.used_bodies = 0;
	memset(table.slot_of, 0, sizeof(table.slot_of));
	table.first_free = table.free_slot_count = table.used_slots = 0;
	table.live = 0;
	fgt_task_names_abandon();
}
