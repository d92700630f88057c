/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow, and sorted arrays. Header only; runs anywhere.
 */
#ifndef FGT_RINGBUF_BASE_ARRAY_H
#define FGT_RINGBUF_BASE_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/*
 * Zeroed room for count items and one more: calloc(0) may return NULL. False
 * without memory.
 */
#define FGT_ARRAY_NEW(array, count)                                            \
	(((array) = calloc((size_t)(count) + 1, sizeof(*(array)))) != NULL)

/*
 * Makes room for needed items, and at least for twice as many as there was room
 * for. 0, or -ENOMEM: then nothing has changed.
 */
#define FGT_ARRAY_RESERVE(array, needed, capacity)                             \
	__extension__({                                                        \
		size_t needed_ = (needed), more_ = (size_t)(capacity)*2;       \
		int error_ = 0;                                                \
		if (needed_ > (capacity)) {                                    \
			void *grown_ = NULL;                                   \
			if (more_ < 64)                                        \
				more_ = 64;                                    \
			if (more_ < needed_)                                   \
				more_ = needed_;                               \
			if (more_ == (__typeof__(capacity))more_)              \
				grown_ = reallocarray((array), more_,          \
						      sizeof(*(array)));       \
			if (grown_) {                                          \
				(array) = grown_;                              \
				(capacity) = (__typeof__(capacity))more_;      \
			} else {                                               \
				error_ = -ENOMEM;                              \
			}                                                      \
		}                                                              \
		error_;                                                        \
	})

/* The same for one item after count. */
#define FGT_ARRAY_GROW(array, count, capacity)                                 \
	((count) < (capacity)                                                  \
		 ? 0                                                           \
		 : FGT_ARRAY_RESERVE(array, (size_t)(count) + 1, capacity))

/* qsort(3). An empty array may be NULL. */
#define FGT_ARRAY_SORT(array, count, compare)                                  \
	do {                                                                   \
		if (count)                                                     \
			qsort((array), (count), sizeof(*(array)), (compare));  \
	} while (0)

/*
 * How many items at the start fulfil the condition, in which at is the index of
 * an item. No item may fulfil it behind one that does not.
 */
#define FGT_ARRAY_BISECT(at, count, condition)                                 \
	__extension__({                                                        \
		size_t low_ = 0, high_ = (count);                              \
		while (low_ < high_) {                                         \
			size_t at = low_ + (high_ - low_) / 2;                 \
			if (condition)                                         \
				low_ = at + 1;                                 \
			else                                                   \
				high_ = at;                                    \
		}                                                              \
		low_;                                                          \
	})

#endif
