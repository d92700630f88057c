/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delivering process's own side: becomes the user whose slice it is, then
 * reads, encodes and uploads it, reports the result, and ends. Must not read
 * a byte of the slice, nor of the facts, before it has given up what the
 * daemon may do.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/children/confinement.h"
#include "agent/children/self_child.h"
#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/delivery/delivery_payload.h"
#include "agent/protocol/message.h"
#include "agent/protocol/transaction_facts.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/ring/ring.h"
#include "ringbuf/slice/slice_codec.h"
#include "ringbuf/spans/span_cut.h"
#include "upload/deliver/dispatch.h"

#define MEMORY_MAX_BYTES (2048ull << 20) /* on top of what is mapped */
#define FILE_MAX_BYTES	 (64ull << 20)
#define FILES_MAX	 128
#define CPU_MAX_S	 60

/* What came over the socket. */
struct received_order {
	struct fgt_delivery_head head;
	uint8_t body[FGT_DELIVERY_BODY_MAX];
	size_t body_len;
	struct fgt_delivery_fds fds;
	int network_error; /* why it is not in the program's network, or 0 */
};

/* ---- Receiving --------------------------------------------------------- */

/* In the order in which they were sent. */
static void take_fds(const int *fds, struct received_order *order)
{
	for (int i = 0; i < FGT_DELIVERY_FDS; i++)
		if (order->head.has_fds & 1u << i)
			order->fds.fd[i] = *fds++;
}

static int receive(struct received_order *order)
{
	const struct iovec parts[] = {
		{ &order->head, sizeof(order->head) },
		{ order->body, sizeof(order->body) },
	};
	int fds[FGT_DELIVERY_FDS];
	ssize_t n;

	order->fds = FGT_DELIVERY_FDS_NONE;
	/* MSG_TRUNC: the length that it has. */
	n = fgt_fd_message_receive(FGT_SELF_CHILD_FD, parts, 2, fds,
				   FGT_DELIVERY_FDS, MSG_TRUNC);
	if (n < (ssize_t)sizeof(order->head) ||
	    n > (ssize_t)(sizeof(order->head) + sizeof(order->body)))
		return -EBADMSG;
	order->body_len = (size_t)n - sizeof(order->head);
	take_fds(fds, order);
	return order->fds.fd[FGT_DELIVERY_DATA] < 0 ? -EBADF : 0;
}

/* ---- Becoming the user ------------------------------------------------- */

static void open_null(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fd < 0 || dup2(fd, i) < 0)
			close(i);
	if (fd > STDERR_FILENO)
		close(fd);
}

static void limit(void)
{
	fgt_confinement_limit_memory(MEMORY_MAX_BYTES);
	fgt_confinement_limit(RLIMIT_NOFILE, FILES_MAX);
	fgt_confinement_limit(RLIMIT_CORE, 0);
	fgt_confinement_limit(RLIMIT_FSIZE, FILE_MAX_BYTES);
	fgt_confinement_limit(RLIMIT_CPU, CPU_MAX_S);
}

/* While we may still: none of them comes back by an exec, either. */
static void drop_bounding_set(void)
{
	for (unsigned long capability = 0;
	     prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 } };

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/*
 * An agent that does not run as root can only deliver as its own user. It does
 * so for that user and for root.
 */
static int become(uint32_t uid, uint32_t gid)
{
	uid_t real, effective, saved;

	drop_bounding_set();
	if (geteuid() == 0) {
		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
		    setresuid(uid, uid, uid) < 0)
			return -errno;
		if (getresuid(&real, &effective, &saved) < 0 || real != uid ||
		    effective != uid || saved != uid || getegid() != gid)
			return -EPERM;
	}
	/* After setresuid(), which would set it again. */
	prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return drop_capabilities();
}

/* Before it gives up what that needs. Not its mounts: libraries that a name
 * service loads would be the program's. */
static void enter_network(struct received_order *order)
{
	int fd = order->fds.fd[FGT_DELIVERY_NET];

	if (fd >= 0 && setns(fd, CLONE_NEWNET) < 0)
		order->network_error = errno;
}

/* A directory needs no network. */
static int check_network(const struct received_order *order,
			 const char *destination, struct fgt_why *why)
{
	if (!order->network_error || *destination == '/')
		return 0;
	return fgt_why_set(why, -EPERM,
			   "the program has another network, into which "
			   "the agent may not go (%s): give the agent "
			   "CAP_SYS_ADMIN (a service: RestrictNamespaces=net "
			   "too), or deliver into a directory",
			   strerror(order->network_error));
}

static int confine(const struct fgt_delivery_head *head)
{
	/* Ignored signals are inherited; those that are left keep their
	 * defaults, so that every signal that should end this process does. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* write() fails instead */
	signal(SIGTERM, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	alarm(FGT_DELIVERY_ALARM_S);
	umask(077);
	(void)!chdir("/");
	open_null();
	limit();
	fgt_confinement_offer();
	/* Not that of the daemon, whose keys it would possess. */
	(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	return become(head->uid, head->gid);
}

/* ---- The slice --------------------------------------------------------- */

/* Copied: another process that holds the file cannot change the copy. */
static int read_data(int fd, uint8_t **ret_bytes, size_t *ret_len)
{
	FGT_AUTO(free) void *bytes = NULL;
	struct stat status;
	ssize_t n;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size <= 0 ||
	    (uint64_t)status.st_size > FGT_DELIVERY_DATA_MAX)
		return -EMSGSIZE;
	bytes = malloc((size_t)status.st_size);
	if (!bytes)
		return -ENOMEM;
	/* A memfd: neither signals nor its size cut a read short. */
	n = pread(fd, bytes, (size_t)status.st_size, 0);
	if (n != status.st_size)
		return n < 0 ? -errno : -EBADMSG;
	*ret_bytes = FGT_TAKE(bytes);
	*ret_len = (size_t)n;
	return 0;
}

static int read_file(int fd, struct fgt_ring_slice **ret_slice,
		     struct fgt_why *why)
{
	uint8_t *bytes;
	size_t len;
	int r = read_data(fd, &bytes, &len);

	if (r < 0)
		return fgt_why_set(why, r, "the slice cannot be read: %s",
				   strerror(-r));
	r = fgt_slice_decode(bytes, len, ret_slice, why);
	free(bytes);
	return r;
}

static int name(struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	const struct fgt_symbolizer_options options = {
		.demangle = FGT_DEMANGLE_FULL
	};
	int r = fgt_slice_name_states(slice, fgt_state_name);

	if (r == 0)
		r = fgt_symbolizer_new(&options, &symbolizer);
	return r < 0 ? r : fgt_symbolizer_resolve(symbolizer, slice, false);
}

/* Spans that the process reported. Damaged ones are left out: the stacks are
 * delivered all the same. */
static int add_spans(const struct received_order *order,
		     struct fgt_ring_slice *slice)
{
	int r = fgt_span_memfd_cut(order->fds.fd[FGT_DELIVERY_SPANS], NULL,
				   slice);

	return r == -ENOMEM ? r : 0;
}

/* The ring of a process that has ended, as it left it: nothing in it is
 * believed, and a fault in it ends this process only. */
static int cut_ring(const struct received_order *order,
		    struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r = fgt_ring_open(order->fds.fd[FGT_DELIVERY_DATA], &ring);

	if (r == 0)
		r = fgt_ring_cut(ring, order->head.from_ns, order->head.to_ns,
				 &slice);
	if (r == 0)
		r = add_spans(order, slice);
	if (r == 0)
		r = name(slice);
	if (r < 0)
		return fgt_why_set(why, r, "the ring cannot be cut: %s",
				   strerror(-r));
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

/* ---- The work ---------------------------------------------------------- */

/* A map in the message: the daemon has passed it on unread. ret_message lives
 * as long as the room. -ENOENT: there is none. */
static int read_facts(const struct fgt_message *message,
		      struct fgt_facts_room *room,
		      struct fgt_message **ret_message, struct fgt_why *why)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_message_get_bin(message, "facts", &bytes, &len);

	if (r == 0)
		r = fgt_message_decode(bytes, len, ret_message);
	if (r < 0 && r != -ENOENT)
		return fgt_why_set(why, r, "the facts are malformed");
	return r < 0 ? r : fgt_facts_read(*ret_message, room, why);
}

/* True if the message has one of the configuration; borrowed from it. */
static bool read_configured(const struct fgt_message *message,
			    struct fgt_destination *ret_destination)
{
	const char *text;
	uint64_t number;

#define GET_TEXT(member)                                                       \
	if (fgt_message_get_string(message, #member, &text) == 0)              \
		ret_destination->member = (char *)(uintptr_t)text;
#define GET_NUMBER(member)                                                     \
	if (fgt_message_get_uint(message, #member, &number) == 0)              \
		ret_destination->member = (uint32_t)number;
	FGT_DESTINATION_TEXTS(GET_TEXT)
	FGT_DESTINATION_NUMBERS(GET_NUMBER)
	(void)fgt_message_get_uint(message, "sequence",
				   &ret_destination->sequence);
	return ret_destination->target;
}

static int dispatch_own(const struct received_order *order,
			const struct fgt_ring_slice *slice,
			const struct fgt_message *message,
			const struct fgt_transaction_facts *facts,
			struct fgt_dispatch_outcome *outcome,
			struct fgt_why *why)
{
	struct fgt_upload_limits limits = { .ca_file = NULL };
	const char *destination;
	int r;

	if (fgt_message_get_string(message, "destination", &destination) < 0)
		return fgt_why_set(why, -EINVAL, "there is no destination");
	r = check_network(order, destination, why);
	if (r < 0)
		return r;
	limits.root_fd = order->fds.fd[FGT_DELIVERY_ROOT];
	limits.has_root = limits.root_fd >= 0;
	limits.limited = order->head.limited;
	limits.discards = &order->head.discards;
	limits.is_sentry_v1 = order->head.is_sentry_v1;
	(void)fgt_message_get_string(message, "ca_file", &limits.ca_file);
	(void)fgt_message_get_bool(message, "allow_http",
				   &limits.is_http_allowed);
	return fgt_dispatch_text(slice, destination, facts, &limits, outcome,
				 why);
}

/* Sent, or for the daemon to keep. */
static int dispatch_configured(const struct received_order *order,
			       const struct fgt_ring_slice *slice,
			       const struct fgt_destination *configured,
			       const struct fgt_transaction_facts *facts,
			       struct fgt_dispatch_outcome *outcome,
			       struct fgt_why *why)
{
	const struct fgt_format_options options = fgt_dispatch_options(facts);
	const struct fgt_upload_limits limits = {
		.limited = order->head.limited,
		.discards = &order->head.discards,
	};
	int output_fd = order->fds.fd[FGT_DELIVERY_OUTPUT];

	if (output_fd >= 0)
		return fgt_delivery_payload_encode(slice, configured, &options,
						   output_fd, outcome, why);
	return fgt_dispatch(slice, configured, &options, -1, &limits, outcome,
			    why);
}

/* What the daemon has kept. */
static int send_payload(const struct received_order *order,
			const struct fgt_message *message,
			struct fgt_dispatch_outcome *outcome,
			struct fgt_why *why)
{
	const struct fgt_upload_limits limits = {
		.limited = order->head.limited,
		.discards = &order->head.discards,
	};
	struct fgt_destination configured = { .name = NULL };

	if (!read_configured(message, &configured))
		return fgt_why_set(why, -EINVAL, "there is no destination");
	return fgt_delivery_payload_send(order->fds.fd[FGT_DELIVERY_DATA],
					 &configured, &limits, outcome, why);
}

static int dispatch(const struct received_order *order,
		    const struct fgt_ring_slice *slice,
		    const struct fgt_message *message,
		    struct fgt_dispatch_outcome *outcome, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *packed = NULL;
	static struct fgt_facts_room room;
	struct fgt_destination configured = { .name = NULL };
	const struct fgt_transaction_facts *facts = NULL;
	int r = read_facts(message, &room, &packed, why);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		facts = &room.facts;
	if (read_configured(message, &configured))
		return dispatch_configured(order, slice, &configured, facts,
					   outcome, why);
	return dispatch_own(order, slice, message, facts, outcome, why);
}

static int work(const struct received_order *order,
		struct fgt_dispatch_outcome *outcome, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int r = fgt_message_decode(order->body, order->body_len, &message);

	if (r < 0)
		return fgt_why_set(why, r, "the delivery request is malformed");
	/* The names of a ring come from a helper process, which is started
	 * before the filter. Kernels without filters run without it. */
	if (order->head.kind == FGT_DELIVERY_RING) {
		r = cut_ring(order, &slice, why);
		(void)fgt_syscall_filter_forbid();
	} else if (order->head.kind == FGT_DELIVERY_PAYLOAD) {
		(void)fgt_syscall_filter_forbid();
		return send_payload(order, message, outcome, why);
	} else {
		(void)fgt_syscall_filter_forbid();
		r = read_file(order->fds.fd[FGT_DELIVERY_DATA], &slice, why);
	}
	return r < 0 ? r : dispatch(order, slice, message, outcome, why);
}

static void answer(int error, const struct fgt_dispatch_outcome *outcome,
		   const struct fgt_why *why)
{
	struct fgt_delivery_result result = {
		.error = error,
		.retry_after_s = outcome->retry_after_s,
		.payloads = outcome->payloads,
		.is_refused = outcome->is_refused,
		.is_partial = outcome->is_partial,
		.is_reported = outcome->is_reported,
		.limits = outcome->limits,
		.category = outcome->category,
		.status = (int32_t)outcome->status,
		.bytes = outcome->bytes,
	};

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		result.limited[i] = outcome->limited[i];

	memcpy(result.event_id, outcome->event_id, sizeof(result.event_id));
	memcpy(result.where, outcome->where, sizeof(result.where));
	if (error < 0)
		memcpy(result.why, why->text, sizeof(result.why));
	(void)!send(FGT_SELF_CHILD_FD, &result, sizeof(result), MSG_NOSIGNAL);
}

/* What happens as the agent. */
static int prepare(struct received_order *order, struct fgt_why *why)
{
	int r = receive(order);

	if (r == 0) {
		enter_network(order);
		r = confine(&order->head);
	}
	return r < 0 ? fgt_why_set(why, -EAGAIN,
				   "the delivering process cannot give up the "
				   "agent's rights: %s",
				   strerror(-r))
		     : 0;
}

void fgt_delivery_serve_if_asked(int argc, char **argv)
{
	static struct received_order order;
	static struct fgt_dispatch_outcome outcome;
	struct fgt_why why = { "" };
	int r;

	if (!fgt_self_child_is_asked(argc, argv, FGT_DELIVERY_NAME,
				     FGT_DELIVERY_VERB))
		return;
	close_range(FGT_SELF_CHILD_FD + 1, ~0u, 0);
	r = prepare(&order, &why);
	if (r == 0)
		r = work(&order, &outcome, &why);
	answer(r, &outcome, &why);
	_exit(0);
}
