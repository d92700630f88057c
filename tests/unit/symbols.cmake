# Unit tests of symbols.
fgt_unit_test(symbolizer fgt_symbols)
fgt_unit_test(perfmap fgt_symbols)
fgt_unit_test(demangle fgt_symbols)
target_compile_definitions(test_symbolizer PRIVATE
	FGT_PROGRAMS="${PROJECT_BINARY_DIR}/tests/programs/symbols")
add_dependencies(test_symbolizer symbols-variants)
