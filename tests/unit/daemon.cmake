# Unit tests of daemon.
fgt_unit_test(protocol fgt_protocol)
fgt_unit_test(client fgt_protocol)
