/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other users are read by row servers: with the same answers as here,
 * and never here. This program is its own server. Linked so that this process's
 * calls of the parsers are counted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/maps/maps_open.h"
#include "agent/unwind/rows/row_users.h"
#include "agent/unwind/rows/rows.h"
#include "ringbuf/base/clock.h"

#define ALICE	   1000u
#define BOB	   1001u
#define ADDRESSES  3000u
#define WAIT_MS	   2000u
#define MS_NS	   UINT64_C(1000000)
#define SHORT_NS   (200 * MS_NS) /* waits of the sampler, on a busy machine */
#define PATIENT_NS (10000 * MS_NS)

/* glibc hands the arguments of main() to constructors. */
static void __attribute__((constructor)) serve_if_asked(int argc, char **argv)
{
	fgt_rows_serve_if_asked(argc, argv);
}

/* ---- The parsers, counted --------------------------------------------------- */

static unsigned int parsed;

int __real_fgt_elf_parse(const struct fgt_elf_source *source,
			 struct fgt_elf *ret_elf);
int __wrap_fgt_elf_parse(const struct fgt_elf_source *source,
			 struct fgt_elf *ret_elf);
int __wrap_fgt_elf_parse(const struct fgt_elf_source *source,
			 struct fgt_elf *ret_elf)
{
	parsed++;
	return __real_fgt_elf_parse(source, ret_elf);
}

int __real_fgt_elf_source_read(const struct fgt_elf_source *source,
			       uint64_t offset, void *buffer, size_t len);
int __wrap_fgt_elf_source_read(const struct fgt_elf_source *source,
			       uint64_t offset, void *buffer, size_t len);
int __wrap_fgt_elf_source_read(const struct fgt_elf_source *source,
			       uint64_t offset, void *buffer, size_t len)
{
	parsed++;
	return __real_fgt_elf_source_read(source, offset, buffer, len);
}

int __real_fgt_cfi_table_load(const struct fgt_elf *elf,
			      const struct fgt_elf_source *source,
			      size_t whole_max, struct fgt_cfi_table **ret);
int __wrap_fgt_cfi_table_load(const struct fgt_elf *elf,
			      const struct fgt_elf_source *source,
			      size_t whole_max, struct fgt_cfi_table **ret);
int __wrap_fgt_cfi_table_load(const struct fgt_elf *elf,
			      const struct fgt_elf_source *source,
			      size_t whole_max, struct fgt_cfi_table **ret)
{
	parsed++;
	return __real_fgt_cfi_table_load(elf, source, whole_max, ret);
}

/* ---- Kit --------------------------------------------------------------------- */

static uint64_t now_of(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

static struct fgt_image_cache *new_served(void)
{
	struct fgt_image_cache *cache;

	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(fgt_rows_serve_cache(cache, NULL), 0);
	return cache;
}

static int add(struct fgt_image_cache *cache, const char *path, uint32_t user,
	       struct fgt_image_file **ret_file)
{
	const struct fgt_image_key key = { .user = user };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fgt_image_cache_add(cache, fd, &key, WAIT_MS, ret_file);
}

/* The address of code in the file of this program. */
static uint64_t code_of(const struct fgt_image_file *file, size_t *ret_len)
{
	const struct fgt_elf *elf = fgt_image_file_elf(file);

	for (uint32_t i = 0; i < elf->load_count; i++)
		if (elf->loads[i].is_executable) {
			*ret_len = elf->loads[i].file_size;
			return elf->loads[i].address;
		}
	fail_msg("no code");
	return 0;
}

/* Until there is an answer: the sampler asks again at each tick. */
static int find_row(struct fgt_image_file *file, uint64_t address,
		    struct fgt_cfi_row *ret_row)
{
	const struct timespec pause = { .tv_nsec = 5 * (long)MS_NS };
	uint64_t end_ns = now_of() + PATIENT_NS;
	int r;

	while ((r = fgt_image_file_find_row(file, address, ret_row)) ==
		       -EAGAIN &&
	       now_of() < end_ns)
		nanosleep(&pause, NULL);
	return r;
}

static int find_rule(struct fgt_image_file *file, uint64_t address,
		     struct fgt_cfi_rule *ret_rule)
{
	const struct timespec pause = { .tv_nsec = 5 * (long)MS_NS };
	uint64_t end_ns = now_of() + PATIENT_NS;
	int r;

	while ((r = fgt_image_file_find_rule(file, address, ret_rule)) ==
		       -EAGAIN &&
	       now_of() < end_ns)
		nanosleep(&pause, NULL);
	return r;
}

static bool is_server(const char *pid)
{
	char path[300], text[512] = "";
	FGT_AUTO(fgt_file_close) FILE *file = NULL;
	const char *rest;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file || !fgets(text, sizeof(text), file))
		return false;
	rest = strrchr(text, ')');
	return rest && sscanf(rest, ") %*c %d", &parent) == 1 &&
	       parent == getpid() && strstr(text, "(fgt-rows)");
}

/* The newest server, by its pid; 0: none other than but. */
static pid_t server_pid(pid_t but)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	pid_t found = 0;

	assert_non_null(processes);
	while ((entry = readdir(processes)))
		if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != but &&
		    is_server(entry->d_name))
			found = atoi(entry->d_name);
	closedir(processes);
	return found;
}

/* ---- Tests ------------------------------------------------------------------- */

static void assert_same_row(struct fgt_image_file *here,
			    struct fgt_image_file *there, uint64_t address)
{
	struct fgt_cfi_row wanted = { .flags = FGT_CFI_ROW_NONE }, row;
	struct fgt_image_function function, known;
	struct fgt_cfi_rule rule, copy;
	int r = fgt_image_file_find_rule(here, address, &rule);

	if (r == 0 && fgt_cfi_row_read(&rule, address, &wanted) < 0)
		wanted.flags = FGT_CFI_ROW_COMPLEX;
	if (r == 0 && rule.is_signal_frame)
		wanted.flags |= FGT_CFI_ROW_SIGNAL;
	assert_int_equal(find_row(there, address, &row), 0);
	assert_memory_equal(&row, &wanted, sizeof(row));
	assert_int_equal(
		fgt_image_file_find_function(there, address, true, &function),
		r);
	if (r < 0)
		return;
	assert_int_equal(
		fgt_image_file_find_function(here, address, true, &known), 0);
	assert_int_equal(function.start, known.start);
	assert_int_equal(function.end, known.end);
	assert_int_equal(function.saved, known.saved);
	assert_int_equal(find_rule(there, address, &copy), 0);
	assert_int_equal(copy.instructions_len, rule.instructions_len);
	assert_memory_equal(copy.instructions, rule.instructions,
			    rule.instructions_len);
	assert_memory_equal(copy.common, rule.common, rule.common_len);
}

static void server_answers_as_this_process_would(void **state)
{
	struct fgt_image_cache *local, *served = new_served();
	struct fgt_image_file *here, *there;
	uint8_t bytes[64], same[64];
	uint64_t address;
	size_t len;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&local), 0);
	assert_int_equal(add(local, "/proc/self/exe", 0, &here), 0);
	assert_int_equal(add(served, "/proc/self/exe", ALICE, &there), 0);
	assert_int_equal(fgt_image_file_elf(here)->build_id_len,
			 fgt_image_file_elf(there)->build_id_len);
	assert_memory_equal(fgt_image_file_elf(here)->build_id,
			    fgt_image_file_elf(there)->build_id,
			    fgt_image_file_elf(here)->build_id_len);
	address = code_of(here, &len);
	assert_int_equal(code_of(there, &len), address);
	for (size_t i = 0; i < ADDRESSES; i++)
		assert_same_row(here, there, address + i * len / ADDRESSES);
	assert_int_equal(fgt_image_file_read(here, address, bytes, 64), 64);
	for (int i = 0;
	     i < 1000 && fgt_image_file_read(there, address, same, 64) != 64;
	     i++)
		usleep(5000);
	assert_memory_equal(same, bytes, 64);
	fgt_image_file_put(here);
	fgt_image_file_put(there);
	fgt_image_cache_free(local);
	fgt_image_cache_free(served);
}

static void served_file_is_never_read_here(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *file;
	struct fgt_cfi_row row;
	struct fgt_cfi_rule rule;
	uint8_t bytes[FGT_IMAGE_PAGE_BYTES];
	size_t len;

	(void)state;
	parsed = 0;
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &file), 0);
	assert_int_equal(find_row(file, code_of(file, &len) + len / 2, &row),
			 0);
	(void)find_rule(file, code_of(file, &len) + len / 2, &rule);
	assert_int_equal(fgt_image_file_read_head(file, WAIT_MS, bytes), 0);
	assert_memory_equal(bytes, "\177ELF", 4);
	assert_int_equal(fgt_image_file_read_page(file, WAIT_MS, 1, bytes,
						  &(uint32_t){ 0 }),
			 0);
	assert_int_equal(parsed, 0);
	fgt_image_file_put(file);
	fgt_image_cache_free(cache);
}

static void users_share_no_file(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *first, *second, *again;

	(void)state;
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &first), 0);
	assert_int_equal(add(cache, "/proc/self/exe", BOB, &second), 0);
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &again), 0);
	assert_ptr_equal(again, first);
	assert_int_not_equal(fgt_image_file_serial(first),
			     fgt_image_file_serial(second));
	assert_int_not_equal(server_pid(server_pid(0)), 0);
	fgt_image_file_put(first);
	fgt_image_file_put(second);
	fgt_image_file_put(again);
	fgt_image_cache_free(cache);
}

static void file_that_is_no_elf_is_refused(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *file;

	(void)state;
	assert_int_equal(add(cache, "/proc/self/maps", ALICE, &file), -ENOEXEC);
	fgt_image_cache_free(cache);
}

static void killed_server_is_started_again(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *file;
	struct fgt_cfi_row row;
	uint64_t address;
	pid_t first;
	size_t len;

	(void)state;
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &file), 0);
	address = code_of(file, &len) + len / 2;
	first = server_pid(0);
	assert_int_equal(find_row(file, address, &row), 0);
	kill(first, SIGKILL);
	assert_int_equal(find_row(file, address + 1, &row), 0);
	assert_int_not_equal(server_pid(0), first);
	fgt_image_file_put(file);
	fgt_image_cache_free(cache);
}

static void server_that_does_not_answer_delays_no_other_user(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *stuck, *other;
	uint64_t address, begin_ns, late;
	struct fgt_cfi_row row;
	pid_t server;
	size_t len;

	(void)state;
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &stuck), 0);
	server = server_pid(0);
	assert_int_equal(add(cache, "/proc/self/exe", BOB, &other), 0);
	address = code_of(stuck, &len) + len / 2;
	kill(server, SIGSTOP);
	late = *fgt_image_cache_late(cache);
	begin_ns = now_of();
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(
			fgt_image_file_find_row(stuck, address + i, &row),
			-EAGAIN);
	assert_true(now_of() - begin_ns < SHORT_NS);
	assert_true(*fgt_image_cache_late(cache) >= late + 20);
	assert_int_equal(find_row(other, address, &row), 0);
	assert_true(now_of() - begin_ns < 4 * SHORT_NS);
	/* After a second it is killed, and the next one answers. */
	assert_int_equal(find_row(stuck, address, &row), 0);
	assert_true(now_of() - begin_ns > 900 * MS_NS);
	fgt_image_file_put(stuck);
	fgt_image_file_put(other);
	fgt_image_cache_free(cache);
}

static void image_that_servers_die_of_is_left_alone(void **state)
{
	struct fgt_image_cache *cache = new_served();
	struct fgt_image_file *file, *other;
	struct fgt_cfi_row row;
	uint64_t address;
	size_t len;

	(void)state;
	assert_int_equal(add(cache, "/proc/self/exe", ALICE, &file), 0);
	assert_int_equal(add(cache, "/bin/sh", ALICE, &other), 0);
	address = code_of(file, &len) + len / 2;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(find_row(other, code_of(other, &len), &row),
				 0);
		kill(server_pid(0), SIGSTOP);
		assert_int_equal(fgt_image_file_find_row(file, address, &row),
				 -EAGAIN);
		usleep(1100000);
		fgt_image_cache_tend(cache, now_of(), PATIENT_NS);
	}
	assert_int_equal(fgt_image_file_find_row(file, address, &row), -EAGAIN);
	assert_int_equal(find_row(other, code_of(other, &len) + 1, &row), 0);
	assert_int_equal(fgt_image_file_find_row(file, address, &row), -EAGAIN);
	fgt_image_file_put(file);
	fgt_image_file_put(other);
	fgt_image_cache_free(cache);
}

/* The servers of a user that has gone, which nothing can end. */
static pid_t leave_lost_servers(struct fgt_row_server *server)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (; server->lost_count < FGT_ROW_SERVER_LOST; server->lost_count++) {
		int fd = (int)syscall(SYS_pidfd_open, child, 0);

		assert_true(fd >= 0);
		server->lost[server->lost_count] = fd;
	}
	return child;
}

static void lost_servers_keep_no_other_user_out(void **state)
{
	struct fgt_row_servers *servers = calloc(1, sizeof(*servers));
	struct fgt_elf_source source = { .fd = open("/proc/self/exe",
						    O_RDONLY | O_CLOEXEC) };
	struct fgt_image_served file = { .user = BOB,
					 .serial = 1,
					 .source = &source };
	struct fgt_row_user *user;
	const uint8_t *bytes;
	size_t len;
	pid_t child;

	(void)state;
	assert_non_null(servers);
	pthread_mutex_init(&servers->lock, NULL);
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		pthread_mutex_init(&servers->users[i].lock, NULL);
		assert_int_equal(
			fgt_row_server_init(&servers->users[i].server, NULL),
			0);
	}
	servers->users[0].user = ALICE;
	child = leave_lost_servers(&servers->users[0].server);
	assert_int_equal(fgt_row_users_ask(servers, &file, FGT_ROWS_ELF, 0,
					   WAIT_MS, &user, &bytes, &len),
			 0);
	fgt_row_users_end(servers, user, true);
	kill(child, SIGKILL);
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++)
		fgt_row_server_done(&servers->users[i].server);
	close(source.fd);
	free(servers);
}

static void set_uid_program_is_neither_users(void **state)
{
	FGT_AUTO(fgt_fd_close) int fd = open("/proc/self", O_PATH | O_CLOEXEC);
	uint64_t user;

	(void)state;
	assert_int_equal(fgt_maps_user(fd), getuid());
	if (getuid() != 0)
		skip();
	assert_int_equal(seteuid(ALICE), 0);
	user = fgt_maps_user(fd);
	assert_int_equal(seteuid(0), 0);
	assert_true(user > UINT32_MAX);
	assert_true(fgt_maps_is_user(user, ALICE));
	assert_true(fgt_maps_is_user(user, 0));
	assert_false(fgt_maps_is_user(user, BOB));
	assert_int_equal(setresuid(ALICE, 0, 0), 0);
	assert_true(fgt_maps_user(fd) > UINT32_MAX);
	assert_true(fgt_maps_user(fd) != user);
	assert_int_equal(setresuid(0, 0, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_answers_as_this_process_would),
		cmocka_unit_test(served_file_is_never_read_here),
		cmocka_unit_test(users_share_no_file),
		cmocka_unit_test(file_that_is_no_elf_is_refused),
		cmocka_unit_test(killed_server_is_started_again),
		cmocka_unit_test(
			server_that_does_not_answer_delays_no_other_user),
		cmocka_unit_test(image_that_servers_die_of_is_left_alone),
		cmocka_unit_test(lost_servers_keep_no_other_user_out),
		cmocka_unit_test(set_uid_program_is_neither_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
