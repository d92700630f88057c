# SPDX-License-Identifier: Apache-2.0
"""CRC-32C (RFC 3720), and the end of a .fgt file that has one."""
FGT_END = b"\xa8checksum\xce"
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xffffffff
    for each in data:
        crc = TABLE[(crc ^ each) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def is_as_written(fgt):
    """A .fgt file without a checksum is not known to be damaged."""
    return not fgt[:-4].endswith(FGT_END) or \
        crc32c(fgt[:-4]) == int.from_bytes(fgt[-4:], "big")
