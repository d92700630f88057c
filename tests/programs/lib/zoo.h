/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs share that are run plain and with a recorder inside them:
 * each prints what happened to it, and exits 1 if it was harmed. Lines that
 * begin with # may differ from run to run.
 */
#ifndef FGT_TESTS_PROGRAMS_LIB_ZOO_H
#define FGT_TESTS_PROGRAMS_LIB_ZOO_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define ZOO_NOINLINE __attribute__((noinline, noclone))

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the recorder if the environment asks for it: ZOO_START is "embedded"
 * or "agent", ZOO_LIBRARY the path of libfgtrace.so. Without: nothing, the
 * recorder is preloaded or there is none.
 */
void zoo_begin(void);
/* The same for programs where that may be refused: what fgt_start()
 * returned. */
int zoo_try_begin(void);
/* Writes what was recorded to $ZOO_OUT, stops; only if zoo_begin() started. */
void zoo_end(void);

uint64_t zoo_now_ns(void);
ZOO_NOINLINE void zoo_burn_ms(unsigned int ms);
void zoo_sleep_ms(unsigned int ms);

/* Threads that compute, with all signals open, until the process ends. */
void zoo_start_burners(unsigned int count);

/*
 * The signal that a recorder uses: one that has a handler although the program
 * has set none. Without a recorder, or without such a signal: SIGURG.
 */
int zoo_our_signal(void);

/* Sets or leaves handler of a signal: exits if that fails. */
void zoo_handle(int number, void (*handler)(int number), int flags);

/* Lines of /proc/self/FILE, or entries of that directory; 0 if unreadable. */
unsigned int zoo_count_lines(const char *path);
unsigned int zoo_count_entries(const char *path);

/* Prints "WHAT: N wrong"; true if N is not 0. */
bool zoo_note(const char *what, unsigned long wrong);

#ifdef __cplusplus
}
#endif

#endif
