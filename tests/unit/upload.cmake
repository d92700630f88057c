# Unit tests of upload.
fgt_unit_test(dsn fgt_deliver)
fgt_unit_test(memory_sink fgt_deliver)
fgt_unit_test(ratelimit fgt_deliver)
# Writes slices in every format, for tests/integration/test_viewers.sh.
add_executable(format_files format_files.c)
target_link_libraries(format_files PRIVATE slice_fixture fgt_format)
fgt_unit_test(json fgt_format slice_fixture)
fgt_unit_test(gzip fgt_format slice_fixture z)
fgt_unit_test(format fgt_format slice_fixture)
fgt_unit_test(chrome fgt_format slice_fixture)
fgt_unit_test(chrome_edges fgt_format slice_fixture)
fgt_unit_test(folded fgt_format slice_fixture)
add_library(sentry_kit STATIC sentry_kit.c)
target_link_libraries(sentry_kit PUBLIC fgt_format slice_fixture
	PRIVATE PkgConfig::CMOCKA)
fgt_unit_test(sentry sentry_kit)
fgt_unit_test(sentry_rate sentry_kit)
fgt_unit_test(id_map fgt_format)
