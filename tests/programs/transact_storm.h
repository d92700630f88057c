/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many transactions at once; for transact.c.
 */
#ifndef TESTS_PROGRAMS_TRANSACT_STORM_H
#define TESTS_PROGRAMS_TRANSACT_STORM_H

void nap_for_it(long ms); /* of transact.c */

/* So many transactions of so many ms; prints the results in one line. */
void run_storm(int requests, long ms);

#endif
