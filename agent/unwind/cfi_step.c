/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that knows libunwind. It is given clean copies of rules and
 * words of the snapshot; it never sees a live process, nor a byte of a file
 * that was not checked. Runs in the sampler's thread, never in a handler.
 */
#include "agent/unwind/cfi_step.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <libunwind.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "ringbuf/base/fd.h"

/* libunwind's default is 128 rows; a busy program has some hundred PCs. */
#define CACHE_ROWS	  1024
#define SCRATCH_BYTES	  (40u * 1024)
#define KEPT_BYTES	  (64u * 1024)
#define KEPT_RULES_MAX	  512u
#define SIGNAL_RANGES_MAX 16u
#define POPPED_BYTES_MAX  1024u

/*
 * Where libunwind finds the records: addresses that no process has. First a
 * search table of one row, then the record of the last rule, then those with
 * expressions, to which cached rows point.
 */
#define ARENA_ADDRESS 0xffffe00000000000ull
#define TABLE_BYTES   16u
#define SCRATCH_AT    TABLE_BYTES
#define KEPT_AT	      (SCRATCH_AT + SCRATCH_BYTES)
#define ARENA_BYTES   (KEPT_AT + KEPT_BYTES)

struct address_range {
	uint64_t start, end;
};

struct kept_rule {
	uint64_t start; /* of the function */
	uint32_t fde_at; /* in the arena */
};

struct fgt_cfi_stepper {
	unw_addr_space_t space;
	unw_cursor_t cursor;
	struct fgt_view *view;
	struct fgt_frame_state *state;
	/* Why the last callback failed, if one did. */
	enum fgt_step failure;
	unsigned int failed_reg;
	struct address_range signals[SIGNAL_RANGES_MAX];
	size_t signal_count;
	struct kept_rule kept[KEPT_RULES_MAX];
	size_t kept_count, kept_bytes;
	/* Eight bytes more: libunwind reads whole aligned words. */
	uint8_t arena[ARENA_BYTES + 8] __attribute__((aligned(8)));
};

/* Exported by libunwind for this very purpose, but in no header. */
int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip,
				       unw_dyn_info_t *info,
				       unw_proc_info_t *ret_proc,
				       int need_unwind_info, void *argument);

#if defined(__x86_64__)
/* libunwind counts its registers by DWARF number here. */
_Static_assert(UNW_X86_64_RBP == 6 && UNW_X86_64_RSP == 7 &&
		       UNW_X86_64_R15 == 15 && UNW_X86_64_RIP == 16,
	       "libunwind's numbers are DWARF's");
#endif

static int fail(struct fgt_cfi_stepper *stepper, enum fgt_step failure)
{
	stepper->failure = failure;
	/* Not UNW_ENOINFO: libunwind would guess by frame pointer. */
	return -UNW_EINVALIDIP;
}

/* True in a signal trampoline that was stepped over before. */
static bool is_signal(const struct fgt_cfi_stepper *stepper, uint64_t address)
{
	for (size_t i = 0; i < stepper->signal_count; i++)
		if (address >= stepper->signals[i].start &&
		    address < stepper->signals[i].end)
			return true;
	return false;
}

static void remember_signal(struct fgt_cfi_stepper *stepper,
			    const struct fgt_cfi_rule *rule)
{
	if (is_signal(stepper, rule->start))
		return;
	/* No real program has so many: start again. */
	if (stepper->signal_count == SIGNAL_RANGES_MAX)
		stepper->signal_count = 0;
	stepper->signals[stepper->signal_count].start = rule->start;
	stepper->signals[stepper->signal_count].end = rule->end;
	stepper->signal_count++;
}

static const struct kept_rule *find_kept(const struct fgt_cfi_stepper *stepper,
					 const struct fgt_cfi_rule *rule)
{
	for (size_t i = 0; i < stepper->kept_count; i++)
		if (stepper->kept[i].start == rule->start)
			return &stepper->kept[i];
	return NULL;
}

/* Moves the record from the scratch place to one that stays. */
static void keep_record(struct fgt_cfi_stepper *stepper,
			const struct fgt_cfi_rule *rule,
			const struct fgt_cfi_record *record, uint32_t *fde_at)
{
	struct kept_rule *kept;
	size_t at;

	if (record->len > KEPT_BYTES)
		return;
	if (stepper->kept_count == KEPT_RULES_MAX ||
	    record->len > KEPT_BYTES - stepper->kept_bytes) {
		/* Cached rows point into what is overwritten now. */
		unw_flush_cache(stepper->space, 0, 0);
		stepper->kept_count = 0;
		stepper->kept_bytes = 0;
	}
	at = KEPT_AT + stepper->kept_bytes;
	memcpy(stepper->arena + at, stepper->arena + SCRATCH_AT, record->len);
	stepper->kept_bytes += record->len;
	*fde_at = (uint32_t)(at + record->fde_at);
	kept = &stepper->kept[stepper->kept_count++];
	kept->start = rule->start;
	kept->fde_at = *fde_at;
}

/* Puts a rule's record into the arena. *ret_fde_at: where. */
static int prepare_record(struct fgt_cfi_stepper *stepper,
			  const struct fgt_cfi_rule *rule, uint32_t *ret_fde_at)
{
	const struct kept_rule *kept = find_kept(stepper, rule);
	struct fgt_cfi_record record;
	int r;

	if (kept) {
		*ret_fde_at = kept->fde_at;
		return 0;
	}
	r = fgt_cfi_record_write(rule, stepper->arena + SCRATCH_AT,
				 SCRATCH_BYTES, &record);
	if (r < 0)
		return r;
	*ret_fde_at = (uint32_t)(SCRATCH_AT + record.fde_at);
	if (record.has_expressions)
		keep_record(stepper, rule, &record, ret_fde_at);
	return 0;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip,
			  unw_proc_info_t *proc, int need_unwind_info,
			  void *argument)
{
	struct fgt_cfi_stepper *stepper = argument;
	struct fgt_cfi_rule rule;
	unw_dyn_info_t info;
	uint32_t row[2] = { 0, 0 }; /* distance of start and of the FDE */
	int r;

	r = fgt_view_find_rule(stepper->view, ip, &rule);
	if (r < 0)
		return fail(stepper, r == -ENOENT ? FGT_STEP_NO_RULE
						  : FGT_STEP_BAD_RULE);
	if (rule.end - rule.start > INT32_MAX ||
	    prepare_record(stepper, &rule, &row[1]) < 0)
		return fail(stepper, FGT_STEP_BAD_RULE);
	if (rule.is_signal_frame)
		remember_signal(stepper, &rule);
	memcpy(stepper->arena, row, sizeof(row));
	memset(&info, 0, sizeof(info));
	info.start_ip = rule.start;
	info.end_ip = rule.end;
	info.format = UNW_INFO_FORMAT_IP_OFFSET;
	info.u.rti.segbase = ARENA_ADDRESS;
	info.u.rti.table_data = ARENA_ADDRESS;
	info.u.rti.table_len = 1; /* in words: one row */
	r = UNW_OBJ(dwarf_search_unwind_table)(space, ip, &info, proc,
					       need_unwind_info, argument);
	return r < 0 ? fail(stepper, FGT_STEP_BAD_RULE) : 0;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *proc,
			    void *argument)
{
	(void)space;
	(void)proc;
	(void)argument; /* libunwind frees what it took from its own pool */
}

static int get_dyn_info_list_addr(unw_addr_space_t space,
				  unw_word_t *ret_address, void *argument)
{
	(void)space;
	(void)ret_address;
	(void)argument;
	return -UNW_ENOINFO;
}

/*
 * The leaf has already popped the register that is saved here by its rule:
 * compilers write no rules for pops in epilogues, and nothing below SP was
 * copied. The register holds the value again.
 */
static int read_popped(struct fgt_cfi_stepper *stepper, uint64_t address,
		       uint64_t *ret_value)
{
	const struct fgt_regs *leaf = &stepper->view->snapshot->regs;
	unw_save_loc_t place;

	if (address >= leaf->value[fgt_arch_host.sp] ||
	    leaf->value[fgt_arch_host.sp] - address > POPPED_BYTES_MAX)
		return fail(stepper, FGT_STEP_BAD_RULE);
	for (unsigned int i = 0; i < fgt_arch_host.reg_count; i++) {
		if (unw_get_save_loc(&stepper->cursor, (int)i, &place) < 0 ||
		    place.type != UNW_SLT_MEMORY || place.u.addr != address)
			continue;
		if (fgt_regs_get(leaf, i, ret_value))
			return 0;
		stepper->failed_reg = i;
		return fail(stepper, FGT_STEP_NO_REG);
	}
	return fail(stepper, FGT_STEP_BAD_RULE);
}

static int access_mem(unw_addr_space_t space, unw_word_t address,
		      unw_word_t *value, int is_write, void *argument)
{
	struct fgt_cfi_stepper *stepper = argument;
	int r;

	(void)space;
	if (is_write)
		return -UNW_EINVAL;
	if (address >= ARENA_ADDRESS) {
		if (address - ARENA_ADDRESS > ARENA_BYTES ||
		    ++stepper->view->accesses > FGT_VIEW_ACCESSES_MAX)
			return fail(stepper, FGT_STEP_BAD_RULE);
		memcpy(value, stepper->arena + (address - ARENA_ADDRESS),
		       sizeof(*value));
		return 0;
	}
	r = fgt_view_read_word(stepper->view, address, value);
	if (r == -EFAULT)
		return read_popped(stepper, address, value);
	if (r < 0)
		return fail(stepper, r == -ENODATA ? FGT_STEP_NO_STACK
						   : FGT_STEP_BAD_RULE);
	return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg,
		      unw_word_t *value, int is_write, void *argument)
{
	struct fgt_cfi_stepper *stepper = argument;

	(void)space;
	if (is_write)
		return -UNW_EREADONLYREG;
	if (!fgt_regs_get(&stepper->state->regs, (unsigned int)reg, value)) {
		stepper->failed_reg = (unsigned int)reg;
		fail(stepper, FGT_STEP_NO_REG);
		return -UNW_EBADREG;
	}
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg,
			unw_fpreg_t *value, int is_write, void *argument)
{
	(void)space;
	(void)reg;
	(void)value;
	(void)is_write;
	(void)argument;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument)
{
	(void)space;
	(void)cursor;
	(void)argument;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address,
			 char *buffer, size_t size, unw_word_t *ret_offset,
			 void *argument)
{
	(void)space;
	(void)address;
	(void)buffer;
	(void)size;
	(void)ret_offset;
	(void)argument;
	return -UNW_ENOINFO;
}

int fgt_cfi_stepper_new(struct fgt_cfi_stepper **ret_stepper)
{
	FGT_AUTO(fgt_cfi_stepper_free) struct fgt_cfi_stepper *stepper = NULL;
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list_addr,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = resume,
		.get_proc_name = get_proc_name,
	};
	struct fgt_fd_fill fill;

	/* Mapped: hardly any stack needs more than its first pages, and what
	 * calloc(3) gives of a heap is written to. */
	stepper = mmap(NULL, sizeof(*stepper), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stepper == MAP_FAILED) {
		stepper = NULL;
		return -ENOMEM;
	}
	stepper->space = unw_create_addr_space(&accessors, 0);
	if (!stepper->space)
		return -ENOMEM;
	/*
	 * Initialises libunwind, which opens a pipe once and never closes it.
	 * Not later, when a rule first needs it: the program may have a filter
	 * of system calls by then.
	 */
	fgt_fd_fill_begin(&fill);
	unw_set_caching_policy(stepper->space, UNW_CACHE_GLOBAL);
	fgt_fd_fill_end(&fill);
	unw_set_cache_size(stepper->space, CACHE_ROWS, 0);
	*ret_stepper = FGT_TAKE(stepper);
	return 0;
}

void fgt_cfi_stepper_free(struct fgt_cfi_stepper *stepper)
{
	if (!stepper)
		return;
	if (stepper->space)
		unw_destroy_addr_space(stepper->space);
	munmap(stepper, sizeof(*stepper));
}

void fgt_cfi_stepper_forget(struct fgt_cfi_stepper *stepper)
{
	unw_flush_cache(stepper->space, 0, 0);
	stepper->signal_count = 0;
	stepper->kept_count = 0;
	stepper->kept_bytes = 0;
}

enum fgt_step fgt_cfi_stepper_start(struct fgt_cfi_stepper *stepper,
				    struct fgt_view *view,
				    struct fgt_frame_state *state)
{
	struct fgt_regs *regs = &state->regs;

	stepper->view = view;
	stepper->state = state;
	/* libunwind takes the PC of a start as exact: point into the call. */
	fgt_regs_set(regs, fgt_arch_host.pc, state->pc - !state->is_exact);
	fgt_regs_set(regs, fgt_arch_host.sp, state->sp);
	if (unw_init_remote(&stepper->cursor, stepper->space, stepper) < 0)
		return FGT_STEP_BAD_RULE;
	return FGT_STEP_DONE;
}

enum fgt_step fgt_cfi_stepper_step(struct fgt_cfi_stepper *stepper,
				   unsigned int *ret_reg)
{
	struct fgt_frame_state *state = stepper->state;
	uint64_t asked = state->pc - !state->is_exact;
	unw_word_t pc = 0, sp = 0;
	int r;

	stepper->failure = FGT_STEP_BAD_RULE;
	r = unw_step(&stepper->cursor);
	if (r < 0) {
		*ret_reg = stepper->failed_reg;
		return stepper->failure;
	}
	if (r == 0)
		return FGT_STEP_ROOT;
	if (unw_get_reg(&stepper->cursor, UNW_REG_IP, &pc) < 0 ||
	    unw_get_reg(&stepper->cursor, UNW_REG_SP, &sp) < 0)
		return FGT_STEP_BAD_RULE;
	state->is_exact = is_signal(stepper, asked);
	state->pc = pc;
	state->sp = sp;
	return FGT_STEP_DONE;
}

bool fgt_cfi_stepper_save(struct fgt_cfi_stepper *stepper)
{
	struct fgt_frame_state *state = stepper->state;
	struct fgt_regs regs = { .valid = 0 };
	unw_word_t value;

	stepper->failure = FGT_STEP_DONE;
	/* Registers are read by number: they are where the rules left them. */
	for (unsigned int i = 0; i < fgt_arch_host.reg_count; i++)
		if (unw_get_reg(&stepper->cursor, (int)i, &value) == 0)
			fgt_regs_set(&regs, i, value);
	fgt_regs_set(&regs, fgt_arch_host.pc, state->pc);
	fgt_regs_set(&regs, fgt_arch_host.sp, state->sp);
	state->regs = regs;
	return stepper->failure == FGT_STEP_DONE ||
	       stepper->failure == FGT_STEP_NO_REG;
}
