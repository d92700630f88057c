/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks DWARF scopes. Runs where slices are resolved. Own index of units,
 * because clang and rustc leave .debug_aranges out.
 */
#include "agent/symbols/dwarf_inlines.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#define UNITS_MAX  1000000u
#define RANGES_MAX 4000000u

struct range {
	Dwarf_Addr low, high;
	Dwarf_Off die; /* offset of the unit's DIE */
};

struct fgt_cu_index {
	Dwarf *dwarf;
	struct range *ranges; /* by low */
	size_t count, capacity;
};

void fgt_cu_index_free(struct fgt_cu_index *index)
{
	if (!index)
		return;
	free(index->ranges);
	free(index);
}

static int add_range(struct fgt_cu_index *index, Dwarf_Addr low,
		     Dwarf_Addr high, Dwarf_Off die)
{
	if (index->count == index->capacity) {
		size_t capacity = index->capacity ? index->capacity * 2 : 256;
		struct range *ranges =
			realloc(index->ranges, capacity * sizeof(*ranges));

		if (!ranges)
			return -ENOMEM;
		index->ranges = ranges;
		index->capacity = capacity;
	}
	index->ranges[index->count++] =
		(struct range){ .low = low, .high = high, .die = die };
	return 0;
}

static int add_unit(struct fgt_cu_index *index, Dwarf_Die *unit)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while (index->count < RANGES_MAX &&
	       (at = dwarf_ranges(unit, at, &base, &low, &high)) > 0) {
		/* Functions the linker dropped are listed at 0. */
		if (low == 0 || high <= low)
			continue;
		if (add_range(index, low, high, dwarf_dieoffset(unit)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int by_low(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->low < b->low ? -1 : a->low > b->low;
}

int fgt_cu_index_new(Dwarf *dwarf, struct fgt_cu_index **ret_index)
{
	FGT_AUTO(fgt_cu_index_free) struct fgt_cu_index *index = NULL;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;

	index = calloc(1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	index->dwarf = dwarf;
	for (size_t i = 0; i < UNITS_MAX; i++) {
		if (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die,
				    NULL) != 0)
			break;
		if (type == DW_UT_compile && add_unit(index, &die) < 0)
			return -ENOMEM;
	}
	if (index->count)
		qsort(index->ranges, index->count, sizeof(*index->ranges),
		      by_low);
	*ret_index = FGT_TAKE(index);
	return 0;
}

static bool find_unit(const struct fgt_cu_index *index, Dwarf_Addr address,
		      Dwarf_Die *ret_unit)
{
	size_t low = 0, high = index->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (index->ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && index->ranges[low - 1].high > address &&
	       dwarf_offdie(index->dwarf, index->ranges[low - 1].die,
			    ret_unit) != NULL;
}

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		name = dwarf_formstring(&attribute);
	if (!name && dwarf_attr_integrate(die, DW_AT_name, &attribute))
		name = dwarf_formstring(&attribute);
	return name;
}

/* Where an inlined call stands in its caller. */
static void get_call_site(Dwarf_Die *die, Dwarf_Files *files, size_t file_count,
			  struct fgt_found_symbol *caller)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute),
			    &value) == 0)
		caller->line = (uint32_t)value;
	if (files &&
	    dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute),
			    &value) == 0 &&
	    value < file_count)
		caller->file = dwarf_filesrc(files, (size_t)value, NULL, NULL);
}

static void get_line(Dwarf_Die *unit, Dwarf_Addr address,
		     struct fgt_found_symbol *found)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int number = 0;

	if (!line)
		return;
	found->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		found->line = (uint32_t)number;
}

/* The chain of scopes that are really nested in the code: libdw's list by
 * address follows the inlined function's definition instead. */
static int concrete_scopes(Dwarf *dwarf, Dwarf_Die *unit, Dwarf_Addr address,
			   Dwarf_Die **ret_scopes)
{
	Dwarf_Die *by_address = NULL, innermost;
	int count = dwarf_getscopes(unit, address, &by_address);
	FGT_AUTO(free) void *owned = by_address;

	if (count <= 0 ||
	    !dwarf_offdie(dwarf, dwarf_dieoffset(&by_address[0]), &innermost))
		return 0;
	return dwarf_getscopes_die(&innermost, ret_scopes);
}

size_t fgt_cu_index_find(const struct fgt_cu_index *index, Dwarf_Addr address,
			 struct fgt_found_symbol *found)
{
	Dwarf_Die unit, *scopes = NULL;
	size_t depth = 0, file_count = 0;
	Dwarf_Files *files = NULL;
	int count;

	if (!find_unit(index, address, &unit))
		return 0;
	found[0] = (struct fgt_found_symbol){ 0 };
	get_line(&unit, address, &found[0]);
	dwarf_getsrcfiles(&unit, &files, &file_count);
	count = concrete_scopes(index->dwarf, &unit, address, &scopes);
	FGT_AUTO(free) void *owned = scopes;

	for (int i = 0; i < count && depth < FGT_INLINE_DEPTH_MAX; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag != DW_TAG_inlined_subroutine &&
		    tag != DW_TAG_subprogram)
			continue;
		found[depth].function = name_of(&scopes[i]);
		if (!found[depth].function)
			return 0;
		depth++;
		if (tag == DW_TAG_subprogram || depth == FGT_INLINE_DEPTH_MAX)
			break;
		found[depth] = (struct fgt_found_symbol){ 0 };
		get_call_site(&scopes[i], files, file_count, &found[depth]);
	}
	return depth;
}
