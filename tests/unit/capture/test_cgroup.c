/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/service/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define INNER_ID                                                               \
	"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void assert_found(const char *text, const char *unit,
			 const char *container)
{
	struct fgt_service service = { .unit = "" };

	fgt_cgroup_parse(text, &service);
	assert_string_equal(service.unit, unit);
	assert_string_equal(service.container, container);
}

static void unit_is_the_innermost_service(void **state)
{
	(void)state;
	assert_found("0::/system.slice/nginx.service\n", "nginx.service", "");
	assert_found("0::/system.slice/system-postgresql.slice/"
		     "postgresql@15-main.service\n",
		     "postgresql@15-main.service", "");
	assert_found("0::/user.slice/user-1000.slice/user@1000.service/"
		     "app.slice/shop.service/worker\n",
		     "shop.service", "");
	assert_found("0::/user.slice/user-1000.slice/user@1000.service/"
		     "init.scope\n",
		     "", "");
	assert_found("0::/user.slice/user-1000.slice/session-3.scope\n", "",
		     "");
	assert_found("0::/.service\n", "", "");
}

static void container_is_known_by_its_id(void **state)
{
	(void)state;
	assert_found("0::/system.slice/docker-" ID ".scope\n", "", ID);
	assert_found("0::/docker/" ID "\n", "", ID);
	assert_found("0::/user.slice/user@1000.service/user.slice/libpod-" ID
		     ".scope/container\n",
		     "", ID);
	assert_found("0::/kubepods.slice/kubepods-burstable.slice/"
		     "kubepods-burstable-pod1_2.slice/cri-containerd-" ID
		     ".scope\n",
		     "", ID);
	assert_found("0::/docker/" ID "/docker/" INNER_ID "\n", "", INNER_ID);
}

static void unit_around_a_container_or_in_it_is_not_the_process_s(void **state)
{
	(void)state;
	assert_found("0::/system.slice/containerd.service/kubepods/" ID "\n",
		     "", ID);
	assert_found("0::/docker/" ID "/system.slice/nginx.service\n", "", ID);
}

static void all_lines_of_older_hierarchies_count(void **state)
{
	(void)state;
	assert_found("12:cpuset:/\n4:memory:/docker/" ID "\n"
		     "1:name=systemd:/system.slice/nginx.service\n0::/\n",
		     "", ID);
	assert_found("12:cpuset:/\n1:name=systemd:/system.slice/a.service\n",
		     "a.service", "");
}

static void other_text_gives_nothing(void **state)
{
	(void)state;
	assert_found("", "", "");
	assert_found("\n\n::\n:\n0:\n", "", "");
	assert_found("0::/", "", "");
	assert_found("0::/" ID "0\n", "", ""); /* 65 digits */
	assert_found("0::" ID, "", ID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unit_is_the_innermost_service),
		cmocka_unit_test(container_is_known_by_its_id),
		cmocka_unit_test(
			unit_around_a_container_or_in_it_is_not_the_process_s),
		cmocka_unit_test(all_lines_of_older_hierarchies_count),
		cmocka_unit_test(other_text_gives_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
