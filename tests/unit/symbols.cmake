# Unit tests of symbols.
add_library(symbols_kit STATIC symbols_kit.c)
target_link_libraries(symbols_kit PUBLIC fgt_symbols PRIVATE PkgConfig::CMOCKA)
fgt_unit_test(symbolizer fgt_symbols)
fgt_unit_test(perfmap fgt_symbols)
fgt_unit_test(demangle fgt_symbols)
fgt_unit_test(symbol_shapes symbols_kit)
fgt_unit_test(symbol_files symbols_kit)
fgt_unit_test(symbol_helper symbols_kit)
foreach(test symbolizer symbol_shapes symbol_files symbol_helper)
	target_compile_definitions(test_${test} PRIVATE
		FGT_PROGRAMS="${PROJECT_BINARY_DIR}/tests/programs/symbols")
	add_dependencies(test_${test} symbols-variants symbols-shapes)
endforeach()
