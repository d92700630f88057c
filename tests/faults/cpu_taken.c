/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes take the CPUs. */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "service.h"

#define SPINNERS 12

static void spin(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!is_faulty())
		usleep(1000);
	while (is_faulty())
		burn_us(1000);
	_exit(0);
}

static void prepare(void)
{
	for (int i = 0; i < SPINNERS; i++)
		if (fork() == 0)
			spin();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare };

	return run_service(&fault, argc, argv);
}
