/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel's half of switches.bpf.c. Runs in the sampler's thread.
 */
#include "agent/capture/who_ran/switches_asked.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <unistd.h>

static int open_pass(struct bpf_program *program, int32_t pid,
		     struct bpf_link **ret_link)
{
	union bpf_iter_link_info info = { .task = { .pid = (uint32_t)pid } };
	LIBBPF_OPTS(bpf_iter_attach_opts, options);
	struct bpf_link *link;
	int fd;

	/* Not in the declaration: libbpf wants the padding to be zero too. */
	options.link_info = &info;
	options.link_info_len = sizeof(info);
	link = bpf_program__attach_iter(program, &options);
	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		bpf_link__destroy(link);
	else
		*ret_link = link;
	return fd;
}

int fgt_switches_hand_over(
	struct bpf_program *program, int32_t pid,
	void (*asleep)(void *context, const struct fgt_switch_sleeper *sleeper),
	void *context)
{
	struct fgt_switch_sleeper sleepers[128];
	struct bpf_link *link;
	ssize_t len;
	int fd, rc;

	fd = open_pass(program, pid, &link);
	if (fd < 0)
		return fd == -EINVAL || fd == -E2BIG ? -EOPNOTSUPP : fd;
	/* The kernel hands out whole records. */
	while ((len = read(fd, sleepers, sizeof(sleepers))) > 0)
		for (size_t i = 0; i < (size_t)len / sizeof(sleepers[0]); i++)
			asleep(context, &sleepers[i]);
	rc = len < 0 ? -errno : 0;
	close(fd);
	bpf_link__destroy(link);
	return rc;
}

int fgt_switches_find_socket(const struct bpf_program *program,
			     struct fgt_switch_socket *socket)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = socket,
		    .ctx_size_in = sizeof(*socket));
	int fd = bpf_program__fd(program);

	return fd < 0 ? -ENOENT : bpf_prog_test_run_opts(fd, &options);
}
