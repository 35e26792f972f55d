"""Bodies in all content codings, including decompression bombs."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable

import brotli
import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["ENCODERS", "MIB", "bombs", "every_coding", "raw_deflate", "zstd"]

MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": zstd.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
}
every_coding = pytest.mark.parametrize("coding", ENCODERS)


def bombs() -> dict[str, tuple[str, bytes]]:
    """Return decompression bombs: a few bytes that decode to 16 MiB or more."""
    zeros = bytes(16 * MIB)
    found = {coding: (coding, encode(zeros)) for coding, encode in ENCODERS.items()}
    found["raw deflate"] = "deflate", raw_deflate(zeros)
    found["members"] = "gzip", gzip.compress(zeros[:MIB]) * 16
    found["frames"] = "zstd", zstd.compress(zeros[:MIB]) * 16
    # What the outer coding inflates decodes to nothing at all.
    found["inner"] = "gzip, zstd", zstd.compress(gzip.compress(b"") * MIB)
    found["twice"] = "gzip, gzip", gzip.compress(found["gzip"][1])
    return found
