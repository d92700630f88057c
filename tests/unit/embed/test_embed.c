/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfgtrace-embed.so, loaded into this process as libfgtrace does.
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
#include "upload/deliver/sentry_upload.h"

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

static void note(void *context, const char *line)
{
	(void)context;
	print_message("%s\n", line);
}

static void *start(void)
{
	const struct fgt_embed_options options = {
		.hz = 200, .ring_bytes = 8 << 20, .spans_fd = -1, .log = note
	};
	struct fgt_why why = { "" };
	void *recorder = NULL;

	if (ops->start(&options, &recorder, &why) < 0)
		fail_msg("%s", why.text);
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

static struct fgt_ring_slice *decode(const struct fgt_slice_file *cut)
{
	struct fgt_ring_slice *slice = NULL;

	assert_int_equal(
		fgt_slice_decode(cut->bytes, cut->len_bytes, &slice, NULL), 0);
	return slice;
}

/*
 * Works until the work is sampled, at most 20 s: the thread sanitizer blocks
 * signals in its handlers, and a thread seen so gets no signal for a second.
 */
static struct fgt_slice_file cut_until_seen(void *recorder)
{
	struct timespec pause = { .tv_nsec = 400000000 };
	struct fgt_slice_file cut = { 0 };
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
static struct fgt_slice_file record(void)
{
	struct fgt_slice_file cut;
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

static void slice_has_names_of_functions(void **state)
{
	struct fgt_slice_file cut = record();
	struct fgt_ring_slice *slice = decode(&cut);

	(void)state;
	assert_true(cut.ticks > 10);
	assert_true(cut.threads >= 2);
	assert_true(has_toil(slice));
	assert_int_equal(slice->process.pid, getpid());
	fgt_ring_slice_free(slice);
	free(cut.bytes);
}

static void recorder_makes_no_child(void **state)
{
	struct fgt_slice_file cut = record();

	(void)state;
	free(cut.bytes);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* libunwind defines these names, too; the program must use those of libgcc. */
static void program_keeps_its_unwinder(void **state)
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

static void every_format_is_written(void **state)
{
	static const int formats[] = { 0, 1, 2, 5 };
	struct fgt_slice_file cut = record();

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

static int deliver(const struct fgt_slice_file *cut, const char *destination,
		   const struct fgt_transaction_facts *facts,
		   struct fgt_why *why)
{
	static const struct fgt_upload_limits limits = { .ca_file = NULL };

	return ops->deliver(cut->bytes, cut->len_bytes, destination, &limits,
			    facts, why, NULL);
}

/* No server listens there. */
#define CLOSED_DSN "http://0123456789abcdef0123456789abcdef@127.0.0.1:1/1"

/* Runs first: a library stays loaded. */
static void first_upload_loads_libcurl(void **state)
{
	/* libcurl, and a library that only libcurl needs. */
	static const char *const libraries[] = { "libcurl.so.4",
						 "libnghttp2.so.14",
						 "libssl.so.3" };
	struct fgt_slice_file cut = record();
	struct fgt_why why = { "" };
	FILE *file = tmpfile();

	(void)state;
	assert_int_equal(
		ops->write(cut.bytes, cut.len_bytes, 2, NULL, fileno(file)), 0);
	fclose(file);
	assert_int_equal(deliver(&cut, "/nowhere", NULL, &why), -ENOENT);
	assert_int_equal(deliver(&cut, "nonsense", NULL, &why), -EINVAL);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		assert_false(is_loaded(libraries[i]));
	assert_int_equal(deliver(&cut, CLOSED_DSN, NULL, &why), -EAGAIN);
	assert_true(is_loaded(libraries[0]));
	free(cut.bytes);
}

static void directory_gets_a_private_file_for_each_delivery(void **state)
{
	struct fgt_transaction_facts facts = { .name = "GET /cart/../x",
					       .op = "http.server" };
	struct fgt_slice_file cut = record();
	char folder[] = "/tmp/fgt-embed-XXXXXX";
	struct fgt_why why = { "" };
	char path[512];
	unsigned int files = 0;
	struct dirent *entry;
	struct stat status;
	DIR *directory;

	(void)state;
	assert_non_null(mkdtemp(folder));
	/* Both would get the same name in one millisecond. */
	for (int i = 0; i < 2; i++)
		if (deliver(&cut, folder, &facts, &why) < 0)
			fail_msg("%s", why.text);
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
	assert_int_equal(deliver(&cut, folder, &facts, &why), -ENOENT);
	assert_non_null(strstr(why.text, folder));
	free(cut.bytes);
}

static void malformed_dsn_is_refused(void **state)
{
	struct fgt_slice_file cut = record();
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(deliver(&cut, "nonsense", NULL, &why), -EINVAL);
	assert_true(why.text[0] != '\0');
	/* A later try may succeed. */
	assert_int_equal(deliver(&cut, CLOSED_DSN, NULL, &why), -EAGAIN);
	assert_null(strstr(why.text, "0123456789abcdef"));
	free(cut.bytes);
}

static void wait_for_ticks(int ring_fd, uint64_t ticks)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct fgt_ring_stats stats = { .ticks = 0 };
	struct fgt_ring *ring = NULL;

	assert_int_equal(fgt_ring_open(ring_fd, &ring), 0);
	for (int i = 0; i < 10000 && stats.ticks < ticks; i++) {
		nanosleep(&pause, NULL);
		fgt_ring_get_stats(ring, &stats);
	}
	fgt_ring_free(ring);
}

static void ring_can_be_cut_with_its_descriptor(void **state)
{
	void *recorder = start();
	struct fgt_ring_slice *slice = NULL;
	struct fgt_ring *ring = NULL;
	int fd;

	(void)state;
	fd = dup(ops->ring_fd(recorder));
	wait_for_ticks(fd, 12);
	ops->stop(recorder);
	assert_int_equal(fgt_ring_open(fd, &ring), 0);
	assert_int_equal(fgt_ring_cut(ring, 0, UINT64_MAX, &slice), 0);
	assert_true(slice->tick_count > 10);
	fgt_ring_slice_free(slice);
	fgt_ring_free(ring);
	close(fd);
}

static void second_recorder_leaves_the_first_unharmed(void **state)
{
	const struct fgt_embed_options options = { .spans_fd = -1 };
	struct fgt_why why;
	char text[256];
	void *first = start(), *second = NULL;

	(void)state;
	/* It may start, but has no signal. */
	if (ops->start(&options, &second, &why) == 0) {
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
		cmocka_unit_test(first_upload_loads_libcurl),
		cmocka_unit_test(slice_has_names_of_functions),
		cmocka_unit_test(recorder_makes_no_child),
		cmocka_unit_test(program_keeps_its_unwinder),
		cmocka_unit_test(every_format_is_written),
		cmocka_unit_test(
			directory_gets_a_private_file_for_each_delivery),
		cmocka_unit_test(malformed_dsn_is_refused),
		cmocka_unit_test(ring_can_be_cut_with_its_descriptor),
		cmocka_unit_test(second_recorder_leaves_the_first_unharmed),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
