/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends datagrams to the service manager. Any thread; must not wait.
 */
#include "agent/daemon/loop/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

static uint64_t read_number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

static void take_watchdog(struct fgt_notify *notify)
{
	uint64_t pid = read_number("WATCHDOG_PID");
	uint64_t us = read_number("WATCHDOG_USEC");

	if ((pid == 0 || pid == (uint64_t)getpid()) && us < UINT64_MAX / 1000)
		notify->watchdog_ns = us * 1000;
}

/* '@' stands for the NUL of an abstract name. */
static void take_address(struct fgt_notify *notify)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(notify->address.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	notify->address.sun_family = AF_UNIX;
	memcpy(notify->address.sun_path, path, len);
	if (path[0] == '@')
		notify->address.sun_path[0] = '\0';
	notify->address_len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
			    (path[0] == '/'));
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void fgt_notify_open(struct fgt_notify *ret_notify)
{
	*ret_notify = (struct fgt_notify){ .fd = -1 };
	take_address(ret_notify);
	if (ret_notify->fd >= 0)
		take_watchdog(ret_notify);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void fgt_notify_close(struct fgt_notify *notify)
{
	fgt_fd_close(FGT_TAKE_FD(notify->fd));
}

void fgt_notify_send(const struct fgt_notify *notify, const char *text)
{
	if (notify->fd >= 0)
		(void)!sendto(notify->fd, text, strlen(text),
			      MSG_DONTWAIT | MSG_NOSIGNAL,
			      (const struct sockaddr *)&notify->address,
			      notify->address_len);
}

void fgt_notify_reloading(const struct fgt_notify *notify, uint64_t now_ns)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(now_ns / 1000));
	fgt_notify_send(notify, text);
}
