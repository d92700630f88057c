/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of descriptors, as programs and the kernel have them. Runs in the
 * sampler's thread; must not trust what it reads of a target, nor read more of
 * it than is stated here.
 */
#include "agent/capture/waits/polled.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Those of longer arrays are counted by the call's own number. */
#define POLL_READ 64u
/* glibc's fd_set; what lies behind it is left out. */
#define SELECT_BITS  1024u
#define SELECT_WORDS (SELECT_BITS / 64)
/* Of the kernel's list of an epoll descriptor: some 90 entries. */
#define EPOLL_BYTES   8192u
#define EPOLL_PREFIX  "tfd:"
#define NAME_SHOWN    48 /* bytes of a file's name */
#define NUMBER_DIGITS 10 /* of UINT32_MAX */
#define MORE_ROOM     (sizeof(" and  more") + NUMBER_DIGITS)

/* Keeps the lowest ones. */
static void add(struct fgt_polled *polled, int32_t descriptor)
{
	int32_t *kept = polled->descriptors;
	uint32_t at = polled->count;

	polled->total++;
	while (at && kept[at - 1] > descriptor)
		at--;
	if (at == FGT_POLLED_SHOWN)
		return;
	if (polled->count < FGT_POLLED_SHOWN)
		polled->count++;
	memmove(&kept[at + 1], &kept[at],
		(polled->count - 1 - at) * sizeof(*kept));
	kept[at] = descriptor;
}

bool fgt_polled_read_poll(const uint64_t args[6],
			  const struct fgt_wait_source *source,
			  struct fgt_polled *ret_polled)
{
	struct fgt_polled polled = { 0 };
	struct pollfd entries[POLL_READ];
	uint64_t count = args[1] < POLL_READ ? args[1] : POLL_READ;

	if (!count || !source->read(source->context, args[0], entries,
				    count * sizeof(*entries)))
		return false;
	for (uint64_t i = 0; i < count; i++)
		if (entries[i].fd >= 0) /* others are ignored */
			add(&polled, entries[i].fd);
	if (args[1] > count && args[1] <= INT32_MAX)
		polled.total += (uint32_t)(args[1] - count);
	*ret_polled = polled;
	return true;
}

bool fgt_polled_read_select(const uint64_t args[6],
			    const struct fgt_wait_source *source,
			    struct fgt_polled *ret_polled)
{
	struct fgt_polled polled = { 0 };
	uint64_t words[SELECT_WORDS], all[SELECT_WORDS] = { 0 };
	uint32_t bits = args[0] < SELECT_BITS ? (uint32_t)args[0] : SELECT_BITS;
	uint32_t count = (bits + 63) / 64;

	for (size_t set = 1; set <= 3; set++) {
		if (!args[set])
			continue;
		if (!source->read(source->context, args[set], words,
				  count * sizeof(*words)))
			return false;
		for (uint32_t i = 0; i < count; i++)
			all[i] |= words[i];
	}
	for (uint32_t i = 0; i < bits; i++)
		if (all[i / 64] >> i % 64 & 1)
			add(&polled, (int32_t)i);
	polled.is_cut = args[0] > SELECT_BITS;
	*ret_polled = polled;
	return true;
}

bool fgt_polled_read_epoll(int32_t descriptor,
			   const struct fgt_wait_source *source,
			   struct fgt_polled *ret_polled)
{
	struct fgt_polled polled = { 0 };
	char text[EPOLL_BYTES], *line = text, *end;
	int len;

	if (!source->list_epoll)
		return false;
	len = source->list_epoll(source->context, descriptor, text,
				 sizeof(text));
	if (len < 0)
		return false;
	/* The last line may be a part. */
	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (strncmp(line, EPOLL_PREFIX, strlen(EPOLL_PREFIX)) == 0)
			add(&polled,
			    (int32_t)strtol(line + strlen(EPOLL_PREFIX), NULL,
					    10));
	}
	polled.is_cut = (size_t)len >= sizeof(text) - 1;
	*ret_polled = polled;
	return true;
}

/* "pipe:[12]" → pipe, "anon_inode:[eventfd]" → eventfd, "/a/b" → b; a socket
 * keeps its number: where it leads is found by that. */
static void shorten(char *text)
{
	static const char anonymous[] = "anon_inode:";
	const char *name = text, *slash;
	size_t len;

	if (strncmp(name, "socket:[", 8) == 0)
		return;
	if (strncmp(name, anonymous, strlen(anonymous)) == 0)
		name += strlen(anonymous);
	slash = *name == '/' ? strrchr(name, '/') : NULL;
	if (slash && slash[1] && strncmp(text, "/dev/", 5) != 0)
		name = slash + 1;
	len = strncmp(name, "pipe:[", 6) == 0 ? 4 : strlen(name);
	if (*name == '[')
		len = strcspn(++name, "]");
	if (len > NAME_SHOWN)
		len = NAME_SHOWN;
	memmove(text, name, len);
	text[len] = '\0';
}

/* The entry with what comes before it. */
static size_t write_entry(const struct fgt_polled *polled, uint32_t at,
			  const struct fgt_wait_source *source,
			  char entry[FGT_WAIT_TEXT_MAX])
{
	int32_t descriptor = polled->descriptors[at];
	const char *before = at			  ? ", "
			     : polled->total == 1 ? "descriptor "
						  : "descriptors ";
	char name[FGT_WAIT_TEXT_MAX];
	int len;

	if (source->names_polled && source->describe &&
	    source->describe(source->context, descriptor, name, sizeof(name))) {
		shorten(name);
		len = snprintf(entry, FGT_WAIT_TEXT_MAX, "%s%" PRId32 " (%s)",
			       before, descriptor, name);
	} else {
		len = snprintf(entry, FGT_WAIT_TEXT_MAX, "%s%" PRId32, before,
			       descriptor);
	}
	return (size_t)len;
}

void fgt_polled_write(const struct fgt_polled *polled,
		      const struct fgt_wait_source *source, const char *before,
		      char text[FGT_WAIT_TEXT_MAX])
{
	size_t len, entry_len;
	char entry[FGT_WAIT_TEXT_MAX];
	uint32_t shown = 0;

	text[0] = '\0';
	if (!polled->count)
		return;
	len = (size_t)snprintf(text, FGT_WAIT_TEXT_MAX, "%s", before);
	for (; shown < polled->count; shown++) {
		entry_len = write_entry(polled, shown, source, entry);
		if (len + entry_len + MORE_ROOM > FGT_WAIT_TEXT_MAX)
			break;
		memcpy(text + len, entry, entry_len + 1);
		len += entry_len;
	}
	if (polled->is_cut)
		snprintf(text + len, FGT_WAIT_TEXT_MAX - len, " and more");
	else if (shown < polled->total)
		snprintf(text + len, FGT_WAIT_TEXT_MAX - len, " and %u more",
			 polled->total - shown);
}
