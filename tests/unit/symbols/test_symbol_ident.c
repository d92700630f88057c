/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of fgt_helper_ident(): the helper reads identities of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/symbols/helper/helper.h"

static struct fgt_elf_ident own_ident;

static int open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void helper_reads_what_this_process_would_read(void **state)
{
	struct fgt_helper helper = FGT_HELPER_NONE;
	struct fgt_memory_sink reply;
	struct fgt_elf_ident ident;
	int64_t left_ms = 5000;
	int fd = open_self(), other = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	fgt_memory_sink_init(&reply, FGT_HELPER_REPLY_MAX);
	assert_int_equal(
		fgt_helper_ident(&helper, fd, &left_ms, &reply, &ident), 0);
	assert_memory_equal(&ident, &own_ident, sizeof(ident));
	assert_true(fgt_helper_ident(&helper, other, &left_ms, &reply, &ident) <
		    0);
	/* It is the caller's still. */
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	fgt_helper_stop(&helper);
	fgt_memory_sink_done(&reply);
	close(other);
	close(fd);
}

/* The answer of a helper that sent this. */
static int ask_liar(const struct fgt_elf_ident *sent)
{
	const struct fgt_helper_reply head = { .len = sizeof(*sent) };
	struct fgt_helper helper = FGT_HELPER_NONE;
	struct fgt_memory_sink reply;
	struct fgt_elf_ident ident;
	int64_t left_ms = 1000;
	int pair[2], error, fd = open_self();

	fgt_memory_sink_init(&reply, FGT_HELPER_REPLY_MAX);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(write(pair[1], &head, sizeof(head)), sizeof(head));
	assert_int_equal(write(pair[1], sent, sizeof(*sent)), sizeof(*sent));
	helper.fd = pair[0];
	error = fgt_helper_ident(&helper, fd, &left_ms, &reply, &ident);
	fgt_helper_stop(&helper);
	fgt_memory_sink_done(&reply);
	close(pair[1]);
	close(fd);
	return error;
}

static void identities_that_none_can_have_are_refused(void **state)
{
	struct fgt_elf_ident ident = own_ident;

	(void)state;
	assert_int_equal(ask_liar(&ident), 0);
	ident.build_id_len = sizeof(ident.build_id) + 1;
	assert_int_equal(ask_liar(&ident), -EBADMSG);
	ident = own_ident;
	memset(ident.altlink, 'x', sizeof(ident.altlink));
	assert_int_equal(ask_liar(&ident), -EBADMSG);
	ident = own_ident;
	memcpy(ident.debuglink, "../x", 5);
	assert_int_equal(ask_liar(&ident), -EBADMSG);
	ident = own_ident;
	memset(&ident.has_symtab, 7, 1);
	assert_int_equal(ask_liar(&ident), -EBADMSG);
}

static int read_own(void **state)
{
	int fd = open_self(), error;

	(void)state;
	error = fgt_elf_ident_read(fd, &own_ident);
	close(fd);
	return error;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(helper_reads_what_this_process_would_read),
		cmocka_unit_test(identities_that_none_can_have_are_refused),
	};

	return cmocka_run_group_tests(tests, read_own, NULL);
}
