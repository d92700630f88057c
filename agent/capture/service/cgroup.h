/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has started a process, by its cgroup: a systemd unit, or a container.
 */
#ifndef FGT_AGENT_CAPTURE_SERVICE_CGROUP_H
#define FGT_AGENT_CAPTURE_SERVICE_CGROUP_H

#include "ringbuf/slice/service.h"

/*
 * Sets unit and container by the text of /proc/PID/cgroup, NUL-terminated.
 * A container is the innermost component of a path that holds 64 hexadecimal
 * digits, as those of Docker, Podman, containerd and CRI-O do. The unit is the
 * innermost ".service" that is no user's manager, outside of containers.
 *
 * MT-Safe | AS-Safe
 */
void fgt_cgroup_parse(const char *text, struct fgt_service *service);

/* The same of a directory /proc/PID; no change where it cannot be read.
 * MT-Safe | AS-Unsafe */
void fgt_cgroup_read(int proc_fd, struct fgt_service *service);

#endif
