"""Compressed formats without compression, so that the bytes are the same with every version of zlib and Python."""

import zlib

BLOCK = 0xFFFF


def deflated(content: bytes) -> bytes:
    """Return content as uncompressed deflate blocks (RFC 1951, 3.2.4)."""
    blocks = b""
    for place in range(0, max(len(content), 1), BLOCK):
        piece = content[place : place + BLOCK]
        last = place + BLOCK >= len(content)
        blocks += bytes([last]) + len(piece).to_bytes(2, "little") + (len(piece) ^ BLOCK).to_bytes(2, "little") + piece
    return blocks


def zlibbed(content: bytes) -> bytes:
    """Return content in zlib's format (RFC 1950)."""
    return b"\x78\x01" + deflated(content) + zlib.adler32(content).to_bytes(4, "big")


def gzipped(content: bytes) -> bytes:
    """Return content in gzip's format (RFC 1952), without name and time."""
    tail = zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + deflated(content) + tail
