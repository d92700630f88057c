/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file is taken for a mapping: deleted and replaced programs and
 * libraries, with map_files (root) and without (user 65534). The mapped one or
 * none, never another.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "tests/programs/unwind/unwind_capture.h"
#include "tests/unit/unwind/copy_file.h"

#define UID_NO_RIGHTS 65534

static char folder[64];
/* Copies, as the build may be in a folder that only root may enter. */
static char original[96], other[96];

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* A child that runs a copy of the program until its standard input ends. */
struct running {
	pid_t pid;
	int input;
};

static void run_copy(struct running *running)
{
	int input[2], output[2];
	char text[8] = "";

	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	running->pid = fork();
	assert_true(running->pid >= 0);
	if (!running->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(input[0], STDIN_FILENO);
		dup2(output[1], STDOUT_FILENO);
		execl(path_of("program"), "program", (char *)NULL);
		_exit(127);
	}
	close(input[0]);
	close(output[1]);
	/* "ready": everything is mapped now. */
	assert_int_equal(read(output[0], text, 6), 6);
	close(output[0]);
	running->input = input[1];
}

static void stop(const struct running *running)
{
	close(running->input);
	kill(running->pid, SIGKILL);
	waitpid(running->pid, NULL, 0);
}

static uint32_t find_image(const struct fgt_maps *maps, const char *path)
{
	for (uint32_t i = 0; i < maps->image_count; i++)
		if (!strcmp(maps->images[i].image.path, path))
			return i;
	fail_msg("no image %s", path);
	return 0;
}

static void read_build_id(const char *path, struct fgt_elf *ret_elf)
{
	struct fgt_elf_source source = { .len = 1u << 20 };
	struct stat status;

	source.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(source.fd >= 0);
	assert_int_equal(fstat(source.fd, &status), 0);
	source.len = (uint64_t)status.st_size;
	assert_int_equal(fgt_elf_parse(&source, ret_elf), 0);
	assert_true(ret_elf->build_id_len > 0);
	close(source.fd);
}

/* Does the image have the file of PROGRAM, and does open_fd give it? */
static void check_is_original(struct fgt_image_cache *cache,
			      const struct fgt_maps *maps, bool is_deleted)
{
	uint32_t index = find_image(maps, path_of("program"));
	const struct fgt_image *image = &maps->images[index].image;
	struct fgt_elf elf, opened;
	char path[64];
	const struct fgt_image_key key = { image->dev, image->ino, 0 };
	int fd = -1;

	read_build_id(original, &elf);
	assert_non_null(maps->images[index].file);
	assert_int_equal(image->is_deleted, is_deleted);
	assert_int_equal(image->build_id_len, elf.build_id_len);
	assert_memory_equal(image->build_id, elf.build_id, elf.build_id_len);
	assert_int_equal(fgt_image_cache_open_fd(cache, image->build_id,
						 image->build_id_len, &key,
						 &fd),
			 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_build_id(path, &opened);
	assert_memory_equal(opened.build_id, elf.build_id, elf.build_id_len);
	close(fd);
}

static void check_deleted_program(void)
{
	struct fgt_image_cache *cache;
	struct running running;
	struct fgt_maps *maps;

	assert_int_equal(copy_file(original, path_of("program")), 0);
	run_copy(&running);
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(unlink(path_of("program")), 0);
	/* Another one takes its name: must not be taken for it. */
	assert_int_equal(copy_file(other, path_of("program")), 0);
	assert_int_equal(capture_maps(running.pid, cache, &maps), 0);
	check_is_original(cache, maps, true);
	stop(&running);
	/* The target has died, its file is gone: kept open. */
	check_is_original(cache, maps, true);
	fgt_maps_free(maps);
	fgt_image_cache_free(cache);
	unlink(path_of("program"));
}

static void check_replaced_library(bool is_privileged)
{
	struct fgt_image_cache *cache;
	struct running running;
	struct fgt_maps *maps;
	char new_path[128];
	uint32_t index;

	assert_int_equal(copy_file(original, path_of("program")), 0);
	assert_int_equal(copy_file(other, path_of("new.so")), 0);
	assert_int_equal(
		copy_file("/lib/x86_64-linux-gnu/libz.so.1", path_of("lib.so")),
		0);
	setenv("LD_PRELOAD", path_of("lib.so"), 1);
	run_copy(&running);
	unsetenv("LD_PRELOAD");
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	snprintf(new_path, sizeof(new_path), "%s", path_of("new.so"));
	assert_int_equal(rename(new_path, path_of("lib.so")), 0);
	assert_int_equal(capture_maps(running.pid, cache, &maps), 0);
	index = find_image(maps, path_of("lib.so"));
	assert_true(maps->images[index].image.is_deleted);
	if (is_privileged)
		assert_non_null(maps->images[index].file);
	else
		assert_null(maps->images[index].file);
	fgt_maps_free(maps);
	stop(&running);
	fgt_image_cache_free(cache);
	unlink(path_of("program"));
	unlink(path_of("lib.so"));
}

/* Runs a check as user 65534; a failed assertion ends that process with 1. */
static int run_as_nobody(void)
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (!pid) {
		if (getuid() == 0 &&
		    (setgroups(0, NULL) < 0 || setgid(UID_NO_RIGHTS) < 0 ||
		     setuid(UID_NO_RIGHTS) < 0))
			_exit(1);
		/* setuid cleared it: else procfs would belong to root. */
		prctl(PR_SET_DUMPABLE, 1);
		check_deleted_program();
		check_replaced_library(false);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

static void a_deleted_program_is_found(void **state)
{
	(void)state;
	check_deleted_program();
}

/* Fault U4. */
static void a_replaced_library_is_not_mistaken(void **state)
{
	(void)state;
	check_replaced_library(getuid() == 0);
}

static void replaced_library_is_refused_without_privileges(void **state)
{
	(void)state;
	assert_int_equal(run_as_nobody(), 0);
}

static void a_zombie_has_no_maps(void **state)
{
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	siginfo_t info;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(capture_maps(pid, cache, &maps), -ESRCH);
	waitpid(pid, NULL, 0);
	fgt_image_cache_free(cache);
}

static void maps_read_twice_are_equal(void **state)
{
	struct fgt_maps *first, *second;
	struct fgt_image_cache *cache;
	void *code;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(capture_maps(getpid(), cache, &first), 0);
	assert_int_equal(capture_maps(getpid(), cache, &second), 0);
	assert_true(fgt_maps_is_equal(first, second));
	fgt_maps_free(second);
	/* Data may change, code may not. */
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	assert_int_equal(capture_maps(getpid(), cache, &second), 0);
	assert_false(fgt_maps_is_equal(first, second));
	munmap(code, 4096);
	fgt_maps_free(first);
	/* The cache may go before the maps that use it. */
	fgt_image_cache_free(cache);
	fgt_maps_free(second);
}

struct shared {
	struct fgt_image_cache *cache;
	uint8_t build_id[FGT_BUILD_ID_MAX];
	size_t build_id_len;
	uint64_t dev, ino;
};

static void *read_maps_often(void *argument)
{
	const struct shared *shared = argument;
	struct fgt_cfi_rule rule;
	struct fgt_maps *maps;

	for (int i = 0; i < 30; i++) {
		if (capture_maps(getpid(), shared->cache, &maps) < 0)
			return argument;
		for (uint32_t j = 0; j < maps->image_count; j++)
			if (maps->images[j].file)
				(void)fgt_image_file_find_rule(
					maps->images[j].file, 0, &rule);
		fgt_maps_free(maps);
	}
	return NULL;
}

static void *open_often(void *argument)
{
	const struct shared *shared = argument;
	const struct fgt_image_key key = { shared->dev, shared->ino, 0 };
	int fd;

	for (int i = 0; i < 300; i++) {
		if (fgt_image_cache_open_fd(shared->cache, shared->build_id,
					    shared->build_id_len, &key,
					    &fd) < 0)
			return argument;
		close(fd);
	}
	return NULL;
}

static void threads_share_the_cache(void **state)
{
	void *(*const mains[])(void *) = { read_maps_often, read_maps_often,
					   open_often };
	const struct fgt_image *image;
	struct shared shared;
	struct fgt_maps *maps;
	pthread_t threads[3];
	void *failed;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&shared.cache), 0);
	assert_int_equal(capture_maps(getpid(), shared.cache, &maps), 0);
	image = &maps->images[0].image;
	memcpy(shared.build_id, image->build_id, sizeof(shared.build_id));
	shared.build_id_len = image->build_id_len;
	shared.dev = image->dev;
	shared.ino = image->ino;
	fgt_maps_free(maps);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, mains[i], &shared),
			0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	fgt_image_cache_free(shared.cache);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/fgt-images-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(original, sizeof(original), "%s/original", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	if (copy_file(FGT_UNWIND_PROGRAMS "/unwind_steps_nofp", original) < 0 ||
	    copy_file(FGT_UNWIND_PROGRAMS "/unwind_steps_fp", other) < 0)
		return -1;
	return chmod(folder, 0777);
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(original);
	unlink(other);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deleted_program_is_found),
		cmocka_unit_test(a_replaced_library_is_not_mistaken),
		cmocka_unit_test(
			replaced_library_is_refused_without_privileges),
		cmocka_unit_test(a_zombie_has_no_maps),
		cmocka_unit_test(maps_read_twice_are_equal),
		cmocka_unit_test(threads_share_the_cache),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
