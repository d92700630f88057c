# Unit tests of upload.
