/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that variables of the environment name, which every program that this
 * one starts has, too: which name is whose.
 */
#ifndef FGT_AGENT_LIB_OWN_FILE_H
#define FGT_AGENT_LIB_OWN_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The absolute path of what text names: "{pid}" and "%p" stand for the number
 * of the process, wherever they are. -ENAMETOOLONG; errno of getcwd(2).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_own_file_path(const char *text, char *ret_path, size_t size,
		      bool *ret_is_numbered);

enum fgt_own_file {
	FGT_OWN_FILE_NEW, /* this process's, from now on */
	FGT_OWN_FILE_MINE, /* already so, before an exec */
	FGT_OWN_FILE_ANOTHERS, /* of a process that has started this one */
};

/*
 * Whose the file is, by a variable of the environment that children have. Sets
 * it if there is one thread only, as before main(): the environment takes no
 * lock. Where dlopen(3) comes later children may take the file for theirs once
 * its flock(2) is free.
 *
 * MT-Unsafe | AS-Unsafe
 */
enum fgt_own_file fgt_own_file_take(const char *variable, const char *path);

#endif
