# Unit tests of upload.
fgt_unit_test(dsn fgt_deliver)
fgt_unit_test(ratelimit fgt_deliver)
