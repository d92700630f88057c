/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of where symbols finds files: containers, deleted and replaced files,
 * the vDSO, perf maps of this process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/symbols/elf/checksum.h"
#include "agent/symbols/elf/elf_ident.h"
#include "agent/symbols/elf/image_open.h"
#include "tests/unit/symbols/symbols_kit.h"

#define SHAPE FGT_PROGRAMS "/shapes-plain"
#define OTHER FGT_PROGRAMS "/shapes-dwarf4"

static char folder[] = "/tmp/fgt-files-XXXXXX";

static void copy(const char *from, const char *to)
{
	char command[2048];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

static const char *in_folder(const char *name)
{
	static char paths[32][512];
	static unsigned int next;
	char *path = paths[next++ % 32];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static int open_kept(void *context, const struct fgt_ring_slice *slice,
		     const struct fgt_slice_image *image, int *ret_fd)
{
	(void)slice;
	(void)image;
	*ret_fd = fcntl(*(int *)context, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? -errno : 0;
}

/* Resolves main of the image; kept_fd: what open_image gives, -1: no such. */
static void expect_main(const char *path, struct fgt_ring_slice *slice,
			int kept_fd, enum fgt_symbol_reason reason)
{
	const struct fgt_symbolizer_options options = {
		.open_image = kept_fd >= 0 ? open_kept : NULL,
		.context = &kept_fd,
	};
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(&options);
	const char *base = strrchr(path, '/') + 1;
	uint64_t address = kit_address_of(SHAPE, "main");
	uint32_t frame = kit_add_frame(slice, 1, address, 0);
	char expected[256];

	snprintf(expected, sizeof(expected), "%s+0x%llx", base,
		 (unsigned long long)address);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_int_equal(kit_symbol(slice, frame, 0)->reason, reason);
	assert_string_equal(kit_function(slice, frame, 0),
			    reason == FGT_SYMBOL_FOUND ? "main" : expected);
}

static void replaced_file_is_not_mistaken(void **state)
{
	const char *path = in_folder("program");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int fd;

	(void)state;
	copy(SHAPE, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	slice = kit_slice_of(path);
	expect_main(path, slice, -1, FGT_SYMBOL_FOUND);
	copy(OTHER, in_folder("upgrade"));
	assert_int_equal(rename(in_folder("upgrade"), path), 0);
	expect_main(path, slice, -1, FGT_SYMBOL_OTHER_FILE);
	expect_main(path, slice, fd, FGT_SYMBOL_FOUND);
	assert_int_equal(unlink(path), 0);
	expect_main(path, slice, -1, FGT_SYMBOL_NO_FILE);
	expect_main(path, slice, fd, FGT_SYMBOL_FOUND);
	close(fd);
}

static void without_a_build_id_the_inode_decides(void **state)
{
	const char *path = in_folder("plain");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;

	(void)state;
	copy(SHAPE, path);
	slice = kit_slice_of(path);
	slice->images[0].build_id_len = 0;
	expect_main(path, slice, -1, FGT_SYMBOL_FOUND);
	copy(SHAPE, in_folder("again"));
	assert_int_equal(rename(in_folder("again"), path), 0);
	expect_main(path, slice, -1, FGT_SYMBOL_OTHER_FILE);
	assert_int_equal(unlink(path), 0);
}

/* Opens an image below the made-up root; true if it is that file's inode. */
static bool finds(const struct fgt_ring_slice *slice, const char *real)
{
	const struct fgt_image_places places = { 0 };
	struct fgt_target_root root = { .proc_fd = -1,
					.target_fd = -1,
					.host_fd = -1 };
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	struct stat expected, opened;
	bool is_found;

	root.is_this_host = true;
	root.target_fd = open(in_folder("root"), O_PATH | O_CLOEXEC);
	root.host_fd = open("/", O_PATH | O_CLOEXEC);
	is_found = fgt_image_files_open(&places, slice, &slice->images[0],
					&root, &files) == FGT_SYMBOL_FOUND &&
		   !fstat(files.image_fd, &opened) && !stat(real, &expected) &&
		   opened.st_ino == expected.st_ino &&
		   opened.st_dev == expected.st_dev;
	fgt_image_files_close(&files);
	fgt_target_root_close(&root);
	return is_found;
}

static void set_path(struct fgt_ring_slice *slice, const char *path)
{
	assert_int_equal(fgt_strings_intern(&slice->strings, path, strlen(path),
					    &slice->images[0].path),
			 0);
}

/* Fault X7. */
static void links_of_a_container_stay_inside(void **state)
{
	const char *real = in_folder("root/opt/app/program");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);
	char outside[600];

	(void)state;
	assert_int_equal(mkdir(in_folder("root"), 0755), 0);
	assert_int_equal(mkdir(in_folder("root/opt"), 0755), 0);
	assert_int_equal(mkdir(in_folder("root/opt/app"), 0755), 0);
	copy(SHAPE, real);
	copy(SHAPE, in_folder("outside"));
	assert_int_equal(symlink("/opt/app", in_folder("root/absolute")), 0);
	assert_int_equal(
		symlink("../../../../../opt/app", in_folder("root/opt/up")), 0);
	set_path(slice, "/absolute/program");
	assert_true(finds(slice, real));
	set_path(slice, "/opt/up/program");
	assert_true(finds(slice, real));
	/* A link to what exists outside only, and through a magic link. */
	snprintf(outside, sizeof(outside), "%s/outside", folder);
	assert_int_equal(symlink(outside, in_folder("root/escape")), 0);
	set_path(slice, "/escape");
	assert_false(finds(slice, in_folder("outside")));
	assert_int_equal(unlink(in_folder("root/escape")), 0);
	snprintf(outside, sizeof(outside), "/proc/self/root%s/outside", folder);
	assert_int_equal(symlink(outside, in_folder("root/escape")), 0);
	assert_false(finds(slice, in_folder("outside")));
}

static int read_checksum(void *context, int fd, uint32_t *ret_crc)
{
	(void)context;
	return fgt_checksum_read(fd, UINT64_MAX, ret_crc);
}

/* Opens an image at a path below the folder's "root"; how debug files are
 * found there. */
static struct fgt_image_files open_below_root(const char *path)
{
	const struct fgt_image_places places = { .checksum = read_checksum };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(FGT_PROGRAMS "/linked");
	struct fgt_target_root root = { .proc_fd = -1, .is_this_host = true };
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	struct stat status;
	char below[1024];

	snprintf(below, sizeof(below), "%s%s", in_folder("root"), path);
	assert_int_equal(stat(below, &status), 0);
	slice->images[0].dev = status.st_dev;
	slice->images[0].ino = status.st_ino;
	set_path(slice, path);
	root.target_fd = open(in_folder("root"), O_PATH | O_CLOEXEC);
	root.host_fd = open("/", O_PATH | O_CLOEXEC);
	assert_int_equal(fgt_image_files_open(&places, slice, &slice->images[0],
					      &root, &files),
			 FGT_SYMBOL_FOUND);
	fgt_target_root_close(&root);
	return files;
}

/* Fault X7: the path of a live target means its own root. */
static void debug_file_of_this_machine_is_not_a_containers(void **state)
{
	FGT_AUTO(fgt_image_files_close)
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	char command[1024];

	(void)state;
	snprintf(command, sizeof(command), "mkdir -p '%s%s'", in_folder("root"),
		 folder);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s%s/linked", in_folder("root"),
		 folder);
	copy(FGT_PROGRAMS "/linked", command);
	copy(FGT_PROGRAMS "/linked.debug", in_folder("linked.debug"));
	files = open_below_root(in_folder("linked"));
	assert_int_equal(files.debug_fd, -1);
	fgt_image_files_close(&files);
	snprintf(command, sizeof(command), "%s%s/linked.debug",
		 in_folder("root"), folder);
	copy(FGT_PROGRAMS "/linked.debug", command);
	files = open_below_root(in_folder("linked"));
	assert_true(files.debug_fd >= 0);
}

/* Fault X8: to open a FIFO lets a writer go on that waits for a reader. */
static void fifo_in_place_of_a_debug_file_is_not_opened(void **state)
{
	FGT_AUTO(fgt_image_files_close)
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	FGT_AUTO(fgt_fd_close)
	int watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event;
	int fd;

	(void)state;
	assert_int_equal(mkdir(in_folder("root/fifo"), 0755), 0);
	copy(FGT_PROGRAMS "/linked", in_folder("root/fifo/linked"));
	assert_int_equal(mkfifo(in_folder("root/fifo/linked.debug"), 0600), 0);
	assert_true(inotify_add_watch(watch_fd,
				      in_folder("root/fifo/linked.debug"),
				      IN_OPEN) >= 0);
	files = open_below_root("/fifo/linked");
	assert_int_equal(files.debug_fd, -1);
	assert_true(read(watch_fd, &event, sizeof(event)) < 0);
	/* The watch would have seen it. */
	fd = open(in_folder("root/fifo/linked.debug"),
		  O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(read(watch_fd, &event, sizeof(event)) > 0);
	close(fd);
}

/* Programs that name a sparse debug file of this size; the CPU time that this
 * process used to find that it has another checksum. */
static double resolve_with_sparse_files(struct fgt_symbolizer *symbolizer,
					off_t size)
{
	clock_t start = clock();

	for (int i = 0; i < 4; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;
		char sub[64], path[128], debug[256];

		snprintf(sub, sizeof(sub), "sparse-%jd-%d", (intmax_t)size, i);
		assert_int_equal(mkdir(in_folder(sub), 0755), 0);
		snprintf(path, sizeof(path), "%s/%s/linked", folder, sub);
		snprintf(debug, sizeof(debug), "%s.debug", path);
		copy(FGT_PROGRAMS "/linked", path);
		copy(FGT_PROGRAMS "/linked.debug", debug);
		assert_int_equal(truncate(debug, size), 0);
		slice = kit_slice_of(path);
		kit_add_frame(slice, 1, 0x1234, 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	}
	return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Fault U7. */
static void checksum_of_a_debug_file_costs_this_process_nothing(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);

	(void)state;
	assert_true(resolve_with_sparse_files(symbolizer, 1 << 30) < 0.3);
	assert_true(resolve_with_sparse_files(symbolizer, 200 << 20) < 0.3);
}

static void vdso_is_named_if_build_ids_agree(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	struct fgt_elf_ident ident;
	char path[64];
	int fd = -1;

	(void)state;
	assert_int_equal(fgt_vdso_open(&fd), 0);
	assert_int_equal(fgt_elf_ident_read(fd, &ident), 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	for (int is_same = 1; is_same >= 0; is_same--) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = kit_slice_of(path);

		set_path(slice, "[vdso]");
		slice->images[0].build_id[0] ^= !is_same;
		kit_add_frame(slice, 1,
			      kit_address_of(path, "__vdso_gettimeofday"), 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
		assert_int_equal(kit_symbol(slice, 0, 0)->reason,
				 is_same ? FGT_SYMBOL_FOUND
					 : FGT_SYMBOL_OTHER_FILE);
		if (is_same)
			assert_non_null(strstr(kit_function(slice, 0, 0),
					       "gettimeofday"));
	}
	close(fd);
}

static void markers_get_their_names(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);

	(void)state;
	kit_add_frame(slice, FGT_IMAGE_NONE, FGT_MARKER_KERNEL,
		      FGT_FRAME_MARKER);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, false), 0);
	assert_string_equal(kit_function(slice, 0, 0),
			    fgt_marker_name(FGT_MARKER_KERNEL));
	/* A second call finds nothing to do. */
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, false), 0);
	assert_int_equal(slice->frames[0].symbol_count, 1);
}

static void write_map(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void expect_jit(struct fgt_symbolizer *symbolizer, bool is_live,
		       uint64_t address, const char *expected)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);

	kit_add_frame(slice, FGT_IMAGE_NONE, address, FGT_FRAME_CALLER);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, is_live), 0);
	assert_string_equal(kit_function(slice, 0, 0), expected);
}

static void jit_code_is_named_by_the_perf_map_as_it_is_now(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	expect_jit(symbolizer, true, 0x7000, "[anon]+0x7000");
	write_map(path, "6ff0 10 first\n");
	expect_jit(symbolizer, true, 0x7000, "first");
	expect_jit(symbolizer, true, 0x7001, "[jit]+0x7001");
	expect_jit(symbolizer, false, 0x7000, "[anon]+0x7000");
	write_map(path, "6ff0 10 first\n7000 10 second\n");
	expect_jit(symbolizer, true, 0x7001, "second");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_jit(symbolizer, true, 0x7001, "[anon]+0x7001");
	assert_int_equal(unlink(path), 0);
}

/* Fault X1. */
static void other_process_with_that_pid_is_not_used(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	write_map(path, "6ff0 10 mine\n");
	slice->process.start_time--;
	kit_add_frame(slice, FGT_IMAGE_NONE, 0x6ff8, 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_int_equal(kit_symbol(slice, 0, 0)->reason, FGT_SYMBOL_NO_MAP);
	assert_int_equal(unlink(path), 0);
}

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaced_file_is_not_mistaken),
		cmocka_unit_test(without_a_build_id_the_inode_decides),
		cmocka_unit_test(links_of_a_container_stay_inside),
		cmocka_unit_test(
			debug_file_of_this_machine_is_not_a_containers),
		cmocka_unit_test(fifo_in_place_of_a_debug_file_is_not_opened),
		cmocka_unit_test(
			checksum_of_a_debug_file_costs_this_process_nothing),
		cmocka_unit_test(vdso_is_named_if_build_ids_agree),
		cmocka_unit_test(markers_get_their_names),
		cmocka_unit_test(
			jit_code_is_named_by_the_perf_map_as_it_is_now),
		cmocka_unit_test(other_process_with_that_pid_is_not_used),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
