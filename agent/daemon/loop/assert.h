/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FGT_ASSERT: for the daemon and the command line, in every build: NDEBUG does
 * not take it away. Not for the ring or the library, which run in programs of
 * others: there a bug disables sampling.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_LOOP_ASSERT_H
#define FGT_AGENT_DAEMON_LOOP_ASSERT_H

/* Prints "FILE:LINE: assertion failed: EXPRESSION" to stderr and aborts. */
#define FGT_ASSERT(expression)                                                 \
	((expression)                                                          \
		 ? (void)0                                                     \
		 : fgt_assert_failed(__FILE_NAME__, __LINE__, #expression))

_Noreturn void fgt_assert_failed(const char *file, int line,
				 const char *expression);

#endif
