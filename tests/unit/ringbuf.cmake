# Unit tests of ringbuf.
