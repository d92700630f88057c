# Unit tests of unwind.
add_subdirectory(${PROJECT_SOURCE_DIR}/tests/programs/unwind
	${PROJECT_BINARY_DIR}/tests/programs/unwind)

# fgt_unwind_test(NAME): with the tiny capture and the programs.
function(fgt_unwind_test name)
	fgt_unit_test(${name} fgt_unwind fgt_flags)
	target_sources(test_${name} PRIVATE unwind_capture.c unwind_child.c)
	target_compile_definitions(test_${name} PRIVATE
		FGT_UNWIND_PROGRAMS="${PROJECT_BINARY_DIR}/tests/programs/unwind")
endfunction()

fgt_unwind_test(unwind_blocked)
fgt_unwind_test(unwind_steps)
fgt_unwind_test(unwind_special)
fgt_unit_test(lazy_bytes fgt_unwind fgt_flags)
target_sources(test_lazy_bytes PRIVATE copy_file.c)
fgt_unit_test(unwind_parse fgt_unwind fgt_flags)
fgt_unit_test(unwind_rows fgt_unwind fgt_flags)
fgt_unwind_test(unwind_hostile)
fgt_unwind_test(unwind_images)
target_sources(test_unwind_images PRIVATE copy_file.c)
