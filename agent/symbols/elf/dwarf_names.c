/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks DWARF through libdw. Runs in the symbol helper; must bound every walk
 * in entries and in time. Builds its tables (units by address at first use,
 * functions of a unit when an address falls into it): clang and rustc write no
 * .debug_aranges, and dwarf_getscopes() walks a whole unit for each address.
 */
#include "agent/symbols/elf/dwarf_names.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/symbols/elf/dwarf_sections.h"
#include "agent/symbols/elf/intervals.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"

#define UNITS_MAX   (256u << 10)
#define RANGES_MAX  65536 /* of one entry */
#define WALK_DEPTH  64 /* namespaces, classes and functions */
#define SCOPE_DEPTH 192 /* lexical blocks and inlined calls */
#define INLINES_MAX 64
#define CLOCK_EVERY 1024 /* entries between two looks at the clock */
#define ORIGINS_MAX 8 /* from an inlined call to its declaration */
#define NAME_BYTES  1024 /* of a name with its scopes */

struct unit {
	Dwarf_Off entry;
	struct fgt_intervals functions; /* value: offset of the entry */
	bool is_loaded;
	bool has_lines; /* its directory is a string that ends */
};

struct fgt_dwarf_names {
	Dwarf *dwarf, *alt;
	struct unit *units;
	size_t unit_count, unit_capacity;
	struct fgt_intervals ranges; /* value: index of the unit */
	struct fgt_dwarf_strings strings;
	char texts[INLINES_MAX + 1][NAME_BYTES]; /* names with scopes */
	size_t text_count;
	bool is_indexed, is_off;
	uint64_t deadline_ns;
	uint32_t visited;
};

/* Inlined calls around an address, outermost first. */
struct scopes {
	uint64_t address;
	Dwarf_Die inlined[INLINES_MAX];
	size_t count;
};

/* Counts one entry as visited; false once the time is over. */
static bool may_go_on(struct fgt_dwarf_names *names)
{
	if (names->is_off)
		return false;
	if (names->visited++ % CLOCK_EVERY)
		return true;
	if (fgt_clock_ns(CLOCK_MONOTONIC) > names->deadline_ns)
		names->is_off = true;
	return !names->is_off;
}

/* Adds the address ranges of an entry. */
static int add_ranges(struct fgt_dwarf_names *names, Dwarf_Die *entry,
		      struct fgt_intervals *intervals, uint64_t value)
{
	Dwarf_Addr base = 0, low = 0, high = 0;
	ptrdiff_t at = 0;
	int error = 0;

	for (size_t i = 0; i < RANGES_MAX && !error && may_go_on(names); i++) {
		at = dwarf_ranges(entry, at, &base, &low, &high);
		if (at <= 0)
			break;
		/* Linkers leave 0 where they threw a function away. */
		if (low)
			error = fgt_intervals_add(intervals, low, high, value);
	}
	return error;
}

static int add_unit(struct fgt_dwarf_names *names, Dwarf_Die *entry)
{
	if (names->unit_count >= UNITS_MAX)
		return -EFBIG;
	if (FGT_ARRAY_GROW(names->units, names->unit_count,
			   names->unit_capacity))
		return -ENOMEM;
	names->units[names->unit_count] =
		(struct unit){ .entry = dwarf_dieoffset(entry) };
	return add_ranges(names, entry, &names->ranges, names->unit_count++);
}

static void index_units(struct fgt_dwarf_names *names)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die entry;
	uint8_t type;
	int error = 0;

	names->is_indexed = true;
	while (!error && may_go_on(names) &&
	       !dwarf_get_units(names->dwarf, unit, &unit, NULL, &type, &entry,
				NULL))
		if (dwarf_tag(&entry) == DW_TAG_compile_unit)
			error = add_unit(names, &entry);
	if (error == -ENOMEM)
		names->is_off = true;
	fgt_intervals_sort(&names->ranges);
}

static bool may_hold_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
	       tag == DW_TAG_union_type;
}

static int load_functions(struct fgt_dwarf_names *names, struct unit *unit,
			  Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die entry;
	int error = 0;

	if (depth > WALK_DEPTH || dwarf_child(parent, &entry))
		return 0;
	do {
		int tag = dwarf_tag(&entry);

		if (tag == DW_TAG_subprogram)
			error = add_ranges(names, &entry, &unit->functions,
					   dwarf_dieoffset(&entry));
		else if (may_hold_functions(tag))
			error = load_functions(names, unit, &entry, depth + 1);
	} while (!error && may_go_on(names) &&
		 !dwarf_siblingof(&entry, &entry));
	return error;
}

static struct unit *find_unit(struct fgt_dwarf_names *names, uint64_t address,
			      Dwarf_Die *ret_entry)
{
	const struct fgt_interval *range;
	struct unit *unit;

	if (!names->is_indexed)
		index_units(names);
	range = fgt_intervals_find(&names->ranges, address);
	if (!range)
		return NULL;
	unit = &names->units[range->value];
	if (!dwarf_offdie(names->dwarf, unit->entry, ret_entry))
		return NULL;
	if (!unit->is_loaded) {
		unit->is_loaded = true;
		unit->has_lines = fgt_dwarf_strings_may_read_lines(
			&names->strings, ret_entry);
		if (load_functions(names, unit, ret_entry, 0))
			names->is_off = true;
		fgt_intervals_sort(&unit->functions);
	}
	return unit;
}

static bool has_ranges(Dwarf_Die *entry)
{
	return dwarf_hasattr(entry, DW_AT_low_pc) ||
	       dwarf_hasattr(entry, DW_AT_ranges);
}

/* Descends to the innermost scope; true if one below parent has the address. */
static bool find_scopes(struct fgt_dwarf_names *names, Dwarf_Die *parent,
			unsigned int depth, struct scopes *scopes)
{
	Dwarf_Die entry;

	if (depth > SCOPE_DEPTH || dwarf_child(parent, &entry))
		return false;
	do {
		int tag = dwarf_tag(&entry);
		bool is_inlined = tag == DW_TAG_inlined_subroutine;

		if (!is_inlined && tag != DW_TAG_lexical_block)
			continue;
		if (has_ranges(&entry)) {
			if (dwarf_haspc(&entry, scopes->address) <= 0)
				continue;
			if (is_inlined && scopes->count < INLINES_MAX)
				scopes->inlined[scopes->count++] = entry;
			find_scopes(names, &entry, depth + 1, scopes);
			return true;
		}
		/* A block without addresses may hold calls that have some. */
		if (!is_inlined &&
		    find_scopes(names, &entry, depth + 1, scopes))
			return true;
	} while (may_go_on(names) && !dwarf_siblingof(&entry, &entry));
	return false;
}

/* The declaration that an inlined call or a definition comes from. */
static void find_origin(Dwarf_Die *entry, Dwarf_Die *ret_origin)
{
	static const unsigned int kinds[] = { DW_AT_abstract_origin,
					      DW_AT_specification };
	Dwarf_Attribute attribute;
	Dwarf_Die next;

	*ret_origin = *entry;
	for (int i = 0; i < ORIGINS_MAX; i++) {
		if (!dwarf_attr(ret_origin, kinds[0], &attribute) &&
		    !dwarf_attr(ret_origin, kinds[1], &attribute))
			return;
		if (!dwarf_formref_die(&attribute, &next))
			return;
		*ret_origin = next;
	}
}

/* The child of parent that is the entry at an offset, or holds it. */
static bool find_child(struct fgt_dwarf_names *names, Dwarf_Die *parent,
		       Dwarf_Off offset, Dwarf_Die *ret_child)
{
	Dwarf_Die entry;
	bool is_found = false;

	if (dwarf_child(parent, &entry))
		return false;
	do {
		if (dwarf_dieoffset(&entry) > offset)
			break;
		*ret_child = entry;
		is_found = true;
	} while (may_go_on(names) && !dwarf_siblingof(&entry, &entry));
	return is_found;
}

/* Appends the name of one scope, as c++filt would. */
static void append_scope(const struct fgt_dwarf_names *names, Dwarf_Die *scope,
			 const char *last_name, char *text)
{
	int tag = dwarf_tag(scope);
	size_t len = strlen(text);
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (!may_hold_functions(tag) && tag != DW_TAG_subprogram)
		return;
	if (dwarf_attr_integrate(scope, DW_AT_name, &attribute))
		name = fgt_dwarf_strings_get(&names->strings, &attribute);
	if (!name && tag == DW_TAG_namespace)
		name = "(anonymous namespace)";
	if (!name)
		name = strcmp(last_name, "operator()") ? "{unnamed}"
						       : "{lambda}";
	snprintf(text + len, NAME_BYTES - len, "%s%s", len ? "::" : "", name);
}

/*
 * Appends the scopes around an entry and then its own name. Entries are in
 * the order of their offsets, so the way down to one is the last child before
 * it on each level. A function among the scopes may itself be declared
 * elsewhere: then its declaration's scopes count. False if it is not found.
 */
static bool append_path(struct fgt_dwarf_names *names, Dwarf_Die *entry,
			const char *last_name, unsigned int level, char *text)
{
	const Dwarf_Off offset = dwarf_dieoffset(entry);
	Dwarf_Die scope, child, origin;

	if (level > ORIGINS_MAX || !dwarf_diecu(entry, &scope, NULL, NULL))
		return false;
	for (int depth = 0; depth < WALK_DEPTH; depth++) {
		if (!find_child(names, &scope, offset, &child))
			return false;
		find_origin(&child, &origin);
		if (dwarf_dieoffset(&child) != offset && !text[0] &&
		    dwarf_dieoffset(&origin) != dwarf_dieoffset(&child)) {
			if (!append_path(names, &origin, last_name, level + 1,
					 text))
				return false;
		} else {
			append_scope(names, &child, last_name, text);
		}
		if (dwarf_dieoffset(&child) == offset)
			return true;
		scope = child;
	}
	return false;
}

/*
 * namespace::class::name for a function that has no linker's name (local
 * classes, lambdas).
 */
static const char *add_scopes(struct fgt_dwarf_names *names, Dwarf_Die *entry,
			      const char *name)
{
	char *text = names->texts[names->text_count];
	Dwarf_Die origin;

	if (names->text_count == INLINES_MAX)
		return name;
	find_origin(entry, &origin);
	text[0] = '\0';
	if (!append_path(names, &origin, name, 0, text) || !text[0])
		return name;
	names->text_count++;
	return text;
}

/* The linker's name, else the name with its scopes; NULL if it has none. */
static const char *name_of(struct fgt_dwarf_names *names, Dwarf_Die *entry)
{
	static const unsigned int kinds[] = { DW_AT_linkage_name,
					      DW_AT_MIPS_linkage_name,
					      DW_AT_name };
	Dwarf_Attribute attribute;
	const char *name;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (!dwarf_attr_integrate(entry, kinds[i], &attribute))
			continue;
		name = fgt_dwarf_strings_get(&names->strings, &attribute);
		if (name && name[0])
			return kinds[i] == DW_AT_name
				       ? add_scopes(names, entry, name)
				       : name;
	}
	return NULL;
}

static uint32_t number_of(Dwarf_Die *entry, unsigned int kind)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(entry, kind, &attribute) ||
	    dwarf_formudata(&attribute, &value) || value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

/* Where an inlined call was written. */
static void set_call_site(Dwarf_Die *unit, Dwarf_Die *inlined,
			  struct fgt_dwarf_call *call)
{
	uint32_t file = number_of(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t count;

	call->line = number_of(inlined, DW_AT_call_line);
	if (!dwarf_getsrcfiles(unit, &files, &count) && file < count)
		call->file = dwarf_filesrc(files, file, NULL, NULL);
}

/* The line table's answer for an address. */
static void set_line(Dwarf_Die *unit, uint64_t address,
		     struct fgt_dwarf_call *call)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int number = 0;

	if (!line)
		return;
	call->file = dwarf_linesrc(line, NULL, NULL);
	if (!dwarf_lineno(line, &number) && number > 0)
		call->line = (uint32_t)number;
}

static size_t list_calls(struct fgt_dwarf_names *names, Dwarf_Die *unit,
			 Dwarf_Die *function, struct scopes *scopes,
			 struct fgt_dwarf_call *calls, size_t capacity)
{
	size_t count = 0;

	names->text_count = 0;
	set_line(unit, scopes->address, &calls[0]);
	for (size_t i = scopes->count; i && count + 1 < capacity; i--) {
		calls[count].name = name_of(names, &scopes->inlined[i - 1]);
		set_call_site(unit, &scopes->inlined[i - 1], &calls[++count]);
	}
	if (function)
		calls[count].name = name_of(names, function);
	return count + 1;
}

size_t fgt_dwarf_names_find(struct fgt_dwarf_names *names, uint64_t address,
			    uint64_t deadline_ns, struct fgt_dwarf_call *calls,
			    size_t capacity)
{
	struct scopes scopes = { .address = address };
	Dwarf_Die unit_entry, function;
	const struct fgt_interval *range;
	struct unit *unit;
	size_t count;

	names->deadline_ns = deadline_ns;
	names->visited = 0;
	if (!capacity || !may_go_on(names))
		return 0;
	unit = find_unit(names, address, &unit_entry);
	if (!unit || names->is_off || !unit->has_lines)
		return 0;
	range = fgt_intervals_find(&unit->functions, address);
	if (range && !dwarf_offdie(names->dwarf, range->value, &function))
		range = NULL;
	if (range)
		find_scopes(names, &function, 0, &scopes);
	memset(calls, 0, capacity * sizeof(*calls));
	count = list_calls(names, &unit_entry, range ? &function : NULL,
			   &scopes, calls, capacity);
	if (count == 1 && !calls[0].name && !calls[0].file)
		return 0;
	return count;
}

int fgt_dwarf_names_new(struct Elf *elf, struct Elf *alt_elf,
			struct fgt_dwarf_names **ret_names)
{
	FGT_AUTO(fgt_dwarf_names_free) struct fgt_dwarf_names *names = NULL;
	uint64_t len = fgt_dwarf_count_bytes(elf);

	if (!len)
		return -ENOENT;
	if (len > FGT_DWARF_MAX_BYTES ||
	    (alt_elf && fgt_dwarf_count_bytes(alt_elf) > FGT_DWARF_MAX_BYTES))
		return -EFBIG;
	names = calloc(1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	names->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!names->dwarf)
		return -EBADMSG;
	if (alt_elf)
		names->alt = dwarf_begin_elf(alt_elf, DWARF_C_READ, NULL);
	if (names->alt)
		dwarf_setalt(names->dwarf, names->alt);
	if (!fgt_dwarf_strings_add(&names->strings, elf) ||
	    (names->alt && !fgt_dwarf_strings_add(&names->strings, alt_elf)))
		return -EBADMSG;
	*ret_names = FGT_TAKE(names);
	return 0;
}

void fgt_dwarf_names_free(struct fgt_dwarf_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->unit_count; i++)
		fgt_intervals_done(&names->units[i].functions);
	free(names->units);
	fgt_intervals_done(&names->ranges);
	dwarf_end(names->dwarf);
	dwarf_end(names->alt);
	free(names);
}
