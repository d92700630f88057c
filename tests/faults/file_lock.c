/* SPDX-License-Identifier: Apache-2.0 */
/* Another process holds the lock of a file. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "service.h"

static char g_path[] = "/tmp/fault-lock-XXXXXX";

static void hold(void)
{
	int fd = open(g_path, O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!is_faulty())
		usleep(1000);
	flock(fd, LOCK_EX);
	while (is_faulty())
		usleep(1000);
	unlink(g_path);
	_exit(0);
}

static void prepare(void)
{
	if (mkstemp(g_path) < 0)
		abort();
	if (fork() == 0)
		hold();
}

static STEP void lock_session(void)
{
	int fd = open(g_path, O_RDWR);

	flock(fd, LOCK_EX);
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = lock_session };

	return run_service(&fault, argc, argv);
}
