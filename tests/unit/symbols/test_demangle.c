/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/symbols/demangle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include "agent/symbols/names/demangle.h"

static void expect(const char *mangled, enum fgt_demangle how,
		   const char *expected)
{
	char text[4096];

	fgt_demangle_name(mangled, how, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void cpp_names_come_with_and_without_parameters(void **state)
{
	(void)state;
	expect("_ZN4shop11price_orderEj", FGT_DEMANGLE_FULL,
	       "shop::price_order(unsigned int)");
	expect("_ZN4shop11price_orderEj", FGT_DEMANGLE_NAME,
	       "shop::price_order");
	expect("_ZN4shop11price_orderEj", FGT_DEMANGLE_NO,
	       "_ZN4shop11price_orderEj");
}

static void rust_names_of_both_schemes_are_known(void **state)
{
	(void)state;
	expect("_ZN5words7Counter11count_words17h0123456789abcdefE",
	       FGT_DEMANGLE_FULL, "words::Counter::count_words");
	expect("_RNvC6_123foo3bar", FGT_DEMANGLE_FULL, "123foo::bar");
}

static void c_names_and_nonsense_stay_as_they_are(void **state)
{
	char deep[20001], text[4096];

	(void)state;
	expect("main", FGT_DEMANGLE_FULL, "main");
	expect("_Z", FGT_DEMANGLE_FULL, "_Z");
	expect("_ZN", FGT_DEMANGLE_FULL, "_ZN");
	expect("", FGT_DEMANGLE_FULL, "");
	memset(deep, 'P', sizeof(deep) - 1);
	memcpy(deep, "_Z1f", 4);
	deep[sizeof(deep) - 1] = '\0';
	fgt_demangle_name(deep, FGT_DEMANGLE_FULL, text, sizeof(text));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	deep[4000] = '\0'; /* short enough to be tried */
	fgt_demangle_name(deep, FGT_DEMANGLE_FULL, text, sizeof(text));
	assert_true(strlen(text) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpp_names_come_with_and_without_parameters),
		cmocka_unit_test(rust_names_of_both_schemes_are_known),
		cmocka_unit_test(c_names_and_nonsense_stay_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
