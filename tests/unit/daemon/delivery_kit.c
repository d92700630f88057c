/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/daemon/delivery_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "ringbuf/slice/slice_codec.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define PATIENCE_S 60

struct delivery_world delivery_world;

struct fgt_deliveries_counters delivery_counters(void)
{
	struct fgt_deliveries_counters now;

	fgt_deliveries_get_counters(delivery_world.deliveries, &now);
	return now;
}

static void look(void *unused)
{
	struct fgt_deliveries_counters now = delivery_counters();

	(void)unused;
	if (now.delivered + now.failed + now.retried >= delivery_world.wanted)
		fgt_loop_stop(delivery_world.loop);
	else
		fgt_loop_arm(delivery_world.loop, &delivery_world.look,
			     fgt_loop_now() + 10000000);
}

static void lose_patience(void *unused)
{
	(void)unused;
	delivery_world.is_late = true;
	fgt_loop_stop(delivery_world.loop);
}

void delivery_run_until(uint64_t wanted)
{
	delivery_world.wanted = wanted;
	fgt_loop_arm(delivery_world.loop, &delivery_world.patience,
		     fgt_loop_now() + PATIENCE_S * UINT64_C(1000000000));
	look(NULL);
	assert_int_equal(fgt_loop_run(delivery_world.loop), 0);
	assert_false(delivery_world.is_late);
	fgt_loop_disarm(delivery_world.loop, &delivery_world.patience);
	fgt_loop_disarm(delivery_world.loop, &delivery_world.look);
}

int delivery_set_up(void **state)
{
	(void)state;
	memset(&delivery_world, 0, sizeof(delivery_world));
	strcpy(delivery_world.directory, "/tmp/fgt-deliveries-XXXXXX");
	assert_non_null(mkdtemp(delivery_world.directory));
	assert_int_equal(fgt_loop_new(&delivery_world.loop), 0);
	assert_int_equal(fgt_deliveries_new(delivery_world.loop, NULL,
					    &delivery_world.deliveries),
			 0);
	delivery_world.look.expired = look;
	delivery_world.patience.expired = lose_patience;
	return 0;
}

int delivery_tear_down(void **state)
{
	char path[400];
	struct dirent *entry;
	DIR *directory = opendir(delivery_world.directory);

	(void)state;
	fgt_deliveries_free(delivery_world.deliveries);
	fgt_loop_free(delivery_world.loop);
	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s", delivery_world.directory,
			 entry->d_name);
		(void)unlink(path);
	}
	closedir(directory);
	return rmdir(delivery_world.directory);
}

void delivery_configure(const char *format, ...)
{
	struct fgt_config *config;
	struct fgt_why why = { "" };
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (fgt_config_load_bytes(text, strlen(text), "t.conf", &config, &why))
		fail_msg("%s", why.text);
	fgt_deliveries_configure(delivery_world.deliveries, config);
	fgt_config_free(config);
}

int delivery_memfd(const void *bytes, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

int delivery_slice_fd(void)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	int fd;

	assert_int_equal(fgt_slice_encode(slice, &sink), 0);
	fd = delivery_memfd(buffer.bytes, buffer.len);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
	return fd;
}
