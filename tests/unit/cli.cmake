# Unit tests of cli.
fgt_unit_test(child fgt_cli)
fgt_unit_test(time_spec fgt_cli)
fgt_unit_test(wall_clock fgt_cli)
fgt_unit_test(options fgt_cli)
fgt_unit_test(summary slice_fixture fgt_cli)
find_package(ZLIB REQUIRED)
fgt_unit_test(output fgt_cli ZLIB::ZLIB)
