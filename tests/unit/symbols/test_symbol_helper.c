/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of agent/symbols/helper and of what it protects from: helpers that
 * die or lie, files that are broken in every way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/symbols/helper/helper.h"
#include "tests/unit/symbols/symbols_kit.h"

#define SHAPE FGT_PROGRAMS "/shapes-plain"

static char folder[] = "/tmp/fgt-helper-XXXXXX";

/* A helper whose other end has already written this, and then stays or ends. */
static int ask_liar(const void *sent, size_t len, bool stays, int64_t left_ms)
{
	const struct fgt_helper_request request = { .image = 1,
						    .address_count = 1 };
	struct fgt_memory_sink reply;
	struct fgt_helper helper = FGT_HELPER_NONE;
	uint64_t address = 4096;
	int pair[2], error;

	fgt_memory_sink_init(&reply, FGT_HELPER_REPLY_MAX);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	if (len)
		assert_int_equal(write(pair[1], sent, len), len);
	if (!stays)
		assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	helper.fd = pair[0];
	error = fgt_helper_ask(&helper, &request, &address, NULL, &left_ms,
			       &reply);
	if (error == -EPIPE)
		assert_int_equal(helper.fd, -1);
	fgt_helper_stop(&helper);
	fgt_fd_close(pair[1]);
	fgt_memory_sink_done(&reply);
	return error;
}

static void helper_that_died_or_lies_is_stopped(void **state)
{
	const struct fgt_helper_reply huge = { .len = UINT32_MAX };
	const struct fgt_helper_reply cheerful = { .error = 7 };
	const struct fgt_helper_reply starved = { .error = -ENOMEM };
	const struct fgt_helper_reply refusal = { .error = -ENOEXEC };
	const struct fgt_helper_reply promise = { .len = 100 };

	(void)state;
	assert_int_equal(ask_liar(NULL, 0, false, 60000), -EPIPE);
	assert_int_equal(ask_liar(&huge, sizeof(huge), true, 60000), -EPIPE);
	assert_int_equal(ask_liar(&cheerful, sizeof(cheerful), true, 60000),
			 -EPIPE);
	assert_int_equal(ask_liar(&starved, sizeof(starved), true, 60000),
			 -EPIPE);
	assert_int_equal(ask_liar(&promise, sizeof(promise), false, 60000),
			 -EPIPE);
	assert_int_equal(ask_liar(&promise, 3, false, 60000), -EPIPE);
	assert_int_equal(ask_liar(&refusal, sizeof(refusal), true, 60000),
			 -ENOEXEC);
}

static void a_helper_that_is_slow_gets_no_more_than_its_time(void **state)
{
	const struct fgt_helper_reply promise = { .len = 100 };

	(void)state;
	assert_int_equal(ask_liar(NULL, 0, true, 20), -ETIME);
	assert_int_equal(ask_liar(&promise, sizeof(promise), true, 20), -ETIME);
	assert_int_equal(ask_liar(NULL, 0, true, 0), -ETIME);
}

/* Kills the helper between two requests: the caller does not notice. */
static void a_helper_that_is_killed_is_replaced(void **state)
{
	const struct fgt_helper_request request = { .image = 1,
						    .address_count = 1 };
	struct fgt_helper helper = FGT_HELPER_NONE;
	struct fgt_memory_sink reply;
	const uint64_t address = 4096;
	int64_t left_ms = 60000;

	(void)state;
	fgt_memory_sink_init(&reply, FGT_HELPER_REPLY_MAX);
	for (int i = 0; i < 3; i++) {
		siginfo_t info;

		assert_int_equal(fgt_helper_ask(&helper, &request, &address,
						NULL, &left_ms, &reply),
				 -ENOENT);
		assert_int_equal(syscall(SYS_pidfd_send_signal, helper.pid_fd,
					 SIGKILL, NULL, 0),
				 0);
		assert_int_equal(waitid(P_PIDFD, (id_t)helper.pid_fd, &info,
					WEXITED | WNOWAIT),
				 0);
		assert_int_equal(fgt_helper_ask(&helper, &request, &address,
						NULL, &left_ms, &reply),
				 -EPIPE);
		assert_int_equal(helper.fd, -1);
		assert_int_equal(helper.pid_fd, -1);
	}
	fgt_helper_stop(&helper);
	fgt_memory_sink_done(&reply);
}

/* Each of these cannot be executed, or is no helper: ends, or writes rubbish.
 * */
static void without_a_helper_frames_get_image_and_offset(void **state)
{
	static const char *const paths[] = { "/nowhere", "/dev/null",
					     "/bin/true", "/bin/echo" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		const struct fgt_symbolizer_options options = {
			.helper_path = paths[i]
		};
		FGT_AUTO(fgt_symbolizer_free)
		struct fgt_symbolizer *symbolizer = kit_symbolizer(&options);
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = kit_slice_of(SHAPE);

		kit_add_frame(slice, 1, 0x1234, 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
		assert_string_equal(kit_function(slice, 0, 0),
				    "shapes-plain+0x1234");
		assert_int_not_equal(kit_symbol(slice, 0, 0)->reason,
				     FGT_SYMBOL_FOUND);
	}
}

static void store(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

static bool is_named(struct fgt_symbolizer *symbolizer)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);

	kit_add_frame(slice, 1, kit_address_of(SHAPE, "main"), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	if (kit_symbol(slice, 0, 0)->reason == FGT_SYMBOL_FOUND)
		return true;
	assert_int_equal(kit_symbol(slice, 0, 0)->reason, FGT_SYMBOL_NO_FILE);
	assert_non_null(strstr(kit_function(slice, 0, 0), "shapes-plain+0x"));
	return false;
}

static void request_that_took_too_long_is_repeated_next_time(void **state)
{
	static const char silent[] = "#!/bin/sh\nexec sleep 100\n";
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	struct fgt_symbolizer_options options = { .wait_max_ms = 1500 };
	char path[128], self[4096] = "";
	int tries = 1;

	(void)state;
	snprintf(path, sizeof(path), "%s/helper", folder);
	store(path, silent, strlen(silent));
	options.helper_path = path;
	symbolizer = kit_symbolizer(&options);
	assert_false(is_named(symbolizer));
	unlink(path);
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(symlink(self, path), 0);
	/* A busy machine may need more than one try. */
	while (!is_named(symbolizer) && tries < 20)
		tries++;
	assert_true(tries < 20);
	unlink(path);
}

static uint8_t *load(const char *path, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint8_t *bytes;

	assert_true(fd >= 0 && !fstat(fd, &status));
	bytes = malloc((size_t)status.st_size);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, (size_t)status.st_size),
			 status.st_size);
	close(fd);
	*ret_len = (size_t)status.st_size;
	return bytes;
}

/* Any answer will do, as long as there is one. */
static void resolve_one(struct fgt_symbolizer *symbolizer, const char *path,
			uint64_t start)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(path);

	for (uint64_t i = 0; i < 64; i++)
		kit_add_frame(slice, 1, start + 16 * i, 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	for (uint32_t i = 0; i < slice->frame_count; i++)
		assert_true(slice->frames[i].symbol_count > 0);
}

/* Fault U6. */
static void broken_files_cost_only_themselves(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	const char *sound = FGT_PROGRAMS "/shapes-fixed";
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(sound);
	uint64_t start = kit_address_of(SHAPE, "main"), random = 42;
	char path[128];
	uint8_t *bytes, *broken;
	size_t len;

	(void)state;
	bytes = load(SHAPE, &len);
	broken = malloc(len);
	assert_non_null(broken);
	for (int i = 0; i < 120; i++) {
		size_t kept = i < 40 ? len * (size_t)i / 40 : len;

		memcpy(broken, bytes, len);
		for (int k = 0; i >= 40 && k < 1 + i % 40; k++) {
			random = random * 6364136223846793005u + 1;
			broken[(random >> 24) % len] = (uint8_t)(random >> 56);
		}
		snprintf(path, sizeof(path), "%s/broken-%d", folder, i);
		store(path, broken, kept);
		resolve_one(symbolizer, path, start);
		unlink(path);
	}
	kit_add_frame(slice, 1, kit_address_of(sound, "main"), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_string_equal(kit_function(slice, 0, 0), "main");
	free(bytes);
	free(broken);
}

/* The section header of .debug_info in an ELF file. */
static Elf64_Shdr *debug_info_of(uint8_t *bytes)
{
	Elf64_Ehdr *header = (void *)bytes;
	Elf64_Shdr *sections = (void *)(bytes + header->e_shoff);
	const char *names =
		(char *)bytes + sections[header->e_shstrndx].sh_offset;

	for (size_t i = 0; i < header->e_shnum; i++)
		if (!strcmp(names + sections[i].sh_name, ".debug_info"))
			return &sections[i];
	fail_msg("no .debug_info");
	return NULL;
}

static void of_ten_gigabytes_of_dwarf_only_symbols_are_read(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	char path[128];
	uint8_t *bytes;
	size_t len;

	(void)state;
	bytes = load(SHAPE, &len);
	debug_info_of(bytes)->sh_size = 10ull << 30;
	snprintf(path, sizeof(path), "%s/huge", folder);
	store(path, bytes, len);
	free(bytes);
	assert_int_equal(truncate(path, 11ll << 30), 0);
	slice = kit_slice_of(path);
	kit_add_frame(slice, 1, kit_address_of(SHAPE, "outer_function"), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_string_equal(kit_function(slice, 0, 0), "outer_function");
	assert_int_equal(kit_symbol(slice, 0, 0)->line, 0);
	unlink(path);
}

/*
 * Where readelf finds, in the text of .debug_info, the first number that
 * follows a mark: "<1><2a>", "DW_AT_sibling     : <0x2f>".
 */
static uint64_t find_in_dump(const char *mark, uint64_t *ret_attribute)
{
	FILE *pipe = popen("readelf --debug-dump=info " SHAPE " 2>&1", "re");
	char line[4096], *at;
	uint64_t value = 0;

	assert_non_null(pipe);
	while (!value && fgets(line, sizeof(line), pipe)) {
		at = strstr(line, mark);
		if (!at)
			continue;
		at = strchr(at + strlen(mark), '<');
		value = at ? strtoull(at + 1, NULL, 16) : 0;
		at = strchr(line, '<');
		*ret_attribute = at ? strtoull(at + 1, NULL, 16) : 0;
	}
	pclose(pipe);
	assert_true(value);
	return value;
}

static void dwarf_that_leads_in_circles_ends(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t unused, attribute, first;
	uint32_t back;
	char path[128];
	uint8_t *bytes;
	size_t len;

	(void)state;
	/* The first entry below the unit, and a way back to it. */
	first = find_in_dump(" <1>", &unused);
	find_in_dump("DW_AT_sibling", &attribute);
	back = (uint32_t)first;
	bytes = load(SHAPE, &len);
	memcpy(bytes + debug_info_of(bytes)->sh_offset + attribute, &back,
	       sizeof(back));
	snprintf(path, sizeof(path), "%s/circle", folder);
	store(path, bytes, len);
	free(bytes);
	slice = kit_slice_of(path);
	kit_add_frame(slice, 1, kit_address_of(SHAPE, "outer_function"), 0);
	kit_add_frame(slice, 1, kit_address_of(SHAPE, "main"), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_string_equal(
		kit_function(slice, 0, slice->frames[0].symbol_count - 1),
		"outer_function");
	assert_string_equal(kit_function(slice, 1, 0), "main");
	unlink(path);
}

static void file_that_is_not_elf_gets_its_reason(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/text", folder);
	store(path, "!<arch>\nnot an ELF file at all\n", 31);
	slice = kit_slice_of(path);
	kit_add_frame(slice, 1, 0x1234, 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_string_equal(kit_function(slice, 0, 0), "text+0x1234");
	assert_int_equal(kit_symbol(slice, 0, 0)->reason, FGT_SYMBOL_BAD_FILE);
	unlink(path);
}

/* Files of two users may claim one build id; one of them lies. */
static void a_forged_build_id_deceives_only_its_user(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	char path[128];
	uint8_t *bytes;
	size_t len;

	(void)state;
	bytes = load(SHAPE, &len);
	snprintf(path, sizeof(path), "%s/forged", folder);
	/* Its symbols are gone, its build id is the same. */
	debug_info_of(bytes);
	((Elf64_Ehdr *)bytes)->e_shoff = 0;
	store(path, bytes, len);
	free(bytes);
	for (int i = 0; i < 2; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = kit_slice_of(i ? SHAPE : path);

		assert_true(slice->images[0].build_id_len);
		slice->process.uid = i ? 1000 : 1001;
		kit_add_frame(slice, 1, kit_address_of(SHAPE, "main"), 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
		assert_int_equal(kit_symbol(slice, 0, 0)->reason,
				 i ? FGT_SYMBOL_FOUND : FGT_SYMBOL_STRIPPED);
	}
	unlink(path);
}

static void *resolve_often(void *context)
{
	struct fgt_symbolizer *symbolizer = context;
	static const char *const files[] = { SHAPE,
					     FGT_PROGRAMS "/shapes-static",
					     FGT_PROGRAMS "/shapes-fixed" };

	for (int i = 0; i < 12; i++) {
		const char *path = files[i % 3];
		struct fgt_ring_slice *slice = kit_slice_of(path);
		uint64_t start = kit_address_of(path, "main");

		for (uint64_t k = 0; k < 40; k++)
			kit_add_frame(slice, 1, start + k, 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
		assert_string_equal(
			kit_function(slice, 0,
				     slice->frames[0].symbol_count - 1),
			"main");
		fgt_ring_slice_free(slice);
	}
	return NULL;
}

static void threads_share_one_symbolizer(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						resolve_often, symbolizer),
				 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(helper_that_died_or_lies_is_stopped),
		cmocka_unit_test(
			a_helper_that_is_slow_gets_no_more_than_its_time),
		cmocka_unit_test(
			request_that_took_too_long_is_repeated_next_time),
		cmocka_unit_test(a_helper_that_is_killed_is_replaced),
		cmocka_unit_test(without_a_helper_frames_get_image_and_offset),
		cmocka_unit_test(broken_files_cost_only_themselves),
		cmocka_unit_test(
			of_ten_gigabytes_of_dwarf_only_symbols_are_read),
		cmocka_unit_test(dwarf_that_leads_in_circles_ends),
		cmocka_unit_test(file_that_is_not_elf_gets_its_reason),
		cmocka_unit_test(a_forged_build_id_deceives_only_its_user),
		cmocka_unit_test(threads_share_one_symbolizer),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
