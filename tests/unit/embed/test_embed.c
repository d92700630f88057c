/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfgtrace-embed.so as libfgtrace loads it: into this process.
 */
#include "agent/embed/embed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/ring/ring.h"
#include "ringbuf/slice/slice_codec.h"

static const struct fgt_embed_ops *ops;
static void *handle;

static int load(void **state)
{
	const struct fgt_embed_ops *(*embed)(void);

	(void)state;
	handle = dlopen(FGT_EMBED_PATH, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		print_message("%s\n", dlerror());
	assert_non_null(handle);
	*(void **)&embed = dlsym(handle, FGT_EMBED_SYMBOL);
	assert_non_null(embed);
	ops = embed();
	return 0;
}

static atomic_bool may_end;
static volatile uint64_t work_done;

__attribute__((noinline)) static void toil_for_a_while(void)
{
	while (!atomic_load_explicit(&may_end, memory_order_relaxed))
		work_done++;
}

static void *toil(void *argument)
{
	(void)argument;
	pthread_setname_np(pthread_self(), "toiler");
	toil_for_a_while();
	work_done++;
	return NULL;
}

static void say(void *context, const char *line)
{
	(void)context;
	print_message("%s\n", line);
}

static void *start(void)
{
	const struct fgt_embed_options options = {
		.hz = 200, .ring_bytes = 8 << 20, .spans_fd = -1, .log = say
	};
	char why[FGT_EMBED_WHY] = "";
	void *recorder = NULL;

	if (ops->start(&options, &recorder, why) < 0)
		fail_msg("%s", why);
	return recorder;
}

static bool has_toil(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->symbol_count; i++)
		if (!strcmp(fgt_slice_string(slice, slice->symbols[i].function),
			    "toil_for_a_while"))
			return true;
	return false;
}

static struct fgt_ring_slice *decode(const struct fgt_embed_cut *cut)
{
	struct fgt_ring_slice *slice = NULL;

	assert_int_equal(
		fgt_slice_decode(cut->bytes, cut->len_bytes, &slice, NULL), 0);
	return slice;
}

/*
 * The thread sanitizer blocks signals around those that it hands on; a thread
 * that is seen so gets none for a second. Until the work is seen, or 20 s.
 */
static struct fgt_embed_cut cut_until_seen(void *recorder)
{
	struct timespec pause = { .tv_nsec = 400000000 };
	struct fgt_embed_cut cut = { 0 };
	bool is_seen = false;

	for (int i = 0; i < 50 && !is_seen; i++) {
		struct fgt_ring_slice *slice;

		nanosleep(&pause, NULL);
		free(cut.bytes);
		assert_int_equal(ops->cut(recorder, 0, UINT64_MAX, false, &cut),
				 0);
		slice = decode(&cut);
		is_seen = has_toil(slice);
		fgt_ring_slice_free(slice);
	}
	return cut;
}

/* A recording of some work. */
static struct fgt_embed_cut record(void)
{
	struct fgt_embed_cut cut;
	void *recorder;
	pthread_t thread;

	atomic_store(&may_end, false);
	assert_int_equal(pthread_create(&thread, NULL, toil, NULL), 0);
	recorder = start();
	cut = cut_until_seen(recorder);
	atomic_store(&may_end, true);
	pthread_join(thread, NULL);
	assert_true(ops->hz(recorder) > 0);
	assert_true(ops->ring_fd(recorder) >= 0);
	ops->stop(recorder);
	return cut;
}

static void a_slice_has_the_names_of_its_functions(void **state)
{
	struct fgt_embed_cut cut = record();
	struct fgt_ring_slice *slice = decode(&cut);

	(void)state;
	assert_true(cut.ticks > 10);
	assert_true(cut.threads >= 2);
	assert_true(has_toil(slice));
	assert_int_equal(slice->process.pid, getpid());
	fgt_ring_slice_free(slice);
	free(cut.bytes);
}

static void no_child_was_made(void **state)
{
	struct fgt_embed_cut cut = record();

	(void)state;
	free(cut.bytes);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* libunwind defines these, too; the program's must be libgcc's. */
static void the_unwinder_of_the_program_stays(void **state)
{
	Dl_info info;
	void *raise;

	(void)state;
	assert_null(dlsym(RTLD_DEFAULT, "_ULx86_64_step"));
	assert_null(dlsym(RTLD_DEFAULT, "unw_backtrace"));
	assert_null(dlsym(RTLD_DEFAULT, "dwarf_begin"));
	assert_null(dlsym(RTLD_DEFAULT, "fgt_ring_new"));
	raise = dlsym(RTLD_DEFAULT, "_Unwind_RaiseException");
	if (raise && dladdr(raise, &info))
		assert_null(strstr(info.dli_fname, "libunwind"));
}

static void every_format_can_be_written(void **state)
{
	static const int formats[] = { 0, 1, 2, 5 };
	struct fgt_embed_cut cut = record();

	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		FILE *file = tmpfile();

		assert_int_equal(ops->write(cut.bytes, cut.len_bytes,
					    formats[i], NULL, fileno(file)),
				 0);
		fseek(file, 0, SEEK_END);
		assert_true(ftell(file) > 100);
		fclose(file);
	}
	assert_int_equal(ops->write(cut.bytes, cut.len_bytes, 99, NULL, 1),
			 -EINVAL);
	assert_int_equal(ops->write(cut.bytes, cut.len_bytes, -1, NULL, 1),
			 -EINVAL);
	assert_int_equal(ops->write(cut.bytes, 10, 1, NULL, 1), -EBADMSG);
	free(cut.bytes);
}

static bool is_loaded(const char *library)
{
	void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

	if (loaded)
		dlclose(loaded);
	return loaded != NULL;
}

static int deliver(const struct fgt_embed_cut *cut, const char *destination,
		   const struct fgt_transaction_facts *facts, char *ret_why)
{
	static const struct fgt_embed_way way = { .ca_file = NULL };

	return ops->deliver(cut->bytes, cut->len_bytes, destination, &way,
			    facts, ret_why, NULL);
}

/* Nobody listens there. */
#define CLOSED_DSN "http://0123456789abcdef0123456789abcdef@127.0.0.1:1/1"

/* Runs first: what is loaded stays. */
static void an_http_client_is_loaded_by_the_first_upload(void **state)
{
	/* It and what it alone needs. */
	static const char *const libraries[] = { "libcurl.so.4",
						 "libnghttp2.so.14",
						 "libssl.so.3" };
	struct fgt_embed_cut cut = record();
	char why[FGT_EMBED_WHY] = "";
	FILE *file = tmpfile();

	(void)state;
	assert_int_equal(
		ops->write(cut.bytes, cut.len_bytes, 2, NULL, fileno(file)), 0);
	fclose(file);
	assert_int_equal(deliver(&cut, "/nowhere", NULL, why), -ENOENT);
	assert_int_equal(deliver(&cut, "nonsense", NULL, why), -EINVAL);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		assert_false(is_loaded(libraries[i]));
	assert_int_equal(deliver(&cut, CLOSED_DSN, NULL, why), -EAGAIN);
	assert_true(is_loaded(libraries[0]));
	free(cut.bytes);
}

static void a_directory_gets_a_file_of_ours_alone(void **state)
{
	struct fgt_transaction_facts facts = { .name = "GET /cart/../x",
					       .op = "http.server" };
	struct fgt_embed_cut cut = record();
	char folder[] = "/tmp/fgt-embed-XXXXXX", why[FGT_EMBED_WHY] = "";
	char path[512];
	unsigned int files = 0;
	struct dirent *entry;
	struct stat status;
	DIR *directory;

	(void)state;
	assert_non_null(mkdtemp(folder));
	/* Both have the same name in the same millisecond. */
	for (int i = 0; i < 2; i++)
		if (deliver(&cut, folder, &facts, why) < 0)
			fail_msg("%s", why);
	directory = opendir(folder);
	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		files++;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		assert_int_equal(stat(path, &status), 0);
		assert_int_equal(status.st_mode & 07777, 0600);
		assert_true(status.st_size > 500);
		assert_ptr_equal(strstr(entry->d_name, "GET_cart_.._x-"),
				 entry->d_name);
		assert_non_null(strstr(entry->d_name, ".envelope"));
		unlink(path);
	}
	closedir(directory);
	assert_int_equal(files, 2);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(deliver(&cut, folder, &facts, why), -ENOENT);
	assert_non_null(strstr(why, folder));
	free(cut.bytes);
}

static void a_dsn_that_is_none_is_refused(void **state)
{
	struct fgt_embed_cut cut = record();
	char why[FGT_EMBED_WHY] = "";

	(void)state;
	assert_int_equal(deliver(&cut, "nonsense", NULL, why), -EINVAL);
	assert_true(why[0] != '\0');
	/* Later, perhaps. */
	assert_int_equal(deliver(&cut, CLOSED_DSN, NULL, why), -EAGAIN);
	assert_null(strstr(why, "0123456789abcdef"));
	free(cut.bytes);
}

static void the_ring_can_be_cut_by_who_holds_it(void **state)
{
	struct timespec pause = { .tv_nsec = 200000000 };
	void *recorder = start();
	struct fgt_ring_slice *slice = NULL;
	struct fgt_ring *ring = NULL;
	int fd;

	(void)state;
	nanosleep(&pause, NULL);
	fd = dup(ops->ring_fd(recorder));
	ops->stop(recorder);
	assert_int_equal(fgt_ring_open(fd, &ring), 0);
	assert_int_equal(fgt_ring_cut(ring, 0, UINT64_MAX, &slice), 0);
	assert_true(slice->tick_count > 10);
	fgt_ring_slice_free(slice);
	fgt_ring_free(ring);
	close(fd);
}

static void a_second_recorder_is_one_too_many(void **state)
{
	const struct fgt_embed_options options = { .spans_fd = -1 };
	char why[FGT_EMBED_WHY], text[256];
	void *first = start(), *second = NULL;

	(void)state;
	/* It has no signal, and says so. */
	if (ops->start(&options, &second, why) == 0) {
		ops->get_limitation(second, text, sizeof(text));
		ops->stop(second);
	}
	ops->stop(first);
	first = start();
	ops->get_limitation(first, text, sizeof(text));
	assert_string_equal(text, "");
	ops->stop(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_http_client_is_loaded_by_the_first_upload),
		cmocka_unit_test(a_slice_has_the_names_of_its_functions),
		cmocka_unit_test(no_child_was_made),
		cmocka_unit_test(the_unwinder_of_the_program_stays),
		cmocka_unit_test(every_format_can_be_written),
		cmocka_unit_test(a_directory_gets_a_file_of_ours_alone),
		cmocka_unit_test(a_dsn_that_is_none_is_refused),
		cmocka_unit_test(the_ring_can_be_cut_by_who_holds_it),
		cmocka_unit_test(a_second_recorder_is_one_too_many),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
