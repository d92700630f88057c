/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides at the end of each transaction, and queues those that are kept. Runs
 * in the program's threads, except work and give_up. Must not wait for the
 * network, for encoding, or for a lock that is held meanwhile.
 */
#include "agent/lib/transactions/transaction.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/transactions/sampling_rules.h"
#include "ringbuf/base/clock.h"

/* After this time the tick after the end is in the ring. */
#define SETTLE_NS UINT64_C(25000000)
#define SECOND_NS UINT64_C(1000000000)
/* Interval of lines about dropped transactions; doubled each time. */
#define REFUSED_FIRST_NS (10 * SECOND_NS)
#define REFUSED_MAX_NS	 (3600 * SECOND_NS)

/* The options for a finish; texts are valid until stop. */
struct terms {
	struct fgt_sampling_rules rules;
	int (*decide)(void *context, const struct fgt_transaction_info *info);
	void *context;
	enum fgt_threads threads;
	const char *destination; /* NULL: none */
	const char *release, *environment;
	uint64_t patience_ns; /* stacks of shorter ones stay in the ring */
};

static struct {
	/* Relaxed: checked again under the lock. */
	_Atomic uint64_t session;
	_Atomic uint64_t transactions, kept, dropped;
	struct fgt_sampling_limit limit;
	struct fgt_outbox outbox;

	/* Protects all below. Locks of limit and outbox nest inside. Never held
	 * while the thread waits. */
	pthread_mutex_t lock;
	uint64_t last_session;
	struct terms terms;
	/* Refused items that were logged; time of the next line, and the
	 * interval after it. */
	uint64_t logged_refused, log_refused_ns, log_pause_ns;
	uint32_t unreported; /* refused; for the report to the destination */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((constructor)) static void init_all(void)
{
	fgt_outbox_init(&all.outbox, fgt_library_wake, fgt_report_line);
	fgt_sampling_limit_init(&all.limit);
}

struct fgt_outbox *fgt_transactions_outbox(void)
{
	return &all.outbox;
}

uint64_t fgt_transactions_session(void)
{
	return fgt_library_is_started()
		       ? atomic_load_explicit(&all.session,
					      memory_order_relaxed)
		       : 0;
}

/* ---- Part of the library ----------------------------------------------- */

static int start(const struct fgt_options *options)
{
	fgt_trace_id_seed();
	pthread_mutex_lock(&all.lock);
	all.terms = (struct terms){
		.rules = { .sample_rate = options->sample_rate,
			   .min_duration_ns = options->min_duration_ns,
			   .is_error_kept = options->keep_errors != 0,
			   .min_gap_ns = options->min_gap_ns,
			   .max_per_hour = options->max_per_hour },
		.decide = options->decide,
		.context = options->context,
		.threads = options->threads,
		.destination = options->destination,
		.release = options->release,
		.environment = options->environment,
		.patience_ns = options->ring_seconds * (SECOND_NS / 3),
	};
	fgt_sampling_limit_begin(&all.limit, &all.terms.rules, fgt_now());
	atomic_store_explicit(&all.session, ++all.last_session,
			      memory_order_relaxed);
	all.logged_refused =
		atomic_load_explicit(&all.outbox.refused, memory_order_relaxed);
	all.log_refused_ns = 0;
	all.unreported = 0;
	all.log_pause_ns = REFUSED_FIRST_NS;
	fgt_outbox_open(&all.outbox);
	pthread_mutex_unlock(&all.lock);
	return 0;
}

static void stop(void)
{
	pthread_mutex_lock(&all.lock);
	/* Transactions that finish from now on have an old number. */
	all.last_session++;
	atomic_store_explicit(&all.session, all.last_session,
			      memory_order_relaxed);
	fgt_outbox_close(&all.outbox);
	pthread_mutex_unlock(&all.lock);
}

static void forked(void)
{
	pthread_mutex_init(&all.lock, NULL);
	fgt_sampling_limit_init(&all.limit);
	fgt_outbox_forget(&all.outbox);
}

static uint64_t load(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Under the lock. If the line is dropped, the next call logs it. */
static void log_refused_now(uint64_t now_ns, uint64_t count)
{
	if (!fgt_report_each(
		    "kept transactions and slices were dropped: %llu: %d or "
		    "%zu MiB wait already: check the agent and the "
		    "destination, or keep fewer (sample_rate, min_gap_ns)",
		    (unsigned long long)count, FGT_OUTBOX_MAX,
		    FGT_OUTBOX_BYTES_MAX >> 20))
		return;
	all.logged_refused += count;
	all.log_refused_ns = now_ns + all.log_pause_ns;
	if (all.log_pause_ns < REFUSED_MAX_NS)
		all.log_pause_ns *= 2;
}

/* The log has it because few programs log -ENOBUFS of a finish. */
static void log_refused(uint64_t now_ns, bool is_last)
{
	uint64_t refused;

	pthread_mutex_lock(&all.lock);
	refused = load(&all.outbox.refused);
	if (refused > all.logged_refused &&
	    (is_last || now_ns >= all.log_refused_ns))
		log_refused_now(now_ns, refused - all.logged_refused);
	pthread_mutex_unlock(&all.lock);
}

static void report_refused(void)
{
	const struct fgt_backend *backend = fgt_library.backend;
	const char *destination;
	uint32_t count;

	pthread_mutex_lock(&all.lock);
	destination = all.terms.destination;
	count = all.unreported;
	all.unreported = 0;
	pthread_mutex_unlock(&all.lock);
	if (count && destination && backend->lost)
		backend->lost(destination, FGT_DISCARD_QUEUE, count);
}

static uint64_t work(uint64_t now_ns)
{
	log_refused(now_ns, false);
	report_refused();
	return fgt_outbox_step(&all.outbox, fgt_library.backend, now_ns);
}

static bool is_idle(void)
{
	return fgt_outbox_is_empty(&all.outbox);
}

static void give_up(void)
{
	size_t count = fgt_outbox_give_up(&all.outbox);

	log_refused(0, true);
	if (count > 0)
		fgt_report(
			"fgt_stop() gave up undelivered items: %zu: they were "
			"not delivered within a second: call fgt_flush() "
			"before",
			count);
}

static void add_status(struct fgt_status *status)
{
	status->transactions = load(&all.transactions);
	status->kept = load(&all.kept);
	status->dropped = load(&all.dropped);
	status->delivered = load(&all.outbox.delivered);
	status->undelivered = load(&all.outbox.undelivered);
}

const struct fgt_part fgt_transaction_part = {
	.start = start,
	.stop = stop,
	.work = work,
	.is_idle = is_idle,
	.give_up = give_up,
	.add_status = add_status,
	.forked = forked,
};

/* ---- The end of one ---------------------------------------------------- */

static bool is_error(const struct fgt_transaction *transaction)
{
	return strcmp(transaction->status, "ok") != 0;
}

static bool ask(const struct terms *terms,
		const struct fgt_transaction *transaction)
{
	const struct fgt_transaction_info info = {
		.name = transaction->name,
		.op = transaction->op,
		.begin_ns = transaction->facts.begin_ns,
		.end_ns = transaction->facts.end_ns,
		.is_error = is_error(transaction),
		.trace_id = transaction->facts.trace_id,
	};

	return terms->decide(terms->context, &info) != 0;
}

/* Of the program, or those that the agent has for such programs? */
static bool has_destination(const struct terms *terms)
{
	return terms->destination ||
	       atomic_load_explicit(&fgt_library.has_default_destination,
				    memory_order_relaxed);
}

static bool is_kept(const struct terms *terms,
		    const struct fgt_transaction *transaction)
{
	const struct fgt_sampling_facts facts = {
		.begin_ns = transaction->facts.begin_ns,
		.end_ns = transaction->facts.end_ns,
		.is_error = is_error(transaction),
		.share = fgt_trace_id_share(transaction->facts.trace_id),
	};
	bool is_wanted;

	if (!has_destination(terms))
		return false;
	is_wanted = terms->decide
			    ? ask(terms, transaction)
			    : fgt_sampling_is_wanted(&terms->rules, &facts);
	return is_wanted &&
	       fgt_sampling_limit_take(&all.limit, &terms->rules, facts.end_ns);
}

static void free_item(struct fgt_outbox_item *item)
{
	/* The item is the first member of its transaction. */
	fgt_transaction_free((struct fgt_transaction *)item);
}

static void address(const struct terms *terms,
		    struct fgt_transaction *transaction)
{
	struct fgt_transaction_facts *facts = &transaction->facts;

	fgt_trace_id_make(facts->event_id, FGT_TRACE_ID_DIGITS);
	facts->ordered_ns = fgt_clock_ns(CLOCK_REALTIME);
	facts->release = terms->release;
	facts->environment = terms->environment;
	facts->all_threads = terms->threads == FGT_THREADS_ALL;
	facts->thread_runs = transaction->thread_runs;
	facts->thread_run_count = transaction->thread_run_count;
	transaction->item = (struct fgt_outbox_item){
		.destination = terms->destination ? terms->destination : "",
		.facts = facts,
		.due_ns = facts->end_ns + SETTLE_NS,
		.can_wait = facts->end_ns - facts->begin_ns <
			    terms->patience_ns,
		.free = free_item,
	};
}

static bool is_of_session(const struct fgt_transaction *transaction)
{
	return transaction->session ==
	       atomic_load_explicit(&all.session, memory_order_relaxed);
}

/* Under the lock, so that the texts belong to this session. */
static int hand_over(struct fgt_transaction *transaction)
{
	int r;

	pthread_mutex_lock(&all.lock);
	if (is_of_session(transaction)) {
		address(&all.terms, transaction);
		r = fgt_outbox_put(&all.outbox, &transaction->item);
		all.unreported += r == -ENOBUFS;
	} else {
		r = -ENOTCONN;
	}
	pthread_mutex_unlock(&all.lock);
	return r;
}

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* False: the transaction began before the last start. */
static bool get_terms(const struct fgt_transaction *transaction,
		      struct terms *ret_terms)
{
	bool is_current;

	pthread_mutex_lock(&all.lock);
	is_current = is_of_session(transaction);
	*ret_terms = all.terms;
	pthread_mutex_unlock(&all.lock);
	return is_current && fgt_library_is_started();
}

int fgt_transactions_finish(struct fgt_transaction *transaction)
{
	struct terms terms;
	int r = 0;

	count(&all.transactions);
	if (get_terms(transaction, &terms) && is_kept(&terms, transaction)) {
		r = hand_over(transaction);
		if (r == 0) {
			count(&all.kept);
			return 1;
		}
	}
	count(&all.dropped);
	fgt_transaction_free(transaction);
	if (fgt_library_check() == -ECHILD)
		return -ECHILD;
	return r == -ENOBUFS ? r : 0; /* else: stopped meanwhile */
}
