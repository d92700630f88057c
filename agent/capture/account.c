/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time not yet shown. Runs in the sampler's thread; must stay bounded
 * whatever the scheduler reports.
 */
#include "agent/capture/account.h"

#define ADD_MAX_NS     60000000000 /* a jump of the counters is no use */
#define MAX_TICKS      2 /* a late tick is not made up for */
#define OWN_MAX_TICKS  16 /* shown too much, not yet worked off */
#define LENT_MAX_TICKS 128

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
	int64_t runtime_ns = growth(account->seen.runtime_ns, use->runtime_ns);
	int64_t back_ns = growth(account->seen.wait_ns, use->wait_ns);

	if (back_ns > account->lent_ns)
		back_ns = account->lent_ns;
	account->lent_ns -= back_ns;
	account->due_ns += runtime_ns + back_ns;
	account->hidden_ns += runtime_ns;
	account->seen = *use;
}

bool fgt_account_take_sample(struct fgt_account *account, uint64_t period_ns)
{
	account->hidden_ns -= (int64_t)period_ns;
	/* The thread's clock may lag behind its event by a kernel's tick. */
	if (account->due_ns + account->lent_ns < -(int64_t)period_ns / 2)
		return false;
	account->due_ns -= (int64_t)period_ns;
	return true;
}

bool fgt_account_take_tick(struct fgt_account *account, uint64_t period_ns,
			   bool has_samples, bool is_first)
{
	int64_t least = (int64_t)period_ns;

	if (has_samples)
		least = least * 3 / 2;
	else if (is_first)
		least /= 2;
	if (account->due_ns < least)
		return false;
	account->due_ns -= (int64_t)period_ns;
	return true;
}

void fgt_account_lend(struct fgt_account *account, uint64_t period_ns)
{
	int64_t tick = (int64_t)period_ns;

	if (account->lent_ns >= LENT_MAX_TICKS * tick)
		return;
	account->due_ns -= tick;
	account->lent_ns += tick;
}

void fgt_account_settle(struct fgt_account *account)
{
	account->lent_ns = 0;
}

uint32_t fgt_account_take_past(struct fgt_account *account, uint64_t period_ns,
			       uint32_t most)
{
	uint32_t ticks = 0;

	while (ticks < most && account->due_ns >= (int64_t)period_ns) {
		account->due_ns -= (int64_t)period_ns;
		ticks++;
	}
	return ticks;
}

bool fgt_account_take_hidden(struct fgt_account *account, uint64_t period_ns)
{
	if (account->hidden_ns < (int64_t)period_ns * 3 / 2)
		return false;
	account->hidden_ns -= (int64_t)period_ns;
	return true;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
	if (value < least)
		return least;
	return value > most ? most : value;
}

void fgt_account_age(struct fgt_account *account, uint64_t period_ns)
{
	int64_t most = MAX_TICKS * (int64_t)period_ns;
	int64_t own = OWN_MAX_TICKS * (int64_t)period_ns;

	account->due_ns = clamp(account->due_ns, -own - account->lent_ns, most);
	account->hidden_ns = clamp(account->hidden_ns, -most, most);
}
