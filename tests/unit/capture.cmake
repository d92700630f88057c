# Unit tests of capture.
fgt_unit_test(account fgt_capture)
fgt_unit_test(blocked fgt_capture)
fgt_unit_test(perf_buffer fgt_capture)
fgt_unit_test(process fgt_capture)
fgt_unit_test(state_name fgt_capture)
fgt_unit_test(running_ptrace fgt_capture)
fgt_unit_test(sampler fgt_capture)
