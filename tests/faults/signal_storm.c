/* SPDX-License-Identifier: Apache-2.0 */
/* A timer sends signals whose handler takes most of the time. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "service.h"

static STEP void on_alarm(int number)
{
	(void)number;
	burn_us(700);
}

static STEP void arm_timer(void)
{
	const struct sigaction action = { .sa_handler = on_alarm,
					  .sa_flags = SA_RESTART };
	const struct itimerspec each = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	sigaction(SIGALRM, &action, NULL);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &each, NULL);
	while (is_faulty())
		usleep(1000);
	timer_delete(timer);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = arm_timer,
					    .actor = "timers" };

	return run_service(&fault, argc, argv);
}
