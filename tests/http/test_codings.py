"""`ContentDecoder`: what each coding decodes to, and what bounds it."""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import brotli
import pytest
from support.gateway.calls import CANARY, CHAT
from support.http.content_codings import ENCODERS, MIB, bombs, every_coding, raw_deflate, zstd

from streamnorm.http import codings
from streamnorm.http.codings import (
    CodingDecoder,
    CodingError,
    ContentDecoder,
    content_codings,
    supported_codings,
)


def zstd_frame(data: bytes, window: int) -> bytes:
    """Return a frame of one raw block, with a window descriptor (RFC 8878, section 3.1.1.1.2)."""
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\0" + bytes([window]) + block + data


LARGEST_WINDOW = 13 << 3  # 8 MiB: RFC 9659


def decoded(header: str, *chunks: bytes, max_bytes: int = MIB) -> bytes:
    """Return what the chunks of a body decode to."""
    decoder = ContentDecoder(content_codings(header), max_bytes)
    body = b"".join(piece for chunk in chunks for piece in decoder.feed(chunk))
    decoder.close()
    return body


# What is accepted


@every_coding
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunks_decode_as_the_whole(coding: str, size: int) -> None:
    plain = json.dumps([{"n": number} for number in range(500)]).encode()
    data = ENCODERS[coding](plain)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert decoded(coding, *chunks) == plain
    assert decoded(coding, b"", *chunks, b"") == plain


@every_coding
def test_empty_text_has_a_compressed_form(coding: str) -> None:
    assert decoded(coding, ENCODERS[coding](b"")) == b""


@pytest.mark.parametrize(
    ("header", "encode"),
    [
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("identity, gzip ,", gzip.compress),
        ("deflate", raw_deflate),
        ("gzip, zstd", lambda data: zstd.compress(gzip.compress(data))),
        ("br,deflate", lambda data: zlib.compress(brotli.compress(data))),
        ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
        ("gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
        ("zstd", lambda data: zstd.compress(data[:5]) + zstd.compress(data[5:])),
        # A skippable frame: RFC 8878, section 3.1.2.
        ("zstd", lambda data: struct.pack("<II", 0x184D2A50, 3) + b"abc" + zstd.compress(data)),
        ("zstd", lambda data: zstd_frame(data, LARGEST_WINDOW)),
    ],
)
def test_legal_form_is_decoded(header: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(header, encode(b"0123456789")) == b"0123456789"
    assert decoded(header, *(bytes([byte]) for byte in encode(b"0123456789"))) == b"0123456789"


@pytest.mark.parametrize(
    "header", ["", "identity", "Identity", " , identity", "none", "None, identity", "UTF-8", "7bit"]
)
def test_plain_body_has_no_coding(header: str) -> None:
    assert content_codings(header) == []


@pytest.mark.parametrize("header", ["br", "zstd", "compress", "exi", "dcb", "dcz", "aes128gcm"])
def test_registered_coding_is_no_plain_body(header: str) -> None:
    """Names of IANA's registry of content codings."""
    assert content_codings(f"none, {header}") == [header]


def test_codings_are_supported_in_order_of_preference() -> None:
    assert supported_codings() == ("zstd", "gzip", "deflate", "br")


def test_unsupported_coding_has_no_decoder() -> None:
    with pytest.raises(
        ValueError, match=r"^coding 'lz4', expected one of zstd, gzip, deflate, br$"
    ):
        ContentDecoder(["lz4"], MIB)


@every_coding
def test_bytes_behind_the_end_are_ignored_where_that_is_wanted(coding: str) -> None:
    data = ENCODERS[coding](b"0123456789")
    for chunks in ([data], [data + data], [data, b"rest", data], [data + b"rest"]):
        if coding == "br" and chunks[0] != data:
            continue  # its decoder cannot tell where the stream has ended
        decoder = CodingDecoder(coding, ignores_trailing=True)
        assert b"".join(p for chunk in chunks for p in decoder.feed(chunk)) == b"0123456789"
        decoder.close()


# What is refused


@every_coding
def test_fault_says_what_is_wrong(coding: str) -> None:
    data = ENCODERS[coding](json.dumps(CHAT).encode() * 20)
    faults = {data[:-1]: "truncated", data[:1]: "truncated", b"\xff" * 100: "corrupt"}
    if coding != "br":
        faults[data + b"rest"] = faults[data + b"\0\0\0\0"] = "trailing"
    if coding == "gzip":
        faults[data + b"x"] = "trailing"  # the byte may begin a member
    for body, fault in faults.items():
        with pytest.raises(CodingError) as raised:
            decoded(coding, body)
        assert raised.value.fault == fault, body[-10:]


@every_coding
def test_whatever_is_changed_in_a_body_is_refused_or_decoded(coding: str) -> None:
    draw = random.Random(coding)  # noqa: S311 - no secret
    data = ENCODERS[coding](json.dumps(CHAT).encode() * 5)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        try:
            assert len(decoded(coding, bytes(changed), max_bytes=10_000)) <= 10_000
        except CodingError as error:
            assert error.fault  # noqa: PT017 - of either


def test_second_body_of_a_coding_without_members_is_refused() -> None:
    for coding in ("deflate", "br"):
        data = ENCODERS[coding](b"a")
        for chunks in ((data + data,), (data, data)):
            with pytest.raises(CodingError, match=rf"^(more than one|a corrupt) {coding} body"):
                decoded(coding, *chunks)


def test_refusal_names_nothing_of_a_body() -> None:
    for coding in ENCODERS:
        data = CANARY.encode()
        with pytest.raises(CodingError) as raised:
            decoded(coding, ENCODERS[coding](data) + data)
        assert CANARY not in str(raised.value)


# What is too large


@pytest.fixture(scope="module")
def every_bomb() -> dict[str, tuple[str, bytes]]:
    return bombs()


def test_step_of_a_bomb_is_small(every_bomb: dict[str, tuple[str, bytes]]) -> None:
    for name, (header, data) in every_bomb.items():
        decoder = ContentDecoder(content_codings(header), 4 * MIB)
        sizes: list[int] = []
        with suppress(CodingError):
            sizes.extend(len(piece) for piece in decoder.feed(data))
        assert max(sizes, default=0) <= 512 * 1024, name
        assert sum(sizes) <= 4 * MIB, name


def test_window_above_eight_mebibytes_is_refused() -> None:
    for window in (LARGEST_WINDOW + 1, 17 << 3, 31 << 3):  # of 9 MiB, 128 MiB and 2 TiB
        data = zstd_frame(b"a", window)
        for chunks in ((data,), (data[:6], data[6:])):
            with pytest.raises(CodingError, match=r"^a corrupt zstd body, expected "):
                decoded("zstd", *chunks)


def test_members_are_bounded() -> None:
    for coding in ("gzip", "zstd"):
        member = ENCODERS[coding](b"a")
        assert len(decoded(coding, member * 1024)) == 1024
        with pytest.raises(CodingError, match=f"^a {coding} body of more than 1024 members"):
            decoded(coding, member * 1025)
        with pytest.raises(CodingError, match=f"^a {coding} body of more than 1 members"):
            list(CodingDecoder(coding, max_members=1).feed(member * 2))


@every_coding
def test_body_of_the_bound_is_decoded_and_one_more_byte_is_not(coding: str) -> None:
    data = ENCODERS[coding](b"abc")
    assert decoded(coding, data, max_bytes=3) == b"abc"
    with pytest.raises(CodingError, match="too large, expected at most 2 bytes"):
        decoded(coding, data, max_bytes=2)


def test_chunk_yields_all_that_it_decodes_to_in_steps() -> None:
    decoder, zlibs = CodingDecoder("deflate", step_bytes=1), zlib.decompressobj()
    for byte in zlib.compress(b"abc" * 40):
        pieces = [*decoder.feed(bytes([byte]))]
        assert max(map(len, pieces)) <= 1
        assert b"".join(pieces) == zlibs.decompress(bytes([byte]))


class Old:
    """A decompressor of brotli 1.1."""

    def process(self, data: bytes) -> bytes:
        raise AssertionError


@pytest.mark.parametrize("module", [None, SimpleNamespace(Decompressor=Old)])
def test_br_needs_a_library_that_inflates_in_steps(
    monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.setitem(sys.modules, "brotli", module)
    assert codings._brotli() is None
