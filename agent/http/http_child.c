/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the HTTP process: gives up all rights, then serves until the
 * agent's end of the socket is closed, so also when the agent is killed. Must
 * not read a byte of a client before it is confined.
 */
#include "agent/http/http_child.h"

#include <malloc.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/children/self_child.h"
#include "agent/http/agent_source.h"
#include "agent/http/server.h"
#include "ringbuf/base/fd_message.h"

/* Slices, as bytes and decoded, and the stacks of threads. */
#define MEMORY_MAX_BYTES (2048ull << 20) /* on top of what is mapped */
#define FILES_MAX	 192
#define LOOK_MS		 250

/* Ends the process where there is no setup: the agent has gone. */
static int receive_setup(struct fgt_web_setup *ret_setup)
{
	const struct iovec part = { ret_setup, sizeof(*ret_setup) };
	int fd;
	ssize_t n =
		fgt_fd_message_receive(FGT_SELF_CHILD_FD, &part, 1, &fd, 1, 0);

	if (n != (ssize_t)sizeof(*ret_setup) || fd < 0)
		_exit(1);
	return fd;
}

static void serve(void)
{
	struct pollfd agent = { .fd = FGT_SELF_CHILD_FD, .events = 0 };
	static struct fgt_web_source source;
	static struct fgt_web_setup setup;
	struct fgt_web_options options = { .guard = &setup.guard,
					   .source = &source };
	struct fgt_web_server *server;

	options.listen_fd = receive_setup(&setup);
	options.state_frames = (enum fgt_state_frames)setup.state_frames;
	fgt_agent_source_init(&source, FGT_SELF_CHILD_FD);
	if (fgt_web_server_new(&options, &server) < 0)
		_exit(1);
	while (poll(&agent, 1, LOOK_MS) <= 0)
		fgt_web_server_tend(server);
	_exit(0);
}

void fgt_web_serve_if_asked(int argc, char **argv)
{
	static const struct fgt_confinement confinement = {
		.memory_bytes = MEMORY_MAX_BYTES,
		.files = FILES_MAX,
		.set_filter = fgt_syscall_filter_serve,
	};

	if (!fgt_self_child_is_asked(argc, argv, FGT_WEB_CHILD_NAME,
				     FGT_WEB_CHILD_VERB))
		return;
	tzset(); /* local times in ranges: it reads a file */
	/* Each arena takes 64 MiB of addresses. */
	mallopt(M_ARENA_MAX, 2);
	(void)fgt_confinement_enter(&confinement);
	serve();
}
