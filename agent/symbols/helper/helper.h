/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol helper: a process that reads ELF and DWARF of other users' files,
 * so that a hostile file costs a helper and not the daemon. This is the
 * daemon's side. The helper is the same program, executed again, so that it has
 * nothing of the daemon's memory. It limits itself: an alarm for each request,
 * memory, no open(). It ends when the daemon's end of its socket is closed, so
 * also when the daemon is killed. It is a child of the daemon: its death sends
 * SIGCHLD, and fgt_helper_stop() waits for it by its pidfd.
 *
 * MT-Unsafe for one helper | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_HELPER_HELPER_H
#define FGT_AGENT_SYMBOLS_HELPER_HELPER_H

#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/names/names.h"

#define FGT_HELPER_ADDRESSES_MAX 256 /* of one request */
#define FGT_HELPER_REPLY_MAX	 (64u << 20)
#define FGT_HELPER_CHECKSUM	 0 /* instead of an image */
#define FGT_HELPER_IDENT	 UINT64_MAX /* the same */
#define FGT_HELPER_REQUEST_MAX_S 5 /* then the helper's alarm ends it */

struct fgt_local_names;

struct fgt_helper {
	int fd; /* -1: not running */
	int pid_fd;
	uint32_t uid; /* whose programs it names: for the log */
	const char *path; /* what to execute, NULL: /proc/self/exe */
	bool is_local; /* no process: this one does the helper's work */
	struct fgt_local_names *local;
	/* Asked while a reply is waited for, unless NULL: true ends the wait,
	 * and the helper, which may have to work for seconds. */
	bool (*is_cancelled)(void *context);
	void *cancel_context;
};
#define FGT_HELPER_NONE ((struct fgt_helper){ .fd = -1, .pid_fd = -1 })

/* What travels to the helper, followed by the addresses. */
struct fgt_helper_request {
	uint64_t image; /* a number that stands for one opened image;
			 * FGT_HELPER_CHECKSUM, FGT_HELPER_IDENT: of the file
			 * that comes along */
	uint32_t address_count;
	uint32_t demangle; /* enum fgt_demangle */
	uint32_t want_dwarf; /* bool */
	uint32_t files; /* bits: which descriptors come along */
};

/* What comes back, followed by len bytes: for each address a length (4
 * bytes) and its pack of names; or a checksum (4 bytes), or a struct
 * fgt_elf_ident. */
struct fgt_helper_reply {
	int32_t error; /* 0 or a negative errno */
	uint32_t len;
};

/*
 * Asks for the names of addresses. files: the image's descriptors (taken over
 * if not NULL), NULL to use what the helper still has open. Starts a helper if
 * there is none. reply is filled with len and pack of each address. left_ms:
 * how long the caller will wait; reduced by the time that this took.
 *
 * -ENOENT the helper does not have the image open: ask again with files;
 * -ENOEXEC, -EBADMSG the file is not understood; -EPIPE the helper died or ran
 * out of memory, -ETIMEDOUT it took too long (both: it is gone); -ENOMEM here;
 * -EAGAIN no helper could be started; -ETIME left_ms is used up, which is no
 * fault of the file, -ECANCELED (both: the helper is gone).
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_helper_ask(struct fgt_helper *helper,
		   const struct fgt_helper_request *request,
		   const uint64_t *addresses, struct fgt_image_files *files,
		   int64_t *left_ms, struct fgt_memory_sink *reply);

/*
 * Asks for the checksum of a file (checksum.h). Errors of fgt_helper_ask() and
 * fgt_checksum_read().
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_helper_checksum(struct fgt_helper *helper, int fd, int64_t *left_ms,
			struct fgt_memory_sink *reply, uint32_t *ret_crc);

/*
 * Asks for the identity of a file (elf_ident.h). Errors of fgt_helper_ask() and
 * fgt_elf_ident_read().
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_helper_ident(struct fgt_helper *helper, int fd, int64_t *left_ms,
		     struct fgt_memory_sink *reply,
		     struct fgt_elf_ident *ret_ident);

/* Ends the helper. */
void fgt_helper_stop(struct fgt_helper *helper);

/*
 * Runs the helper; returns only if these are not the arguments of a helper. A
 * program that resolves names calls this first in main(), while it has no other
 * thread.
 */
void fgt_helper_serve_if_asked(int argc, char **argv);

/* How a helper is started. */
#define FGT_HELPER_NAME "fgt-symbols"
#define FGT_HELPER_VERB "symbol-helper"

/* ---- Without a helper process ------------------------------------------- */

/* Larger files are named by their symbols only: reading DWARF takes a multiple
 * of this in memory. */
#define FGT_LOCAL_DWARF_MAX (64u << 20)

/*
 * Does what fgt_helper_ask() does, without a helper process and its errors: in
 * a program that names its own frames no child may be made (children are the
 * program's to wait for), and its files have its trust already. *names, which
 * has one image open at a time, is made when it is needed.
 */
int fgt_local_names_ask(struct fgt_local_names **names,
			const struct fgt_helper_request *request,
			const uint64_t *addresses,
			struct fgt_image_files *files, int64_t *left_ms,
			struct fgt_memory_sink *reply);

void fgt_local_names_free(struct fgt_local_names *names);

#endif
