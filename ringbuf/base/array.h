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
 * Makes room for one item after count: twice the capacity where there is none.
 * 0, or -ENOMEM: then nothing has changed.
 */
#define FGT_ARRAY_GROW(array, count, capacity)                                 \
	__extension__({                                                        \
		int error_ = 0;                                                \
		if ((count) == (capacity)) {                                   \
			__typeof__(capacity) more_ = (capacity) ? (capacity)*2 \
								: 64;          \
			void *grown_ =                                         \
				more_ < (capacity)                             \
					? NULL                                 \
					: reallocarray((array), more_,         \
						       sizeof(*(array)));      \
			if (grown_) {                                          \
				(array) = grown_;                              \
				(capacity) = more_;                            \
			} else {                                               \
				error_ = -ENOMEM;                              \
			}                                                      \
		}                                                              \
		error_;                                                        \
	})

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
