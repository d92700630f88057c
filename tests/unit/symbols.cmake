# Unit tests of symbols.
