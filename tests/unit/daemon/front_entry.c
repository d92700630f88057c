/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a test program be its own front, as fgtrace-agent is; by another name it
 * is one that lies. Runs before main() of tests; must do nothing in a test that
 * is none.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "agent/daemon/front/front.h"
#include "agent/daemon/requests/fronts.h"
#include "ringbuf/base/fd_message.h"
#include "tests/unit/daemon/front_lies.h"

static size_t fill(uint8_t lie, struct fgt_request *request)
{
	memset(request, 0, sizeof(*request));
	request->verb = FGT_REQUEST_SLICE;
	switch (lie) {
	case FRONT_LIES_VERB:
		request->verb = 4711;
		return sizeof(*request);
	case FRONT_LIES_SIZE:
		return fgt_request_size(FGT_REQUEST_SLICE) - 1;
	case FRONT_LIES_TEXT:
		memset(request->slice.selector.name, 'x',
		       sizeof(request->slice.selector.name));
		break;
	case FRONT_LIES_LATER:
		request->verb = FGT_REQUEST_DELIVER;
		break;
	case FRONT_LIES_END:
		_exit(0);
	default:
		break;
	}
	return fgt_request_size(request->verb);
}

/* A descriptor comes with each answer. */
static void answer(const struct fgt_request *request, size_t len)
{
	const struct iovec part = { (void *)(uintptr_t)request, len };
	const int fd = STDIN_FILENO;

	if (fgt_fd_message_send(FGT_SELF_CHILD_FD, &part, 1, &fd, 1, 0) < 0)
		_exit(1);
}

static void lie(void)
{
	static struct fgt_request request;
	struct {
		struct fgt_front_head head;
		uint8_t bytes[64];
	} got;
	size_t len;

	while (recv(FGT_SELF_CHILD_FD, &got, sizeof(got), 0) > 0) {
		len = fill(got.bytes[0], &request);
		answer(&request, len);
		if (got.bytes[0] == FRONT_LIES_TWICE)
			answer(&request, len);
	}
	_exit(0);
}

/* glibc hands the arguments of main() to constructors. */
static void __attribute__((constructor)) serve_if_asked(int argc, char **argv)
{
	char path[512];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[len > 0 ? len : 0] = '\0';
	if (argc == 2 && strcmp(argv[0], FGT_FRONT_NAME) == 0 &&
	    strstr(path, FRONT_LIAR))
		lie();
	fgt_front_serve_if_asked(argc, argv);
}
