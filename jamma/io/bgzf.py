"""BGZF: gzip in independent blocks, the form that bgzip writes and tabix can index.

Any gzip reader reads it. Blocks hold a fixed number of bytes of text, so the file does not depend on how the text
arrived or on the number of threads. Source: SAM/BAM format specification, section 4.1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BLOCK = 0xFF00  # bytes of text in a block, as bgzip takes; a block's file size has to fit 16 bits
BATCH = 64  # blocks compressed at a time
LEVEL = 3  # rows of numbers: 11% larger than at level 6, written 2.5 times as fast
END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")  # an empty block marks the end


def compress_block(data: bytes | memoryview) -> bytes:
    """One block: a gzip member whose extra field BC holds its size less one."""
    packed = b""
    for level in (LEVEL, 0):  # level 0 stores, which fits where random bytes would grow beyond 64 KiB
        deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
        packed = deflate.compress(data) + deflate.flush()
        if len(packed) + 26 <= 0x10000:
            break
    head = struct.pack("<4BI2BH2BHH", 0x1F, 0x8B, 8, 4, 0, 0, 0xFF, 6, 66, 67, 2, len(packed) + 25)
    return head + packed + struct.pack("<II", zlib.crc32(data), len(data))


class BgzfWriter:
    """Compresses what is written to it.

    Parameters
    ----------
    write : callable
        Takes the compressed bytes.
    n_threads : int
        Threads that compress.
    """

    def __init__(self, write: Callable[[bytes], object], n_threads: int = 1):
        self._write = write
        self._rest = bytearray()
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def write(self, data: bytes | memoryview) -> None:
        """Append text."""
        self._rest += data
        if len(self._rest) >= BLOCK * BATCH:
            self._compress(len(self._rest) // BLOCK * BLOCK)

    def _compress(self, n: int) -> None:
        """Compress and write the first n bytes."""
        blocks = [bytes(self._rest[s : min(s + BLOCK, n)]) for s in range(0, n, BLOCK)]
        for block in (self._pool.map if self._pool else map)(compress_block, blocks):
            self._write(block)
        del self._rest[:n]

    def finish(self) -> None:
        """Write what is left and the mark of the end."""
        self._compress(len(self._rest))
        self._write(END)
        self.close()

    def close(self) -> None:
        """Let the threads go; without `finish`, the file is not complete."""
        if self._pool is not None:
            self._pool.shutdown()
