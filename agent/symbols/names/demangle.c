/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling through libiberty's callback interface. Runs in the symbol
 * helper. Must not use DMGL_NO_RECURSE_LIMIT, and must not let a name that
 * expands without end run on: a few hundred bytes can stand for gigabytes.
 */
#include "agent/symbols/names/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "ringbuf/base/strings.h"

#define PLT_SUFFIX "@plt"

struct sink {
	char *text;
	size_t len, capacity;
	jmp_buf full;
};

/*
 * Leaves by longjmp when the text is full. The callback forms of libiberty
 * keep their state on the stack, so nothing but a punycode buffer of a few
 * hundred bytes can be left behind.
 */
static void take(const char *piece, size_t len, void *opaque)
{
	struct sink *sink = opaque;
	size_t room = sink->capacity - 1 - sink->len;
	size_t kept = len < room ? len : room;

	memcpy(sink->text + sink->len, piece, kept);
	sink->len += kept;
	if (kept < len)
		longjmp(sink->full, 1);
}

/* True if the name was a mangled one; its text is in the sink. */
static bool demangle_into(struct sink *sink, const char *name,
			  enum fgt_demangle mode)
{
	int options = DMGL_ANSI | (mode == FGT_DEMANGLE_FULL ? DMGL_PARAMS : 0);

	if (setjmp(sink->full))
		return true;
	/* Rust first: its legacy names are valid C++ names too. */
	if (rust_demangle_callback(name, options, take, sink))
		return true;
	sink->len = 0;
	if (strncmp(name, "_Z", 2) && strncmp(name, "_GLOBAL_", 8))
		return false;
	return cplus_demangle_v3_callback(name, options, take, sink);
}

/* Copies as much as fits, never half a UTF-8 character at the end. */
static size_t copy_text(char *text, size_t capacity, const char *from,
			size_t len)
{
	if (len > capacity - 1) {
		len = capacity - 1;
		while (len && ((unsigned char)from[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(text, from, len);
	return len;
}

void fgt_demangle_name(const char *name, enum fgt_demangle mode, char *ret_text,
		       size_t capacity)
{
	char plain[FGT_STRING_MAX];
	struct sink sink = { .text = ret_text, .capacity = capacity };
	size_t name_len = strnlen(name, sizeof(plain) - 1);
	const char *at = memchr(name, '@', name_len);
	bool is_plt = at && !strncmp(at, PLT_SUFFIX, sizeof(PLT_SUFFIX));

	if (at && at > name)
		name_len = (size_t)(at - name);
	name_len = copy_text(plain, sizeof(plain), name, name_len);
	plain[name_len] = '\0';
	if (is_plt && capacity > sizeof(PLT_SUFFIX))
		sink.capacity -= sizeof(PLT_SUFFIX) - 1;
	if (mode == FGT_DEMANGLE_NO || !demangle_into(&sink, plain, mode))
		sink.len = copy_text(ret_text, sink.capacity, plain, name_len);
	if (is_plt && sink.len + sizeof(PLT_SUFFIX) <= capacity) {
		memcpy(ret_text + sink.len, PLT_SUFFIX, sizeof(PLT_SUFFIX));
		sink.len += sizeof(PLT_SUFFIX) - 1;
	}
	ret_text[sink.len] = '\0';
}
