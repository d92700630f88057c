/* SPDX-License-Identifier: Apache-2.0 */
/* Names in markdown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "agent/cli/output/form.h"

static void expect(enum fgt_form form, const char *name, const char *printed)
{
	struct fgt_words words = { .len = 0 };
	char *text;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	fgt_words_add(&words, "%s", name);
	fgt_form_print_names(form, &words, 400, file);
	fclose(file);
	assert_string_equal(text, printed);
	free(text);
}

static void names_are_no_markup(void **state)
{
	(void)state;
	expect(FGT_FORM_TEXT, "a<int>::operator|(b*)", "a<int>::operator|(b*)");
	expect(FGT_FORM_MARKDOWN, "a<int>::operator|(b*)",
	       "a\\<int>::operator\\|(b\\*)");
	expect(FGT_FORM_MARKDOWN, "[local] g_cache_lock [a](b) `x` \\",
	       "[local] g_cache_lock [a]\\(b) \\`x\\` \\\\");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_no_markup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
