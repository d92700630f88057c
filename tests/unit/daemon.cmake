# Unit tests of daemon.
fgt_unit_test(protocol fgt_protocol)
fgt_unit_test(client fgt_protocol)
fgt_unit_test(config fgt_config)
target_compile_definitions(test_config PRIVATE
	FGT_SAMPLE_CONFIG="${PROJECT_SOURCE_DIR}/etc/fgtrace.conf")
fgt_unit_test(control fgt_daemon)
fgt_unit_test(listener fgt_daemon)
fgt_unit_test(log fgt_daemon)
fgt_unit_test(rule fgt_daemon)
fgt_unit_test(daemon_slices fgt_daemon symbol_helper_entry)
fgt_unit_test(errands fgt_daemon)
