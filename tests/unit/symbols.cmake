# Unit tests of symbols.
add_library(symbols_kit STATIC symbols_kit.c)
target_link_libraries(symbols_kit PUBLIC fgt_symbols PRIVATE PkgConfig::CMOCKA)
# Programs that resolve names are executed anew as helper (agent/symbols/helper.h).
add_library(symbol_helper_entry OBJECT symbol_helper_entry.c)
target_link_libraries(symbol_helper_entry PUBLIC fgt_symbols)
fgt_unit_test(symbolizer symbol_helper_entry)
fgt_unit_test(perfmap fgt_symbols)
fgt_unit_test(demangle fgt_symbols)
fgt_unit_test(confinement symbol_helper_entry)
fgt_unit_test(symbol_shapes symbols_kit symbol_helper_entry)
fgt_unit_test(symbol_files symbols_kit symbol_helper_entry)
fgt_unit_test(symbol_helper symbols_kit symbol_helper_entry)
foreach(test symbolizer symbol_shapes symbol_files symbol_helper)
	target_compile_definitions(test_${test} PRIVATE
		FGT_PROGRAMS="${PROJECT_BINARY_DIR}/tests/programs/symbols")
	add_dependencies(test_${test} symbols-variants symbols-shapes)
endforeach()
