# Unit tests of daemon.
