/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the library in agent mode. Each test has a separate
 * fake agent, which behaves well at first.
 */
#ifndef FGT_TESTS_UNIT_LIBRARY_KIT_H
#define FGT_TESTS_UNIT_LIBRARY_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/lib/fgtrace.h"
#include "tests/unit/lib/fake_agent.h"

#define LIBRARY_TIMEOUT_MS 300

/* The state is a struct fake_agent that listens. */
int library_set_up(void **state);
int library_tear_down(void **state);
#define LIBRARY_TEST(name)                                                     \
	cmocka_unit_test_setup_teardown(name, library_set_up, library_tear_down)

/* fgt_start() with that agent. */
int library_start(const struct fake_agent *agent);
struct fgt_status library_status(void);

#endif
