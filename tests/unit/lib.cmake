# Unit tests of lib.
fgt_unit_test(wire fgt_library fgt_protocol)
fgt_unit_test(answer fgt_library)
fgt_unit_test(settings fgt_library)
foreach(test IN ITEMS library library_agents)
	fgt_unit_test(${test} fgt_library fgt_protocol)
	target_sources(test_${test} PRIVATE fake_agent.c library_kit.c
		${PROJECT_SOURCE_DIR}/agent/daemon/reply.c)
endforeach()
# It brings its own backends.
fgt_unit_test(library_life fgt_flags)
foreach(source IN ITEMS library now own_thread parts rights rights_sig settings
	tell worker)
	target_sources(test_library_life PRIVATE
		${PROJECT_SOURCE_DIR}/agent/lib/${source}.c)
endforeach()
target_sources(test_library_life PRIVATE
	${PROJECT_SOURCE_DIR}/ringbuf/fd_apart.c
	${PROJECT_SOURCE_DIR}/ringbuf/file_id.c
	${PROJECT_SOURCE_DIR}/ringbuf/owner.c
	${PROJECT_SOURCE_DIR}/ringbuf/why.c
	${PROJECT_SOURCE_DIR}/upload/deliver/dsn.c
	${PROJECT_SOURCE_DIR}/upload/deliver/trusted_file.c
	${PROJECT_SOURCE_DIR}/upload/deliver/url.c)
set_source_files_properties(${PROJECT_SOURCE_DIR}/agent/lib/rights_sig.c
	PROPERTIES COMPILE_OPTIONS "-fno-stack-protector;-fno-sanitize=all")
fgt_unit_test(control_kept fgt_daemon)
target_sources(test_control_kept PRIVATE control_kit.c
	${PROJECT_SOURCE_DIR}/agent/lib/channel.c
	${PROJECT_SOURCE_DIR}/agent/lib/now.c)
fgt_unit_test(tasks fgt_library)
fgt_unit_test(tasks_said fgt_library)
fgt_unit_test(activity fgt_library)
fgt_unit_test(keep fgt_library)
fgt_unit_test(trace_id fgt_library)
# It brings its own fgt_slice_free().
fgt_unit_test(outbox fgt_flags)
target_sources(test_outbox PRIVATE ${PROJECT_SOURCE_DIR}/agent/lib/outbox.c)
