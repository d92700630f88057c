# Unit tests of ringbuf.
# Slices built by hand, for the codec and the formats.
add_library(slice_fixture STATIC slice_fixture.c)
target_link_libraries(slice_fixture PUBLIC fgt_ringbuf PRIVATE PkgConfig::CMOCKA)
fgt_unit_test(slice_codec slice_fixture fgt_ringbuf)
fgt_unit_test(msgpack_cursor fgt_ringbuf)
fgt_unit_test(ring fgt_ringbuf)
fgt_unit_test(ring_threads fgt_ringbuf)
# Random actions on a ring, and the model that they are compared with.
add_library(ring_model STATIC ring_model.c)
target_link_libraries(ring_model PUBLIC fgt_ringbuf PRIVATE PkgConfig::CMOCKA)
fgt_unit_test(ring_model ring_model fgt_ringbuf)
fgt_unit_test(ring_readers fgt_ringbuf)
fgt_unit_test(ring_bounds fgt_ringbuf)
fgt_unit_test(strings fgt_ringbuf)
fgt_unit_test(slice slice_fixture fgt_ringbuf m)
fgt_unit_test(pace slice_fixture fgt_ringbuf)
fgt_unit_test(edge slice_fixture fgt_ringbuf)
