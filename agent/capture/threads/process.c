/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity of processes and defensive reading of their procfs files.
 * Runs in any thread; never trusts a pid alone, never a byte of procfs text.
 */
#include "agent/capture/threads/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"

#define PF_KTHREAD   0x200000u /* include/linux/sched.h */
#define ACCESS_TRIES 3

/* The numbers behind the name, by their place in proc_pid_stat(5). */
enum {
	STAT_PARENT = 4,
	STAT_FLAGS = 9,
	STAT_START_TIME = 22
};

static bool parse_uint64(const char **cursor, const char *end,
			 uint64_t *ret_value)
{
	const char *at = *cursor;
	uint64_t value = 0;

	if (at < end && *at == '-') /* tty or nice; not needed */
		at++;
	if (at == end || !isdigit((unsigned char)*at))
		return false;
	for (; at < end && isdigit((unsigned char)*at); at++) {
		unsigned int digit = (unsigned int)(*at - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*cursor = at;
	*ret_value = value;
	return true;
}

static int parse_numbers(const char *at, const char *end, struct fgt_stat *stat)
{
	for (int field = STAT_PARENT; field <= STAT_START_TIME; field++) {
		uint64_t value;

		while (at < end && *at == ' ')
			at++;
		if (!parse_uint64(&at, end, &value))
			return -EBADMSG;
		if (field == STAT_PARENT && value > INT32_MAX)
			return -EBADMSG;
		if (field == STAT_PARENT)
			stat->parent_pid = (int32_t)value;
		else if (field == STAT_FLAGS)
			stat->flags = value;
		else if (field == STAT_START_TIME)
			stat->start_time = value;
	}
	return 0;
}

int fgt_stat_parse(const char *text, size_t len, struct fgt_stat *ret_stat)
{
	struct fgt_stat stat = { 0 };
	const char *at = text, *end = text + len;
	const char *open = memchr(text, '(', len);
	const char *close = memrchr(text, ')', len);
	uint64_t id;
	size_t name_len;
	int rc;

	/* A name may itself hold ") S 1": only the last ')' counts. */
	if (!open || !close || close < open || end - close < 4 ||
	    close[1] != ' ' || close[3] != ' ')
		return -EBADMSG;
	if (!parse_uint64(&at, open, &id) || id > INT32_MAX || *text == '-')
		return -EBADMSG;
	stat.id = (int32_t)id;
	name_len = (size_t)(close - open - 1);
	if (name_len >= sizeof(stat.name))
		name_len = sizeof(stat.name) - 1;
	memcpy(stat.name, open + 1, name_len);
	stat.state = close[2];
	rc = parse_numbers(close + 3, end, &stat);
	if (rc < 0)
		return rc;
	*ret_stat = stat;
	return 0;
}

int fgt_stat_read(int dir_fd, const char *folder, int32_t id,
		  struct fgt_stat *ret_stat)
{
	char path[32], text[1024];
	int len;

	snprintf(path, sizeof(path), "%s%d/stat", folder, id);
	len = fgt_procfs_read(dir_fd, path, text, sizeof(text));
	return len < 0 ? len : fgt_stat_parse(text, (size_t)len, ret_stat);
}

/* A leader may be a zombie while the other threads live on. */
static bool is_dead(const struct fgt_stat *stat, int task_fd)
{
	struct stat status;

	if (stat->state != 'Z' && stat->state != 'X')
		return false;
	return fstat(task_fd, &status) < 0 || status.st_nlink <= 3;
}

static int explain_open(struct fgt_why *why, int32_t pid, int error)
{
	switch (error) {
	case -ENOENT:
	case -ESRCH:
		return fgt_why_set(why, -ESRCH,
				   "no process %d; find it with pgrep or ps",
				   pid);
	case -EMFILE:
	case -ENFILE:
		return fgt_why_set(why, error,
				   "process %d: out of file descriptors: raise "
				   "LimitNOFILE= or ulimit -n",
				   pid);
	default:
		return fgt_why_set(why, error, "process %d: %s", pid,
				   strerror(-error));
	}
}

static int open_directories(struct fgt_process *process)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", process->pid);
	fd = fgt_procfs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	process->proc_fd = fgt_fd_apart(fd);
	fd = fgt_procfs_open(process->proc_fd, "task", O_RDONLY | O_DIRECTORY);
	process->task_fd = fd < 0 ? fd : fgt_fd_apart(fd);
	return fd < 0 ? fd : 0;
}

/*
 * proc_fd is bound to one process for ever: after its death every access
 * answers ESRCH, also when the pid is taken again. A stat that succeeds after
 * pidfd_open() thus proves that both are of the same process.
 */
static int open_identity(struct fgt_process *process, struct fgt_why *why)
{
	struct fgt_stat before, after;
	int rc;

	rc = fgt_stat_read(process->proc_fd, "task/", process->pid, &before);
	if (rc < 0)
		return explain_open(why, process->pid, rc);
	if (before.flags & PF_KTHREAD)
		return fgt_why_set(why, -EINVAL,
				   "%d is a kernel thread: name a process of "
				   "a program",
				   process->pid);
	/* This process is alive; and under a filter it may not ask. */
	if (process->pid == getpid()) {
		process->start_time = before.start_time;
		return 0;
	}
	process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	if (process->pidfd < 0 && (errno == EINVAL || errno == ENOENT))
		return fgt_why_set(why, -EINVAL,
				   "%d is a thread, not a process: give the "
				   "number of its process",
				   process->pid);
	if (process->pidfd < 0)
		return explain_open(why, process->pid, -errno);
	fcntl(process->pidfd, F_SETFD, FD_CLOEXEC);
	rc = fgt_stat_read(process->proc_fd, "task/", process->pid, &after);
	if (rc < 0 || after.start_time != before.start_time)
		return explain_open(why, process->pid, -ESRCH);
	if (is_dead(&after, process->task_fd))
		return fgt_why_set(why, -ESRCH,
				   "process %d has ended (a zombie that its "
				   "parent has not waited for): name one "
				   "that runs",
				   process->pid);
	process->start_time = after.start_time;
	return 0;
}

int fgt_process_open(int32_t pid, struct fgt_process *ret_process,
		     struct fgt_why *why)
{
	struct fgt_process process = {
		.pid = pid, .pidfd = -1, .proc_fd = -1, .task_fd = -1
	};
	int rc;

	if (pid < 1)
		return fgt_why_set(why, -EINVAL,
				   "%d is not a process number: use one that "
				   "ps shows",
				   pid);
	if (fgt_procfs_begin(pid) < 0)
		return fgt_why_set(why, -EAGAIN,
				   "process %d does not let itself be read: a "
				   "call has not returned: end what its memory "
				   "or file system waits for",
				   pid);
	rc = open_directories(&process);
	if (rc < 0)
		explain_open(why, pid, rc == -ENOENT ? -ESRCH : rc);
	else
		rc = open_identity(&process, why);
	if (rc < 0) {
		fgt_process_close(&process);
		return rc == -ENOENT ? -ESRCH : rc;
	}
	*ret_process = process;
	return 0;
}

int fgt_process_reopen(struct fgt_process *process)
{
	fgt_fd_close(FGT_TAKE_FD(process->task_fd));
	fgt_fd_close(FGT_TAKE_FD(process->proc_fd));
	return open_directories(process);
}

void fgt_process_close(struct fgt_process *process)
{
	fgt_fd_close(process->pidfd);
	fgt_fd_close(process->task_fd);
	fgt_fd_close(process->proc_fd);
	process->pidfd = process->task_fd = process->proc_fd = -1;
}

bool fgt_process_is_alive(const struct fgt_process *process)
{
	struct pollfd poll_fd = { .fd = process->pidfd, .events = POLLIN };
	int rc;

	do {
		rc = poll(&poll_fd, 1, 0);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

static inline void close_directory(DIR *directory)
{
	if (directory)
		closedir(directory);
}
FGT_DEFINE_AUTO(DIR *, close_directory);

/* An ended thread's maps are empty; a refusal shows that there are some. */
static bool has_memory(int dir_fd)
{
	char byte[2];

	return fgt_procfs_read(dir_fd, "maps", byte, sizeof(byte)) != 0;
}

static int open_living_thread(DIR *tasks, int *ret_dir_fd, int32_t *ret_tid)
{
	struct dirent *entry;

	while ((entry = readdir(tasks))) {
		FGT_AUTO(fgt_fd_close) int fd = -1;
		int32_t tid = fgt_procfs_number(entry->d_name);

		if (tid <= 0)
			continue;
		fd = fgt_procfs_open(dirfd(tasks), entry->d_name,
				     O_RDONLY | O_DIRECTORY);
		if (fd < 0 || !has_memory(fd))
			continue;
		*ret_dir_fd = FGT_TAKE_FD(fd);
		*ret_tid = tid;
		return 0;
	}
	return -ESRCH;
}

int fgt_process_open_memory(const struct fgt_process *process, int *ret_dir_fd,
			    int32_t *ret_tid)
{
	FGT_AUTO(close_directory) DIR *tasks = NULL;
	int fd;

	if (has_memory(process->proc_fd)) {
		fd = fcntl(process->proc_fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		*ret_dir_fd = fd;
		*ret_tid = process->pid;
		return 0;
	}
	fd = fgt_procfs_open(process->proc_fd, "task", O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	tasks = fdopendir(fd);
	if (!tasks) {
		fgt_fd_close(fd);
		return -ENOMEM;
	}
	return open_living_thread(tasks, ret_dir_fd, ret_tid);
}

static int check_thread(const struct fgt_process *process, struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int dir_fd = -1;
	int32_t tid;
	int rc = fgt_process_open_memory(process, &dir_fd, &tid);

	return rc == 0 ? fgt_access_check(dir_fd, tid, why) : rc;
}

int fgt_process_check_access(const struct fgt_process *process,
			     struct fgt_why *why)
{
	int rc = check_thread(process, why);

	/* The thread that was asked may end meanwhile, the first one, too. */
	for (int i = 1;
	     i < ACCESS_TRIES && rc == -ESRCH && fgt_process_is_alive(process);
	     i++)
		rc = check_thread(process, why);
	if (rc == -ESRCH || (rc == 0 && !fgt_process_is_alive(process)))
		return fgt_why_set(why, -ESRCH, FGT_PROCESS_HAS_ENDED,
				   process->pid);
	return rc;
}

static void get_machine(struct fgt_process_info *info)
{
	struct utsname machine;

	if (uname(&machine) < 0)
		return;
	snprintf(info->host, sizeof(info->host), "%s", machine.nodename);
	snprintf(info->arch, sizeof(info->arch), "%.15s", machine.machine);
	snprintf(info->os_release, sizeof(info->os_release), "%s",
		 machine.release);
}

/* What may be read of any process; exe stays "" when it may not. */
static int get_info(int proc_fd, int32_t pid, struct fgt_process_info *info,
		    struct fgt_stat *ret_stat)
{
	int rc = fgt_stat_read(proc_fd, "task/", pid, ret_stat);

	if (rc == 0)
		rc = fgt_access_uid(proc_fd, &info->uid);
	if (rc < 0)
		return rc;
	info->pid = ret_stat->id;
	info->start_time = ret_stat->start_time;
	if (fgt_procfs_read_line(proc_fd, "comm", info->name,
				 sizeof(info->name)) < 0)
		memcpy(info->name, ret_stat->name, sizeof(info->name));
	if (fgt_procfs_link(proc_fd, "exe", info->exe, sizeof(info->exe)) < 0)
		info->exe[0] = '\0';
	return 0;
}

int fgt_process_get_info(const struct fgt_process *process,
			 struct fgt_process_info *ret_info)
{
	struct fgt_process_info info = { 0 };
	struct fgt_stat stat;
	int rc;

	rc = get_info(process->proc_fd, process->pid, &info, &stat);
	if (rc < 0)
		return rc == -ENOENT ? -ESRCH : rc;
	get_machine(&info);
	*ret_info = info;
	return 0;
}

static int visit_one(int32_t pid, const struct fgt_process_info *machine,
		     fgt_process_visit *visit, void *context)
{
	FGT_AUTO(fgt_fd_close) int proc_fd = -1;
	struct fgt_process_info info = *machine;
	struct fgt_stat stat;
	char path[32];
	int rc;

	if (fgt_procfs_begin(pid) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc_fd = fgt_procfs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	fgt_call_keep(proc_fd);
	rc = proc_fd < 0 ? proc_fd : get_info(proc_fd, pid, &info, &stat);
	fgt_call_keep(-1);
	/* Gone meanwhile, or hidden: nothing to visit. */
	if (rc < 0)
		return 0;
	if ((stat.flags & PF_KTHREAD) || stat.state == 'X')
		return 0;
	if (stat.state == 'Z' && info.exe[0] == '\0')
		return 0;
	return visit(context, &info, stat.parent_pid);
}

int fgt_process_for_each(fgt_process_visit *visit, void *context)
{
	FGT_AUTO(close_directory) DIR *directory = opendir("/proc");
	struct fgt_process_info machine = { 0 };
	struct dirent *entry;

	if (!directory)
		return -errno;
	get_machine(&machine);
	while ((entry = readdir(directory))) {
		int32_t pid = fgt_procfs_number(entry->d_name);
		int rc = pid > 0 ? visit_one(pid, &machine, visit, context) : 0;

		if (rc != 0)
			return rc;
	}
	return 0;
}
