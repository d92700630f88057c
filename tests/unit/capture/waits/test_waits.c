/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons of waits, by calls on memory that the test makes up; glibc's layouts
 * are those of locks that the test holds. */
#include "agent/capture/waits/waits.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SELF		7
#define ADDRESS(object) ((uint64_t)(uintptr_t) & (object))

static bool g_is_readable = true;
static _Atomic int32_t g_joined, g_joiner; /* threads; 0: none yet */

/* As the recorder reads: what lies around a word may be no lock's. */
static bool read_own(void *context, uint64_t address, void *buffer, size_t len)
{
	const struct iovec to = { buffer, len };
	const struct iovec from = { (void *)(uintptr_t)address, len };

	(void)context;
	return g_is_readable &&
	       process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len;
}

static int32_t find_thread(void *context, int32_t number, bool is_shared)
{
	(void)context;
	(void)is_shared;
	return number == gettid() || number == SELF || number == g_joined
		       ? number
		       : 0;
}

static bool describe(void *context, int32_t descriptor, char *text, size_t size)
{
	(void)context;
	(void)size;
	strcpy(text, "/var/lib/x.wal");
	return descriptor == 5;
}

static struct fgt_wait decode(int32_t call, uint64_t a, uint64_t b, uint64_t c,
			      uint64_t d)
{
	const uint64_t args[6] = { a, b, c, d };
	const struct fgt_wait_source source = { .tid = SELF,
						.read = read_own,
						.find_thread = find_thread,
						.describe = describe };
	struct fgt_wait wait;

	fgt_wait_decode(call, args, &source, &wait);
	return wait;
}

/* As a second thread finds it that waits. */
static pthread_mutex_t take_mutex(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&mutex);
	mutex.__data.__lock = 2;
	return mutex;
}

static struct fgt_wait decode_mutex(const pthread_mutex_t *mutex)
{
	return decode(SYS_futex, ADDRESS(*mutex),
		      FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, 0);
}

static void holder_of_mutex_is_named(void **state)
{
	pthread_mutex_t mutex = take_mutex();
	struct fgt_wait wait = decode_mutex(&mutex);

	(void)state;
	assert_int_equal(wait.kind, FGT_WAIT_MUTEX);
	assert_int_equal(wait.owner_tid, gettid());
	assert_int_equal(wait.address, ADDRESS(mutex));
}

/* A program that asks for PTHREAD_MUTEX_NORMAL gets a flag with it. */
static void holder_of_mutex_of_any_type_is_named(void **state)
{
	static const int types[] = { PTHREAD_MUTEX_NORMAL,
				     PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK,
				     PTHREAD_MUTEX_ADAPTIVE_NP };
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		pthread_mutexattr_init(&attributes);
		pthread_mutexattr_settype(&attributes, types[i]);
		pthread_mutex_init(&mutex, &attributes);
		pthread_mutex_lock(&mutex);
		mutex.__data.__lock = 2;
		assert_int_equal(decode_mutex(&mutex).owner_tid, gettid());
		pthread_mutex_unlock(&mutex);
	}
}

static void holder_of_robust_mutex_is_named(void **state)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;
	struct fgt_wait wait;
	int word;

	(void)state;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &attributes);
	pthread_mutex_lock(&mutex);
	word = mutex.__data.__lock |= (int)FUTEX_WAITERS;
	wait = decode(SYS_futex, ADDRESS(mutex), FUTEX_WAIT, (uint32_t)word, 0);
	assert_int_equal(wait.kind, FGT_WAIT_PI_LOCK);
	assert_int_equal(wait.owner_tid, gettid());
	mutex.__data.__owner++; /* no mutex, or given on meanwhile */
	wait = decode(SYS_futex, ADDRESS(mutex), FUTEX_WAIT, (uint32_t)word, 0);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
	mutex.__data.__owner--;
	pthread_mutex_unlock(&mutex);
}

static void doubtful_owner_is_not_named(void **state)
{
	pthread_mutex_t mutex = take_mutex();

	(void)state;
	mutex.__data.__owner = 4194304; /* no thread */
	assert_int_equal(decode_mutex(&mutex).owner_tid, 0);
	mutex.__data.__owner = SELF; /* the one that waits */
	assert_int_equal(decode_mutex(&mutex).owner_tid, 0);
	mutex = take_mutex();
	mutex.__data.__kind = -1;
	assert_int_equal(decode_mutex(&mutex).owner_tid, 0);
	mutex = take_mutex();
	mutex.__data.__nusers = 0;
	assert_int_equal(decode_mutex(&mutex).owner_tid, 0);
	mutex = take_mutex();
	mutex.__data.__lock = 1; /* released and taken again meanwhile */
	assert_int_equal(decode_mutex(&mutex).kind, FGT_WAIT_MUTEX);
	assert_int_equal(decode_mutex(&mutex).owner_tid, 0);
	mutex.__data.__lock = 3; /* no word of a lock */
	assert_int_equal(decode_mutex(&mutex).kind, FGT_WAIT_NOTIFICATION);
	mutex = take_mutex();
	g_is_readable = false;
	assert_int_equal(decode_mutex(&mutex).kind, FGT_WAIT_NOTIFICATION);
	g_is_readable = true;
}

static void assert_waits_for(const pthread_rwlock_t *lock,
			     const unsigned int *word, int32_t owner_tid)
{
	const struct fgt_wait wait =
		decode(SYS_futex, ADDRESS(*word),
		       FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, *word, 0);

	assert_int_equal(wait.kind, FGT_WAIT_RWLOCK);
	assert_int_equal(wait.owner_tid, owner_tid);
	assert_int_equal(wait.address, ADDRESS(*lock));
}

static void writer_of_rwlock_is_named(void **state)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	(void)state;
	pthread_rwlock_wrlock(&lock);
	lock.__data.__wrphase_futex = 3; /* a reader waits */
	assert_waits_for(&lock, &lock.__data.__wrphase_futex, gettid());
	lock.__data.__writers_futex = 3; /* a writer waits */
	assert_waits_for(&lock, &lock.__data.__writers_futex, gettid());
}

static void readers_of_rwlock_have_no_names(void **state)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	struct fgt_wait wait;

	(void)state;
	pthread_rwlock_rdlock(&lock);
	lock.__data.__readers |= 2; /* a writer waits */
	lock.__data.__wrphase_futex = 2;
	assert_waits_for(&lock, &lock.__data.__wrphase_futex, 0);
	lock.__data.__readers = 2; /* no reader: something else */
	wait = decode(SYS_futex, ADDRESS(lock.__data.__wrphase_futex),
		      FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 2, 0);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
}

static int32_t owner_of(uint32_t kind, uint64_t address)
{
	const struct fgt_wait wait = { .kind = kind, .address = address };
	const struct fgt_wait_source source = { .tid = SELF,
						.read = read_own,
						.find_thread = find_thread };

	return fgt_wait_read_owner(&wait, &source);
}

static void owner_is_read_again(void **state)
{
	pthread_mutex_t mutex = take_mutex();
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	uint32_t word = (uint32_t)gettid() | FUTEX_WAITERS;

	(void)state;
	assert_int_equal(owner_of(FGT_WAIT_MUTEX, ADDRESS(mutex)), gettid());
	mutex.__data.__owner = SELF; /* it has got it, and not run yet */
	assert_int_equal(owner_of(FGT_WAIT_MUTEX, ADDRESS(mutex)), SELF);
	mutex.__data.__lock = 0; /* given away, and taken by no other yet */
	assert_int_equal(owner_of(FGT_WAIT_MUTEX, ADDRESS(mutex)), 0);
	pthread_rwlock_wrlock(&lock);
	assert_int_equal(owner_of(FGT_WAIT_RWLOCK, ADDRESS(lock)), gettid());
	pthread_rwlock_unlock(&lock);
	assert_int_equal(owner_of(FGT_WAIT_RWLOCK, ADDRESS(lock)), 0);
	assert_int_equal(owner_of(FGT_WAIT_PI_LOCK, ADDRESS(word)), gettid());
	assert_int_equal(owner_of(FGT_WAIT_SLEEP, ADDRESS(mutex)), 0);
	g_is_readable = false;
	assert_int_equal(owner_of(FGT_WAIT_MUTEX, ADDRESS(mutex)), 0);
	g_is_readable = true;
}

static void other_futexes_are_notifications(void **state)
{
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	uint32_t word[32] = { (uint32_t)gettid() | FUTEX_WAITERS };
	struct fgt_wait wait;

	(void)state;
	wait = decode(SYS_futex, ADDRESS(condition),
		      FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
	assert_int_equal(wait.owner_tid, 0);
	wait = decode(SYS_futex, ADDRESS(word), FUTEX_LOCK_PI, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_PI_LOCK);
	assert_int_equal(wait.owner_tid, gettid());
	/* The word is the condition's, whose lock is another one. */
	wait = decode(SYS_futex, ADDRESS(word), FUTEX_WAIT_REQUEUE_PI, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
	assert_int_equal(wait.owner_tid, 0);
}

static void *live(void *fd)
{
	char byte;

	g_joined = gettid();
	(void)!read(*(int *)fd, &byte, 1);
	return NULL;
}

static void *join(void *thread)
{
	g_joiner = gettid();
	pthread_join(*(pthread_t *)thread, NULL);
	return NULL;
}

/* The call in which a thread sleeps, as the recorder reads it. */
static void wait_for_call(int32_t tid, uint64_t args[6])
{
	char path[64], text[256];
	long call = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	for (int i = 0; i < 1000 && call != SYS_futex; i++) {
		FILE *file = fopen(path, "r");

		usleep(10000);
		assert_non_null(file);
		if (!fgets(text, sizeof(text), file) ||
		    sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &call, &args[0],
			   &args[1], &args[2], &args[3], &args[4],
			   &args[5]) != 7)
			call = -1;
		fclose(file);
	}
	assert_int_equal(call, SYS_futex);
}

static void thread_that_is_joined_is_named(void **state)
{
	uint32_t word[32] = { (uint32_t)gettid() };
	pthread_t joined, joiner;
	uint64_t args[6];
	struct fgt_wait wait;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pthread_create(&joined, NULL, live, &ends[0]);
	pthread_create(&joiner, NULL, join, &joined);
	while (!g_joined || !g_joiner)
		usleep(1000);
	wait_for_call(g_joiner, args);
	wait = decode(SYS_futex, args[0], args[1], args[2], args[3]);
	assert_int_equal(wait.kind, FGT_WAIT_JOIN);
	assert_int_equal(wait.owner_tid, g_joined);
	close(ends[1]);
	pthread_join(joiner, NULL);
	/* A number that a thread has, too. */
	wait = decode(SYS_futex, ADDRESS(word), FUTEX_WAIT, word[0], 0);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
	close(ends[0]);
}

static void sleep_has_its_length(void **state)
{
	const struct timespec time = { 1, 234567890 }, wrong = { -1, 5 };
	struct fgt_wait wait = decode(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0,
				      ADDRESS(time), 0);

	(void)state;
	assert_int_equal(wait.kind, FGT_WAIT_SLEEP);
	assert_int_equal(wait.timeout_ns, 1200000000);
	wait = decode(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME,
		      ADDRESS(time), 0);
	assert_int_equal(wait.timeout_ns, 0);
	assert_int_equal(
		decode(SYS_nanosleep, ADDRESS(wrong), 0, 0, 0).timeout_ns, 0);
	assert_int_equal(fgt_wait_round_ns(99), 99);
	assert_int_equal(fgt_wait_round_ns(1449), 1400);
	assert_int_equal(fgt_wait_round_ns(1450), 1500);
}

/* As pthread_cond_timedwait(), sem_timedwait() and timed locks wait. */
static void wait_until_an_instant_has_what_is_left(void **state)
{
	uint64_t bits = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, left_ns;
	struct timespec end;
	uint32_t word = 0;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 50;
	left_ns = decode(SYS_futex, ADDRESS(word), bits, 0, ADDRESS(end))
			  .timeout_ns;
	assert_int_equal(left_ns, UINT64_C(50000000000));
	assert_int_equal(decode(SYS_clock_nanosleep, CLOCK_MONOTONIC,
				TIMER_ABSTIME, ADDRESS(end), 0)
				 .timeout_ns,
			 UINT64_C(50000000000));
	/* Long ago by the other clock. */
	bits |= FUTEX_CLOCK_REALTIME;
	assert_int_equal(decode(SYS_futex, ADDRESS(word), bits, 0, ADDRESS(end))
				 .timeout_ns,
			 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 7;
	assert_int_equal(decode(SYS_futex, ADDRESS(word), bits, 0, ADDRESS(end))
				 .timeout_ns,
			 UINT64_C(7000000000));
	end.tv_sec = 7;
	assert_int_equal(
		decode(SYS_futex, ADDRESS(word), FUTEX_WAIT, 0, ADDRESS(end))
				.timeout_ns /
			1000000000,
		7);
}

static void descriptors_and_children_have_numbers(void **state)
{
	const struct pollfd polled[2] = { { .fd = 3 }, { .fd = 12 } };
	struct fgt_wait wait = decode(SYS_fsync, 5, 0, 0, 0);

	(void)state;
	assert_int_equal(wait.kind, FGT_WAIT_DESCRIPTOR);
	assert_int_equal(wait.number, 5);
	assert_string_equal(wait.text, "/var/lib/x.wal");
	assert_string_equal(decode(SYS_read, 6, 0, 0, 0).text, "");
	wait = decode(SYS_ppoll, ADDRESS(polled), 2, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_EVENTS);
	assert_int_equal(wait.number, 2);
	assert_string_equal(wait.text, "descriptors 3, 12");
	wait = decode(SYS_poll, 0, 0, 1500, 0);
	assert_int_equal(wait.kind, FGT_WAIT_SLEEP);
	assert_int_equal(wait.number, -1);
	assert_int_equal(wait.timeout_ns, UINT64_C(1500000000));
	assert_int_equal(decode(SYS_select, 0, 0, 0, 0).kind, FGT_WAIT_SLEEP);
	assert_int_equal(decode(SYS_select, 3, 0, 0, 0).kind, FGT_WAIT_EVENTS);
	wait = decode(SYS_wait4, (uint64_t)-1, 0, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_CHILD);
	assert_int_equal(wait.number, -1);
	assert_int_equal(decode(SYS_wait4, 77, 0, 0, 0).number, 77);
	/* Any child of a group of processes. */
	assert_int_equal(decode(SYS_wait4, 0, 0, 0, 0).number, -1);
	assert_int_equal(decode(SYS_wait4, (uint64_t)-7, 0, 0, 0).number, -1);
	assert_int_equal(decode(SYS_waitid, P_PGID, 7, 0, 0).number, -1);
}

static void calls_alone_have_a_kind(void **state)
{
	struct fgt_wait wait;

	(void)state;
	fgt_wait_of_call(-1, &wait);
	assert_int_equal(wait.kind, FGT_WAIT_FAULT);
	fgt_wait_of_call(SYS_futex, &wait);
	assert_int_equal(wait.kind, FGT_WAIT_UNKNOWN);
	fgt_wait_of_call(SYS_munmap, &wait);
	assert_int_equal(wait.kind, FGT_WAIT_KERNEL);
	fgt_wait_of_call(SYS_read, &wait);
	assert_int_equal(wait.kind, FGT_WAIT_DESCRIPTOR);
	assert_int_equal(wait.number, -1);
}

static struct fgt_wait decode_past(int32_t call, uint64_t a, uint64_t b,
				   uint64_t c)
{
	const uint64_t args[6] = { a, b, c };
	struct fgt_wait wait;

	fgt_wait_decode_past(call, args, &wait);
	return wait;
}

static void wait_that_is_over_is_not_looked_into(void **state)
{
	pthread_mutex_t mutex = take_mutex();
	struct fgt_wait wait = decode_past(SYS_futex, ADDRESS(mutex),
					   FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2);

	(void)state;
	assert_int_equal(wait.kind, FGT_WAIT_UNKNOWN);
	assert_int_equal(wait.owner_tid, 0);
	wait = decode_past(SYS_futex, ADDRESS(mutex),
			   FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 9);
	assert_int_equal(wait.kind, FGT_WAIT_NOTIFICATION);
	assert_int_equal(wait.address, ADDRESS(mutex));
	wait = decode_past(SYS_read, 5, 0, 0);
	assert_int_equal(wait.kind, FGT_WAIT_DESCRIPTOR);
	assert_int_equal(wait.number, 5);
	assert_string_equal(wait.text, "");
	assert_int_equal(decode_past(SYS_nanosleep, 1, 0, 0).kind,
			 FGT_WAIT_SLEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holder_of_mutex_is_named),
		cmocka_unit_test(holder_of_mutex_of_any_type_is_named),
		cmocka_unit_test(holder_of_robust_mutex_is_named),
		cmocka_unit_test(doubtful_owner_is_not_named),
		cmocka_unit_test(writer_of_rwlock_is_named),
		cmocka_unit_test(readers_of_rwlock_have_no_names),
		cmocka_unit_test(owner_is_read_again),
		cmocka_unit_test(other_futexes_are_notifications),
		cmocka_unit_test(thread_that_is_joined_is_named),
		cmocka_unit_test(sleep_has_its_length),
		cmocka_unit_test(wait_until_an_instant_has_what_is_left),
		cmocka_unit_test(descriptors_and_children_have_numbers),
		cmocka_unit_test(calls_alone_have_a_kind),
		cmocka_unit_test(wait_that_is_over_is_not_looked_into),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
