/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for futexes: locks and their holders, and ends of threads, as glibc has
 * them in memory. Runs in the sampler's thread; must not trust what it reads of
 * a target.
 */
#include "agent/capture/waits/futex.h"

#include <linux/futex.h>

/* glibc's pthread_mutex_t, as far as it is the same on all 64-bit machines. */
struct mutex_words {
	uint32_t lock, count;
	int32_t owner;
	uint32_t users;
	int32_t kind;
	uint32_t spins;
};

/* From the word on that readers wait at: __wrphase_futex of glibc's
 * pthread_rwlock_t. Writers wait for another one at the word behind it. */
struct rwlock_words {
	uint32_t phase, writers;
	uint32_t padding[2];
	int32_t writer;
	int32_t is_shared;
};

/* All of it. */
struct rwlock_whole {
	uint32_t readers, waiting_writers;
	struct rwlock_words words;
};

#define RWLOCK_PHASE_AT	  8u
#define RWLOCK_WRITERS_AT 12u
#define RWLOCK_WAITED_FOR 3u /* of a writer, with waiters */
#define RWLOCK_READ	  2u /* by readers, with a writer that waits */
/* Of the number of readers, the lowest bits: PTHREAD_RWLOCK_WRPHASE, _WRLOCKED
 * and _RWAITING. */
#define RWLOCK_STATE_BITS  3u
#define RWLOCK_STATE	   3u
#define RWLOCK_IS_WANTED   2u /* by a writer, and not its yet */
#define RWLOCK_READERS_MAX (1u << 20)
#define MUTEX_KIND_MAX	   0x3ff /* with both flags of elision */
#define MUTEX_ROBUST	   0x10 /* PTHREAD_MUTEX_ROBUST_NORMAL_NP */
#define MUTEX_SHARED	   0x80 /* by processes */
#define MUTEX_USERS_MAX	   (1u << 20)

static int32_t find_thread(const struct fgt_wait_source *source, int32_t number,
			   bool is_shared)
{
	return number > 0
		       ? source->find_thread(source->context, number, is_shared)
		       : 0;
}

/* One that waits for a lock which it holds has just got it. */
static int32_t of_another(int32_t tid, const struct fgt_wait_source *source)
{
	return tid == source->tid ? 0 : tid;
}

/* 0: none is known for sure. */
static int32_t mutex_owner(const struct mutex_words *words,
			   const struct fgt_wait_source *source)
{
	if (words->lock != FGT_FUTEX_LOCKED || words->kind < 0 ||
	    words->kind > MUTEX_KIND_MAX || !words->users ||
	    words->users > MUTEX_USERS_MAX)
		return 0;
	return find_thread(source, words->owner, words->kind & MUTEX_SHARED);
}

/* A lock whose word is 2 while threads wait for it. */
static bool read_mutex(const uint64_t *args,
		       const struct fgt_wait_source *source,
		       struct fgt_wait *wait)
{
	struct mutex_words words;

	if ((uint32_t)args[2] != FGT_FUTEX_LOCKED)
		return false;
	if (!source->read(source->context, args[0], &words, sizeof(words)))
		return false;
	/* Less: it was given away, and the one that got it has not run yet. */
	if (words.lock > FGT_FUTEX_LOCKED)
		return false;
	wait->owner_tid = of_another(mutex_owner(&words, source), source);
	/* glibc waits like this for locks alone: those of its allocator and its
	 * files have no owner written down where a mutex has it. */
	if (!wait->owner_tid && (args[1] & FUTEX_CMD_MASK) != FUTEX_WAIT)
		return false;
	wait->kind = FGT_WAIT_MUTEX;
	return true;
}

/* A robust lock, whose word has the holder. */
static bool read_robust(const uint64_t *args,
			const struct fgt_wait_source *source,
			struct fgt_wait *wait)
{
	uint32_t word = (uint32_t)args[2];
	struct mutex_words words;
	int32_t owner_tid;

	if (!(word & FUTEX_WAITERS) ||
	    !source->read(source->context, args[0], &words, sizeof(words)) ||
	    words.lock != word ||
	    (uint32_t)words.owner != (word & FUTEX_TID_MASK) ||
	    words.kind < 0 || words.kind > MUTEX_KIND_MAX ||
	    !(words.kind & MUTEX_ROBUST))
		return false;
	owner_tid = find_thread(source, words.owner, words.kind & MUTEX_SHARED);
	if (!owner_tid)
		return false;
	wait->kind = FGT_WAIT_PI_LOCK;
	wait->owner_tid = of_another(owner_tid, source);
	return true;
}

static bool is_rwlock(const struct rwlock_words *words)
{
	return words->phase <= 3 && words->is_shared >= 0 &&
	       words->is_shared <= 1;
}

/* 0: none is known for sure. */
static int32_t rwlock_writer(const struct rwlock_words *words,
			     const struct fgt_wait_source *source)
{
	return is_rwlock(words)
		       ? find_thread(source, words->writer, words->is_shared)
		       : 0;
}

/* Held by a writer; another writer waits at another word than readers. */
static bool read_written_rwlock(const uint64_t *args, uint64_t word_at,
				const struct fgt_wait_source *source,
				struct fgt_wait *wait)
{
	struct rwlock_words words;
	uint64_t address = args[0] - word_at;

	if (!source->read(source->context, address + RWLOCK_PHASE_AT, &words,
			  sizeof(words)) ||
	    (word_at == RWLOCK_PHASE_AT ? words.phase : words.writers) !=
		    (uint32_t)args[2])
		return false;
	wait->owner_tid = of_another(rwlock_writer(&words, source), source);
	if (!wait->owner_tid)
		return false;
	wait->address = address;
	return true;
}

/* Readers are not written down, but counted. */
static bool read_read_rwlock(const uint64_t *args,
			     const struct fgt_wait_source *source,
			     struct fgt_wait *wait)
{
	uint64_t address = args[0] - RWLOCK_PHASE_AT;
	struct rwlock_whole lock;

	if ((uint32_t)args[2] != RWLOCK_READ ||
	    !source->read(source->context, address, &lock, sizeof(lock)) ||
	    lock.words.phase != RWLOCK_READ ||
	    (lock.readers & RWLOCK_STATE) != RWLOCK_IS_WANTED ||
	    lock.readers >> RWLOCK_STATE_BITS == 0 ||
	    lock.readers > RWLOCK_READERS_MAX ||
	    lock.waiting_writers > RWLOCK_READERS_MAX ||
	    lock.words.padding[0] || lock.words.padding[1] ||
	    lock.words.writer || !is_rwlock(&lock.words))
		return false;
	wait->address = address;
	return true;
}

static void read_rwlock(const uint64_t *args,
			const struct fgt_wait_source *source,
			struct fgt_wait *wait)
{
	if (read_written_rwlock(args, RWLOCK_PHASE_AT, source, wait) ||
	    ((uint32_t)args[2] == RWLOCK_WAITED_FOR &&
	     read_written_rwlock(args, RWLOCK_WRITERS_AT, source, wait)) ||
	    read_read_rwlock(args, source, wait))
		wait->kind = FGT_WAIT_RWLOCK;
}

/* A word that has its holder, most often that of a mutex. */
static int32_t pi_owner(uint64_t address, const struct fgt_wait_source *source)
{
	struct mutex_words words;
	bool is_mutex =
		source->read(source->context, address, &words, sizeof(words));
	int32_t number;

	if (!is_mutex && !source->read(source->context, address, &words.lock,
				       sizeof(words.lock)))
		return 0;
	number = (int32_t)(words.lock & FUTEX_TID_MASK);
	return find_thread(source, number,
			   is_mutex && words.owner == number &&
				   words.kind >= 0 &&
				   words.kind <= MUTEX_KIND_MAX &&
				   words.kind & MUTEX_SHARED);
}

int32_t fgt_wait_read_owner(const struct fgt_wait *wait,
			    const struct fgt_wait_source *source)
{
	union {
		struct mutex_words mutex;
		struct rwlock_words rwlock;
	} words;

	switch (wait->kind) {
	case FGT_WAIT_MUTEX:
		return source->read(source->context, wait->address,
				    &words.mutex, sizeof(words.mutex))
			       ? mutex_owner(&words.mutex, source)
			       : 0;
	case FGT_WAIT_RWLOCK:
		return source->read(source->context,
				    wait->address + RWLOCK_PHASE_AT,
				    &words.rwlock, sizeof(words.rwlock))
			       ? rwlock_writer(&words.rwlock, source)
			       : 0;
	case FGT_WAIT_PI_LOCK:
		return pi_owner(wait->address, source);
	default:
		return 0;
	}
}

/* ---- Ends of threads ----------------------------------------------------- */

/* glibc's struct pthread, from the word on that pthread_join() waits at. */
struct pthread_words {
	int32_t tid; /* the kernel makes it 0 at the end */
	int32_t unused;
	uint64_t robust_previous;
	uint64_t robust_list[2];
};

/* From a mutex's entry in that list to its word. */
#define ROBUST_OFFSET ((uint64_t)-32)

/* It waits for the number of a thread, where glibc has that. */
static bool read_join(const uint64_t *args,
		      const struct fgt_wait_source *source,
		      struct fgt_wait *wait)
{
	int32_t number = (int32_t)args[2], tid;
	struct pthread_words words;

	if (args[1] & FUTEX_PRIVATE_FLAG ||
	    !source->read(source->context, args[0], &words, sizeof(words)) ||
	    words.tid != number || words.robust_list[1] != ROBUST_OFFSET)
		return false;
	tid = find_thread(source, number, false);
	if (!tid || tid == source->tid)
		return false;
	wait->kind = FGT_WAIT_JOIN;
	wait->owner_tid = tid;
	return true;
}

void fgt_futex_decode(const uint64_t args[6],
		      const struct fgt_wait_source *source,
		      struct fgt_wait *wait)
{
	uint32_t command = (uint32_t)args[1] & FUTEX_CMD_MASK;

	wait->kind = FGT_WAIT_NOTIFICATION;
	wait->address = args[0];
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2) {
		wait->kind = FGT_WAIT_PI_LOCK;
		wait->owner_tid =
			of_another(fgt_wait_read_owner(wait, source), source);
		return;
	}
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)
		return;
	if (!read_mutex(args, source, wait) &&
	    !read_robust(args, source, wait) && !read_join(args, source, wait))
		read_rwlock(args, source, wait);
}
