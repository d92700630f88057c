/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time, and time spent waiting for a CPU, not yet shown. Runs in the
 * sampler's thread; must stay bounded whatever the scheduler reports.
 */
#include "agent/capture/look/look.h"

#define ADD_MAX_NS 60000000000 /* a jump of the counters is no use */
/* Ticks fall into a thread's runs by chance: wide enough that chance evens
 * out before it is cut off. */
#define DEBT_MAX_TICKS 3
#define DUE_MAX_TICKS  16

void fgt_account_start(struct fgt_account *account,
		       const struct fgt_cpu_use *use)
{
	*account = (struct fgt_account){ .seen = *use };
}

static int64_t growth(uint64_t before, uint64_t after)
{
	uint64_t grown = after - before;

	if (after < before)
		return 0;
	return grown > ADD_MAX_NS ? ADD_MAX_NS : (int64_t)grown;
}

void fgt_account_add(struct fgt_account *account, const struct fgt_cpu_use *use)
{
	account->due_ns += growth(account->seen.runtime_ns, use->runtime_ns);
	account->wait_due_ns += growth(account->seen.wait_ns, use->wait_ns);
	account->seen = *use;
}

void fgt_account_add_wait(struct fgt_account *account, uint64_t before_ns,
			  uint64_t after_ns)
{
	account->wait_due_ns += growth(before_ns, after_ns);
}

bool fgt_account_take_tick(struct fgt_account *account, uint64_t period_ns)
{
	bool is_paid = account->due_ns >= -DEBT_MAX_TICKS * (int64_t)period_ns;

	if (is_paid)
		account->due_ns -= (int64_t)period_ns;
	return is_paid;
}

bool fgt_account_is_overdue(const struct fgt_account *account,
			    uint64_t period_ns)
{
	return account->due_ns >= DEBT_MAX_TICKS * (int64_t)period_ns;
}

/* Half a tick is rounded up: what is left over stays on the account. */
bool fgt_account_take_wait(struct fgt_account *account, uint64_t period_ns)
{
	if (account->wait_due_ns < (int64_t)period_ns / 2 ||
	    account->wait_due_ns <= account->due_ns)
		return false;
	account->wait_due_ns -= (int64_t)period_ns;
	return true;
}

bool fgt_account_take_woken(struct fgt_account *account, uint64_t period_ns)
{
	bool is_paid = account->wait_due_ns >=
		       -DEBT_MAX_TICKS * (int64_t)period_ns;

	if (is_paid)
		account->wait_due_ns -= (int64_t)period_ns;
	return is_paid;
}

uint32_t fgt_account_take_waits(struct fgt_account *account, uint64_t period_ns,
				uint32_t ticks)
{
	int64_t due_ns = account->wait_due_ns + (int64_t)period_ns / 2;
	uint64_t paid = due_ns > 0 ? (uint64_t)due_ns / period_ns : 0;

	if (ticks > paid)
		ticks = (uint32_t)paid;
	account->wait_due_ns -= (int64_t)(ticks * period_ns);
	return ticks;
}

void fgt_account_move_tick(struct fgt_account *account, uint64_t period_ns,
			   bool is_waiting)
{
	int64_t moved_ns = is_waiting ? (int64_t)period_ns
				      : -(int64_t)period_ns;

	account->due_ns += moved_ns;
	account->wait_due_ns -= moved_ns;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
	if (value < least)
		return least;
	return value > most ? most : value;
}

void fgt_account_age(struct fgt_account *account, uint64_t period_ns)
{
	int64_t tick = (int64_t)period_ns;

	account->due_ns = clamp(account->due_ns, -(DEBT_MAX_TICKS + 1) * tick,
				DUE_MAX_TICKS * tick);
	account->wait_due_ns = clamp(account->wait_due_ns,
				     -(DEBT_MAX_TICKS + 1) * tick,
				     DUE_MAX_TICKS * tick);
}
