/* SPDX-License-Identifier: Apache-2.0 */
/* Workers wait for a plan that one thread makes. */
#include <unistd.h>

#include "service.h"

static pthread_mutex_t g_plan_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_plan_made = PTHREAD_COND_INITIALIZER;
static unsigned int g_plans;

static STEP void compute_plan(void)
{
	burn_us(200000);
}

static void make_plans(void)
{
	while (is_faulty()) {
		compute_plan();
		pthread_mutex_lock(&g_plan_lock);
		g_plans++;
		pthread_cond_broadcast(&g_plan_made);
		pthread_mutex_unlock(&g_plan_lock);
	}
}

static STEP void await_plan(void)
{
	unsigned int seen;

	pthread_mutex_lock(&g_plan_lock);
	seen = g_plans;
	while (seen == g_plans)
		pthread_cond_wait(&g_plan_made, &g_plan_lock);
	pthread_mutex_unlock(&g_plan_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .handle = await_plan,
					    .act = make_plans,
					    .actor = "planner" };

	return run_service(&fault, argc, argv);
}
