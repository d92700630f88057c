# Unit tests of cli.
