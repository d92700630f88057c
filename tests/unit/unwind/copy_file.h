/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a program for a test: to be replaced or deleted while it runs, or run
 * by a user that may not enter the folder of the build.
 */
#ifndef FGT_TESTS_UNIT_COPY_FILE_H
#define FGT_TESTS_UNIT_COPY_FILE_H

/* Anybody may read and run the copy. Returns 0 or -errno. */
int copy_file(const char *from, const char *to);

#endif
