# Unit tests of embed: the library is loaded, as it will be.
fgt_unit_test(embed fgt_ringbuf ${CMAKE_DL_LIBS})
add_dependencies(test_embed fgtrace-embed)
target_compile_definitions(test_embed PRIVATE
	FGT_EMBED_PATH="$<TARGET_FILE:fgtrace-embed>")

fgt_unit_test(loaded_pages fgt_ringbuf ${CMAKE_DL_LIBS})
target_sources(test_loaded_pages PRIVATE
	${PROJECT_SOURCE_DIR}/agent/embed/loaded_pages.c)
