/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads snapshots and mapped files for the unwinder. Runs in the sampler's
 * thread; must not touch the live process.
 */
#include "agent/unwind/view.h"

#include <errno.h>
#include <string.h>

#define CALL_BYTES_MAX	8u
#define PLT_ENTRY_BYTES 20u

/* Takes a word out of [start, start + len). */
static bool take_word(const uint8_t *bytes, uint64_t start, size_t len,
		      uint64_t address, uint64_t *ret_word)
{
	uint64_t at = address - start;

	if (address < start || at > len || len - at < sizeof(*ret_word))
		return false;
	memcpy(ret_word, bytes + at, sizeof(*ret_word));
	return true;
}

uint64_t fgt_view_stack_end(const struct fgt_view *view)
{
	const struct fgt_snapshot *snapshot = view->snapshot;
	uint64_t copied_end = snapshot->stack_start + snapshot->stack_len;
	uint64_t end = snapshot->stack_limit;

	/* The limit may be a guess, and another stack lies below it. */
	if (view->other_start > snapshot->stack_start &&
	    view->other_start < end)
		end = view->other_start;
	return end > copied_end ? end : copied_end;
}

/* Reads a word of the stack that a signal frame led to. */
static int read_other(struct fgt_view *view, uint64_t address,
		      uint64_t *ret_word)
{
	const struct fgt_snapshot *snapshot = view->snapshot;
	uint64_t end = address + sizeof(*ret_word);

	if (snapshot->other &&
	    take_word(snapshot->other, snapshot->other_start,
		      snapshot->other_len, address, ret_word))
		return 0;
	if (!view->other_start || address < view->other_start ||
	    end - view->other_start > FGT_SNAPSHOT_MAX_BYTES)
		return -EFAULT;
	if (end > view->need_other_end)
		view->need_other_end = end;
	return -ENODATA;
}

int fgt_view_read_stack(struct fgt_view *view, uint64_t address,
			uint64_t *ret_word)
{
	const struct fgt_snapshot *snapshot = view->snapshot;
	uint64_t end = fgt_view_stack_end(view);

	if (take_word(snapshot->stack, snapshot->stack_start,
		      snapshot->stack_len, address, ret_word))
		return 0;
	if (address < snapshot->stack_start || address >= end ||
	    end - address < sizeof(*ret_word))
		return read_other(view, address, ret_word);
	if (address + sizeof(*ret_word) > view->need_end)
		view->need_end = address + sizeof(*ret_word);
	return -ENODATA;
}

int fgt_view_read_word(struct fgt_view *view, uint64_t address,
		       uint64_t *ret_word)
{
	uint8_t bytes[sizeof(*ret_word)];
	int r;

	if (++view->accesses > FGT_VIEW_ACCESSES_MAX)
		return -EOVERFLOW;
	r = fgt_view_read_stack(view, address, ret_word);
	if (r != -EFAULT)
		return r;
	if (fgt_view_read_code(view, address, bytes, sizeof(bytes)) !=
	    sizeof(bytes))
		return -EFAULT;
	memcpy(ret_word, bytes, sizeof(bytes));
	return 0;
}

/* The file at an address of an executable mapping and its bias. */
static struct fgt_image_file *find_file(const struct fgt_view *view,
					uint64_t address, uint64_t *ret_bias)
{
	const struct fgt_mapping *mapping = fgt_maps_find(view->maps, address);

	if (!mapping || mapping->image == FGT_MAPS_NO_IMAGE)
		return NULL;
	*ret_bias = view->maps->images[mapping->image].image.bias;
	return view->maps->images[mapping->image].file;
}

size_t fgt_view_read_code(const struct fgt_view *view, uint64_t address,
			  uint8_t *buffer, size_t len)
{
	struct fgt_image_file *file;
	uint64_t bias;

	file = find_file(view, address, &bias);
	if (!file)
		return 0;
	return fgt_image_file_read(file, address - bias, buffer, len);
}

void fgt_view_init(struct fgt_view *view, const struct fgt_maps *maps,
		   const struct fgt_snapshot *snapshot,
		   struct fgt_view_places *places, struct fgt_cfi_rows *rows)
{
	/* Not by pointer: new maps may lie where old ones did. */
	if (places->maps_serial != maps->serial) {
		memset(places, 0, sizeof(*places));
		places->maps_serial = maps->serial;
	}
	memset(view, 0, sizeof(*view));
	view->maps = maps;
	view->snapshot = snapshot;
	view->places = places;
	view->rows = rows;
}

const struct fgt_view_place *fgt_view_search_place(struct fgt_view *view,
						   uint64_t address)
{
	struct fgt_view_places *places = view->places;
	const struct fgt_mapping *mapping;
	struct fgt_view_place *place;

	for (unsigned int i = 0; i < FGT_VIEW_PLACES; i++) {
		place = &places->places[i];
		if (address - place->start < place->end - place->start) {
			places->last = i;
			return place;
		}
	}
	mapping = fgt_maps_find(view->maps, address);
	if (!mapping)
		return NULL;
	places->last = places->turn++ % FGT_VIEW_PLACES;
	place = &places->places[places->last];
	*place = (struct fgt_view_place){
		.start = mapping->start,
		.end = mapping->end,
		.is_executable = mapping->is_executable,
	};
	place->file = find_file(view, address, &place->bias);
	if (place->file)
		place->serial = fgt_image_file_serial(place->file);
	return place;
}

bool fgt_view_is_code(struct fgt_view *view, uint64_t address)
{
	const struct fgt_view_place *place = fgt_view_find_place(view, address);

	return place && place->is_executable;
}

/* Instructions that are interpreted cost as much as libunwind's side pays. */
static bool take_work(struct fgt_view *view, const struct fgt_cfi_rule *rule)
{
	size_t words = (rule->common_len + rule->instructions_len) / 8 + 1;

	if (view->accesses + words > FGT_VIEW_ACCESSES_MAX)
		return false;
	view->accesses += (unsigned int)words;
	return true;
}

/* False: not to be kept, of another stack it may be read. */
static bool read_row(struct fgt_view *view, struct fgt_image_file *file,
		     uint64_t address, struct fgt_cfi_row *ret_row)
{
	static const struct fgt_cfi_row complex = {
		.flags = FGT_CFI_ROW_COMPLEX,
	};
	struct fgt_cfi_rule rule;
	int r = fgt_image_file_find_rule(file, address, &rule);

	if (r == -EIO || (r == 0 && !take_work(view, &rule))) {
		if (r == -EIO)
			fgt_image_file_count_late(file);
		*ret_row = complex;
		return false;
	}
	if (r < 0) {
		/* Broken rules too: libunwind's side returns the reason. */
		if (r != -ENOENT)
			*ret_row = complex;
		return true;
	}
	if (fgt_cfi_row_read(&rule, address, ret_row) < 0)
		*ret_row = complex;
	fgt_image_file_fix_row(file, address, ret_row);
	if (rule.is_signal_frame)
		ret_row->flags |= FGT_CFI_ROW_SIGNAL;
	return true;
}

struct fgt_cfi_row fgt_view_find_row(struct fgt_view *view, uint64_t address)
{
	const struct fgt_view_place *place = fgt_view_find_place(view, address);
	struct fgt_cfi_row row = { .flags = FGT_CFI_ROW_NONE };
	const struct fgt_cfi_row *kept;
	int r;

	if (!place || !place->file)
		return row;
	address -= place->bias;
	kept = fgt_cfi_rows_find(view->rows, place->serial, address);
	if (kept)
		return *kept;
	r = fgt_image_file_find_row(place->file, address, &row);
	if (r == -ENOSYS ? !read_row(view, place->file, address, &row) : r < 0)
		return row;
	fgt_cfi_rows_put(view->rows, place->serial, address, &row);
	return row;
}

int fgt_view_find_function(const struct fgt_view *view, uint64_t address,
			   bool has_saved,
			   struct fgt_image_function *ret_function)
{
	struct fgt_image_function function;
	struct fgt_image_file *file;
	uint64_t bias;
	int r;

	file = find_file(view, address, &bias);
	if (!file)
		return -ENOENT;
	r = fgt_image_file_find_function(file, address - bias, has_saved,
					 &function);
	if (r < 0)
		return r;
	function.start += bias;
	function.end += bias;
	*ret_function = function;
	return 0;
}

int fgt_view_find_rule(const struct fgt_view *view, uint64_t address,
		       struct fgt_cfi_rule *ret_rule)
{
	struct fgt_image_file *file;
	struct fgt_cfi_rule rule;
	uint64_t bias;
	int r;

	file = find_file(view, address, &bias);
	if (!file)
		return -ENOENT;
	r = fgt_image_file_find_rule(file, address - bias, &rule);
	if (r < 0)
		return r;
	rule.start += bias;
	rule.end += bias;
	*ret_rule = rule;
	return 0;
}

/* Code of a JIT, or of a file that could not be opened. */
static bool is_unreadable_code(const struct fgt_view *view, uint64_t address)
{
	const struct fgt_mapping *mapping = fgt_maps_find(view->maps, address);

	return mapping && mapping->is_executable &&
	       (mapping->image == FGT_MAPS_NO_IMAGE ||
		!view->maps->images[mapping->image].file);
}

int fgt_view_find_call(const struct fgt_view *view, uint64_t return_pc,
		       uint64_t *ret_target)
{
	uint8_t code[CALL_BYTES_MAX], entry[PLT_ENTRY_BYTES];
	uint64_t target;
	size_t len;

	if (is_unreadable_code(view, return_pc)) {
		*ret_target = 0;
		return 1;
	}
	/* A call that starts its segment has fewer bytes before it: rare. */
	if (fgt_view_read_code(view, return_pc - sizeof(code), code,
			       sizeof(code)) != sizeof(code) ||
	    !fgt_arch_host.call_before(code, sizeof(code), return_pc, &target))
		return 0;
	if (target) {
		/* What lies behind a PLT entry is not to be seen from here. */
		len = fgt_view_read_code(view, target, entry, sizeof(entry));
		if (fgt_arch_host.is_indirect_jump(entry, len))
			target = 0;
	}
	*ret_target = target;
	return 1;
}
