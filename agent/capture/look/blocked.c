/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of sleeping threads. Runs in the sampler's thread; must never send
 * a signal to a target nor stop it.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/unwind/arch/memory.h"

#define CALL_WORDS    8 /* six arguments, SP, PC */
#define NO_CALL_WORDS 2

static int hex_digit(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* " 0x" and digits, as the kernel writes them: strtoull() takes 20 instructions
 * for each of them. Behind them; NULL: malformed. */
static const char *parse_word(const char *at, uint64_t *ret_word)
{
	uint64_t word = 0;
	int digit;

	if (at[0] != ' ' || at[1] != '0' || at[2] != 'x' ||
	    hex_digit(at[3]) < 0)
		return NULL;
	for (at += 3; (digit = hex_digit(*at)) >= 0; at++) {
		if (word >> 60)
			return NULL;
		word = word << 4 | (uint64_t)digit;
	}
	*ret_word = word;
	return at;
}

static int parse_words(const char *at, int count, struct fgt_blocked *blocked)
{
	uint64_t words[CALL_WORDS];

	for (int i = 0; i < count; i++) {
		at = parse_word(at, &words[i]);
		if (!at)
			return -EBADMSG;
	}
	if (*at != '\n' && *at != '\0')
		return -EBADMSG;
	if (count == CALL_WORDS)
		memcpy(blocked->args, words, sizeof(blocked->args));
	blocked->sp = words[count - 2];
	blocked->pc = words[count - 1];
	return 0;
}

int fgt_blocked_parse(const char *text, struct fgt_blocked *ret_blocked)
{
	struct fgt_blocked blocked = { 0 };
	char *end;
	long call;
	int rc;

	if (strncmp(text, "running", 7) == 0) {
		blocked.is_running = true;
		*ret_blocked = blocked;
		return 0;
	}
	errno = 0;
	call = strtol(text, &end, 10);
	if (errno || end == text || call < -1 || call > INT32_MAX)
		return -EBADMSG;
	blocked.call = (int32_t)call;
	rc = parse_words(end, call < 0 ? NO_CALL_WORDS : CALL_WORDS, &blocked);
	if (rc < 0)
		return rc;
	*ret_blocked = blocked;
	return 0;
}

int fgt_blocked_read(struct fgt_thread_table *threads,
		     struct fgt_thread *thread,
		     char ret_text[FGT_BLOCKED_TEXT_MAX])
{
	int rc = fgt_fd_budget_read(
		threads->budget, &thread->active->syscall_fd, threads->task_fd,
		thread->tid, "syscall", ret_text, FGT_BLOCKED_TEXT_MAX);

	return rc == -ENOENT ? -ESRCH : rc;
}

int fgt_blocked_look(struct fgt_thread_table *threads,
		     struct fgt_thread *thread, struct fgt_blocked *ret_blocked)
{
	char text[FGT_BLOCKED_TEXT_MAX];
	int rc = fgt_blocked_read(threads, thread, text);

	if (rc < 0)
		return rc;
	rc = fgt_blocked_parse(text, ret_blocked);
	if (rc < 0)
		fgt_fd_budget_doubt(threads->budget,
				    &thread->active->syscall_fd);
	return rc;
}

/* For the source that signals threads of this process. */
static void note_call(int32_t call, struct fgt_thread *thread)
{
	if (call == SYS_rt_sigtimedwait)
		thread->takes_signals = true;
	/* Inside its wait it runs what a timer on the thread's CPU time has
	 * left to be done, and ends with EINTR. */
	if (call == SYS_io_uring_enter)
		thread->is_fragile = true;
}

uint32_t fgt_blocked_state(const struct fgt_blocked *blocked,
			   struct fgt_thread *thread)
{
	uint32_t state;

	if (blocked->call < 0)
		return FGT_STATE_PAGE_FAULT;
	if (blocked->call > (int32_t)(FGT_STATE_MAX - FGT_STATE_SYSCALL_FIRST))
		return FGT_STATE_UNKNOWN;
	note_call(blocked->call, thread);
	state = FGT_STATE_SYSCALL_FIRST + (uint32_t)blocked->call;
	if (thread->call_state && blocked->call == SYS_restart_syscall)
		return thread->call_state;
	thread->call_state = (uint16_t)state;
	return state;
}

char fgt_blocked_letter(const struct fgt_thread_table *threads, int32_t tid)
{
	struct fgt_stat stat;

	if (fgt_stat_read(threads->task_fd, "", tid, &stat) < 0)
		return 0;
	return stat.state;
}

int64_t fgt_blocked_copy(int32_t tid, uint64_t sp, uint8_t *buffer, size_t size)
{
	int64_t len = fgt_memory_read(tid, sp, buffer, size);

	if (len < 0)
		return len;
	return len < 8 ? -EFAULT : len;
}
