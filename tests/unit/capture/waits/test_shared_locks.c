/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of locks that are threads of other processes, or that the target
 * calls by other numbers. */
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "agent/capture/waits/waits.h"

#define SELF	 7
#define OTHER	 1000007 /* a thread of another process */
#define NUMBER	 3 /* what the target calls NUMBERED */
#define NUMBERED 1000003
#define SHARED	 0x80 /* bit of a mutex's kind */

static bool read_own(void *context, uint64_t address, void *buffer, size_t len)
{
	(void)context;
	memcpy(buffer, (const void *)(uintptr_t)address, len);
	return true;
}

static int32_t find_thread(void *context, int32_t number, bool is_shared)
{
	(void)context;
	if (number == OTHER)
		return is_shared ? OTHER : 0;
	return number == NUMBER ? NUMBERED : 0;
}

static int32_t holder_of(const void *futex, uint32_t word)
{
	const uint64_t args[6] = { (uint64_t)(uintptr_t)futex, FUTEX_WAIT,
				   word };
	const struct fgt_wait_source source = { .tid = SELF,
						.read = read_own,
						.find_thread = find_thread };
	struct fgt_wait wait;

	fgt_wait_decode(SYS_futex, args, &source, &wait);
	return wait.owner_tid;
}

static int32_t owner_of(uint32_t kind, const void *futex)
{
	const struct fgt_wait wait = { .kind = kind,
				       .address = (uint64_t)(uintptr_t)futex };
	const struct fgt_wait_source source = { .tid = SELF,
						.read = read_own,
						.find_thread = find_thread };

	return fgt_wait_read_owner(&wait, &source);
}

/* As a second thread finds it that waits. */
static pthread_mutex_t take_mutex(int32_t owner, int kind)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	mutex.__data.__lock = 2;
	mutex.__data.__nusers = 1;
	mutex.__data.__owner = owner;
	mutex.__data.__kind = kind;
	return mutex;
}

static void only_a_shared_lock_is_held_by_another_process(void **state)
{
	pthread_mutex_t mutex = take_mutex(OTHER, 0);
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	(void)state;
	assert_int_equal(holder_of(&mutex, 2), 0);
	mutex.__data.__kind = SHARED;
	assert_int_equal(holder_of(&mutex, 2), OTHER);
	mutex.__data.__kind = SHARED | PTHREAD_MUTEX_ROBUST_NP << 4;
	mutex.__data.__lock = (int)(OTHER | FUTEX_WAITERS);
	assert_int_equal(holder_of(&mutex, OTHER | FUTEX_WAITERS), OTHER);
	/* likewise when it is read again */
	assert_int_equal(owner_of(FGT_WAIT_PI_LOCK, &mutex), OTHER);
	mutex.__data.__kind &= ~SHARED;
	assert_int_equal(owner_of(FGT_WAIT_PI_LOCK, &mutex), 0);
	lock.__data.__cur_writer = OTHER;
	lock.__data.__wrphase_futex = 3;
	assert_int_equal(holder_of(&lock.__data.__wrphase_futex, 3), 0);
	lock.__data.__shared = 1;
	assert_int_equal(holder_of(&lock.__data.__wrphase_futex, 3), OTHER);
}

static void a_holder_has_another_number_in_a_namespace(void **state)
{
	pthread_mutex_t mutex = take_mutex(NUMBER, 0);

	(void)state;
	assert_int_equal(holder_of(&mutex, 2), NUMBERED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_shared_lock_is_held_by_another_process),
		cmocka_unit_test(a_holder_has_another_number_in_a_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
