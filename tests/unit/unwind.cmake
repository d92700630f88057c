# Unit tests of unwind.
