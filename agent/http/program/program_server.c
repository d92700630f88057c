/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server inside a program. Runs in its threads and in those of
 * connections; must not touch signals, descriptors or the locale of the
 * program.
 */
#include "agent/http/program/program_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/http/address.h"
#include "agent/http/server.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/thread.h"
#include "ringbuf/slice/slice_codec.h"

#define TEND_NS	    (&(struct timespec){ .tv_nsec = 500000000 })
#define STACK_BYTES ((size_t)64 << 10)
#define MS_NS	    UINT64_C(1000000)
#define LOOK_MS	    60000

static struct {
	pthread_mutex_t lock; /* of all of it, but is_ending */
	struct fgt_web_server *server; /* NULL: none */
	struct fgt_web_source source;
	int listen_fd;
	struct fgt_file_id listened; /* of listen_fd */
	pthread_t tender;
	atomic_bool is_ending;
} site = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Slices -------------------------------------------------------------- */

static int check_target(const struct fgt_web_cut *cut, struct fgt_why *why)
{
	if ((cut->choice.pid && cut->choice.pid != getpid()) ||
	    (cut->choice.name &&
	     strcmp(cut->choice.name, program_invocation_short_name) != 0))
		return fgt_why_set(
			why, -ESRCH,
			"no such target: this is the server of %.60s "
			"(%d) alone",
			program_invocation_short_name, getpid());
	return 0;
}

static uint64_t to_mono(const struct fgt_time *time, const struct fgt_now *now)
{
	return fgt_time_is_wall(time) ? fgt_wall_to_mono(NULL, 0, now, time->ns)
				      : time->ns;
}

static int resolve(const struct fgt_range *range, uint64_t *ret_from_ns,
		   uint64_t *ret_to_ns, struct fgt_why *why)
{
	uint64_t from_ns, to_ns;
	struct fgt_now now;

	fgt_now_read(&now);
	to_ns = range->has_to ? to_mono(&range->to, &now) : now.mono_ns;
	from_ns = range->has_from	   ? to_mono(&range->from, &now)
		  : to_ns > range->last_ns ? to_ns - range->last_ns
					   : 0;
	if (from_ns > to_ns)
		return fgt_why_set(why, -EINVAL,
				   "bad from: it is after to: exchange them");
	*ret_from_ns = from_ns;
	*ret_to_ns = to_ns;
	return 0;
}

/* -ECANCELED: the client has gone meanwhile. */
static int wait_until(uint64_t ns, int client_fd)
{
	struct pollfd client = { .fd = client_fd, .events = POLLRDHUP };
	uint64_t now_ns;

	while ((now_ns = fgt_clock_ns(CLOCK_MONOTONIC)) < ns) {
		uint64_t left_ms = (ns - now_ns) / MS_NS + 1;

		if (poll(&client, 1,
			 left_ms < LOOK_MS ? (int)left_ms : LOOK_MS) > 0)
			return -ECANCELED;
	}
	return 0;
}

static int write_thread(const uint8_t *bytes, size_t len, int32_t tid,
			const struct fgt_sink *to, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *whole = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	int r = fgt_slice_decode(bytes, len, &whole, why);

	if (r == 0)
		r = fgt_slice_narrow(whole, 0, UINT64_MAX, tid, &part);
	return r < 0 ? r : fgt_slice_encode(part, to);
}

static int explain(int error, struct fgt_why *why)
{
	if (why->text[0] || error == -EMSGSIZE)
		return error;
	return fgt_why_set(why, error, "%s",
			   error == -ENODATA
				   ? "no data in range: ask for a time within "
				     "the ring's"
			   : error == -ENOTCONN
				   ? "this program does not record: it has to "
				     "call fgt_start()"
				   : strerror(-error));
}

static int cut_slice(void *context, const struct fgt_web_cut *cut,
		     const struct fgt_sink *to, struct fgt_why *why)
{
	const struct fgt_web_program *program = context;
	FGT_AUTO(free) void *bytes = NULL;
	uint64_t from_ns, to_ns;
	uint8_t *cut_bytes;
	size_t len;
	int r = check_target(cut, why);

	if (r == 0)
		r = resolve(&cut->range, &from_ns, &to_ns, why);
	if (r == 0)
		r = wait_until(to_ns, cut->client_fd);
	if (r == 0)
		r = program->cut(from_ns, to_ns, &cut_bytes, &len);
	if (r < 0)
		return explain(r, why);
	bytes = cut_bytes;
	r = cut->tid ? write_thread(bytes, len, cut->tid, to, why)
		     : fgt_sink_write(to, bytes, len);
	return r < 0 ? explain(r, why) : 0;
}

/* ---- Beginning and end --------------------------------------------------- */

static void *tend(void *context)
{
	while (!atomic_load_explicit(&site.is_ending, memory_order_relaxed)) {
		fgt_web_server_tend(context);
		(void)nanosleep(TEND_NS, NULL);
	}
	return NULL;
}

static int start(int listen_fd, const struct fgt_web_guard *guard)
{
	const struct fgt_web_options options = {
		.listen_fd = listen_fd,
		.guard = guard,
		.source = &site.source,
	};
	struct fgt_fd_fill fill;
	int r;

	fgt_fd_fill_begin(&fill); /* libmicrohttpd opens an eventfd */
	r = fgt_web_server_new(&options, &site.server);
	fgt_fd_fill_end(&fill);
	if (r < 0)
		return r;
	atomic_store_explicit(&site.is_ending, false, memory_order_relaxed);
	r = fgt_thread_start(STACK_BYTES, tend, site.server, &site.tender);
	if (r < 0)
		fgt_web_server_free(FGT_TAKE(site.server));
	return r;
}

static int listen_locked(const char *text,
			 const struct fgt_web_program *program,
			 struct fgt_why *why)
{
	struct fgt_web_address address, bound;
	struct fgt_web_guard guard = { .token = "" };
	int fd, r;

	if (site.server)
		return fgt_why_set(why, -EALREADY,
				   "this program serves HTTP already: end that "
				   "with fgt_http_listen(NULL)");
	r = fgt_web_address_parse(text, &address, why);
	if (r == 0 && !address.is_loopback)
		r = fgt_why_set(why, -EINVAL,
				"fgt_http_listen: '%.60s' is no loopback "
				"address: use 127.0.0.1, or an agent",
				text);
	if (r == 0)
		r = fgt_web_address_listen(&address, &fd, &bound, why);
	if (r < 0)
		return r;
	fgt_fd_apart_begin();
	fd = fgt_fd_apart(fd);
	guard.port = fgt_web_address_port(&bound);
	site.source = (struct fgt_web_source){
		.cut = cut_slice,
		.context = (void *)(uintptr_t)program,
	};
	r = start(fd, &guard);
	if (r < 0) {
		fgt_fd_close(fd);
		return fgt_why_set(why, r,
				   "cannot serve HTTP: %s: raise "
				   "ulimit -u",
				   strerror(-r));
	}
	site.listen_fd = fd;
	(void)fgt_file_id_get(fd, &site.listened);
	return 0;
}

static int listen_on(const char *address, const struct fgt_web_program *program,
		     struct fgt_why *why)
{
	int r;

	pthread_mutex_lock(&site.lock);
	r = listen_locked(address, program, why);
	pthread_mutex_unlock(&site.lock);
	return r;
}

static void stop(void)
{
	pthread_mutex_lock(&site.lock);
	if (site.server) {
		atomic_store_explicit(&site.is_ending, true,
				      memory_order_relaxed);
		pthread_join(site.tender, NULL);
		fgt_web_server_free(FGT_TAKE(site.server));
	}
	pthread_mutex_unlock(&site.lock);
}

static void forked(void)
{
	pthread_mutex_init(&site.lock, NULL);
	/* Unless the program has closed it, and the number is its own file's. */
	if (site.server && fgt_file_id_is(&site.listened, site.listen_fd))
		fgt_fd_close(site.listen_fd);
	site.server = NULL;
}

__attribute__((visibility("default"))) const struct fgt_web_operations *
fgt_web_object(void)
{
	static const struct fgt_web_operations operations = {
		.version = FGT_WEB_OBJECT_VERSION,
		.listen = listen_on,
		.stop = stop,
		.forked = forked,
	};

	return &operations;
}
