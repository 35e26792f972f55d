"""Compressed bodies at the door of a gateway."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import brotli
import pytest
from support.gateway_calls import (
    CANARY,
    CHAT,
    JSON,
    MESSAGES,
    POSTS,
    called,
    every_dialect,
    opened,
    refused,
    scripted,
)

from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway import encodings
from streamnorm.gateway.encodings import body_decoder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def zstd_frame(data: bytes, window: int) -> bytes:
    """Return a frame of one raw block, with a window descriptor (RFC 8878, section 3.1.1.1.2)."""
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\0" + bytes([window]) + block + data


LARGEST_WINDOW = 13 << 3  # 8 MiB: RFC 9659

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": zstd.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
}
every_coding = pytest.mark.parametrize("coding", ENCODERS)


def encoded(coding: str) -> tuple[tuple[str, str], ...]:
    return (*JSON, ("content-encoding", coding))


def decoded(coding: str, *chunks: bytes, max_bytes: int = MIB) -> bytes:
    """Return what the chunks of a body decode to."""
    decoder = body_decoder({"content-encoding": coding}, max_bytes)
    assert decoder is not None
    body = b"".join(piece for chunk in chunks for piece in decoder.feed(chunk))
    decoder.close()
    return body


# What is accepted


@every_coding
@every_dialect
async def test_compressed_body_is_answered_as_its_plain_form(client: str, coding: str) -> None:
    target, body = POSTS[client]
    data = ENCODERS[coding](json.dumps(body).encode())
    async with opened() as app:
        caller = await called(app, target, data, headers=encoded(coding))
    assert caller.status == 502  # it was let in, and nobody listens there


@every_coding
@pytest.mark.parametrize(
    ("dialect", "path"), [("openai_chat", "/v1/chat/completions"), ("anthropic", "/v1/messages")]
)
async def test_upstream_gets_the_plain_body_alone(dialect: str, path: str, coding: str) -> None:
    plain = json.dumps(CHAT).encode()
    headers = [*encoded(coding), ("content-length", str(len(ENCODERS[coding](plain))))]
    async with scripted({}, dialect) as (app, upstream):
        target = "/v1/chat/completions"
        await called(app, target, ENCODERS[coding](plain), headers=headers)
    (sent,) = upstream.requests
    assert sent.target == path
    assert "content-encoding" not in sent.headers
    assert sent.json["messages"][0]["role"] == "user"
    if dialect == "openai_chat":
        assert sent.body == plain


@every_coding
async def test_tokens_of_a_compressed_request_are_counted(coding: str) -> None:
    data = ENCODERS[coding](json.dumps(MESSAGES).encode())
    answers = {"/v1/messages/count_tokens": {"input_tokens": 7}}
    async with scripted(answers, "anthropic") as (app, _):
        caller = await called(app, "/v1/messages/count_tokens", data, headers=encoded(coding))
    assert (caller.status, b"".join(caller.bodies)) == (200, b'{"input_tokens":7}')


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


@pytest.mark.parametrize("header", ["", "identity", "Identity", " , identity"])
def test_plain_body_needs_no_decoder(header: str) -> None:
    assert body_decoder({"content-encoding": header}, 10) is None
    assert body_decoder({}, 10) is None


async def test_coding_without_a_body_is_none() -> None:
    async with opened() as app:
        caller = await called(app, "/v1/models", method="GET", headers=encoded("gzip"))
    assert caller.status == 502


# What is refused


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("lz4", "a content-encoding that is not supported"),
        (CANARY, "a content-encoding that is not supported"),
        ("gzip, chunked", "a content-encoding that is not supported"),
        ("gzip, gzip, zstd", "3 codings of a body, expected at most 2"),
        (", ".join(["gzip"] * 1000), "1000 codings of a body, expected at most 2"),
    ],
)
@every_dialect
async def test_other_coding_is_refused(client: str, header: str, found: str) -> None:
    async with opened() as app:
        caller = await called(app, POSTS[client][0], b"x", headers=encoded(header))
    assert refused(caller, 415, client).startswith(found)
    assert caller.headers["accept-encoding"] == "zstd, gzip, deflate, br"


def corrupt(coding: str) -> Iterator[tuple[str, bytes]]:
    """Yield bodies that are not valid, and what is said of each."""
    data = ENCODERS[coding](json.dumps(CHAT).encode() * 20)
    for size in (1, 4, len(data) // 2, len(data) - 1):
        yield f"a {coding} body that ends early, expected its end", data[:size]
    found = f"a corrupt {coding} body, expected a valid one"
    yield found, json.dumps(CHAT).encode()
    yield found, b"\xff" * 100
    for garbage in (b"x", b"\0\0\0\0", b"\xff" * 100):
        yield _after_the_end(coding, garbage), data + garbage


def _after_the_end(coding: str, garbage: bytes) -> str:
    """Return what is said of bytes after the end of a body."""
    if coding == "deflate":
        return "more than one deflate body, expected one"
    if coding == "gzip" and len(garbage) == 1:
        return "a gzip body that ends early, expected its end"  # the byte may begin a member
    return f"a corrupt {coding} body, expected a valid one"


@every_coding
@every_dialect
async def test_corrupt_body_is_refused(client: str, coding: str) -> None:
    async with opened() as app:
        for found, data in corrupt(coding):
            caller = await called(app, POSTS[client][0], data, headers=encoded(coding))
            assert refused(caller, 400, client) == found


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
        except RequestRefused as refused:
            assert refused.error.status_hint in (400, 413)  # noqa: PT017 - of either


def test_second_body_of_a_coding_without_members_is_refused() -> None:
    for coding in ("deflate", "br"):
        data = ENCODERS[coding](b"a")
        for chunks in ((data + data,), (data, data)):
            with pytest.raises(RequestRefused, match=rf"^(more than one|a corrupt) {coding} body"):
                decoded(coding, *chunks)


# What is too large


def bombs() -> dict[str, tuple[str, bytes]]:
    """Return bodies of which a few bytes stand for 16 MiB and more, by what they are."""
    zeros = bytes(16 * MIB)
    found = {coding: (coding, encode(zeros)) for coding, encode in ENCODERS.items()}
    found["raw deflate"] = "deflate", raw_deflate(zeros)
    found["members"] = "gzip", gzip.compress(zeros[:MIB]) * 16
    found["frames"] = "zstd", zstd.compress(zeros[:MIB]) * 16
    # What the outer coding inflates decodes to nothing at all.
    found["inner"] = "gzip, zstd", zstd.compress(gzip.compress(b"") * MIB)
    found["twice"] = "gzip, gzip", gzip.compress(found["gzip"][1])
    return found


@pytest.fixture(scope="module")
def every_bomb() -> dict[str, tuple[str, bytes]]:
    return bombs()


async def test_bomb_is_refused_before_it_is_inflated(
    every_bomb: dict[str, tuple[str, bytes]],
) -> None:
    async with opened(max_body_bytes=MIB) as app:
        for name, (header, data) in every_bomb.items():
            caller = await called(app, "/v1/messages", data, headers=encoded(header))
            status = 400 if name == "inner" else 413
            refused(caller, status, "anthropic")


def test_step_of_a_bomb_is_small(every_bomb: dict[str, tuple[str, bytes]]) -> None:
    for name, (header, data) in every_bomb.items():
        decoder = body_decoder({"content-encoding": header}, 4 * MIB)
        assert decoder is not None
        sizes: list[int] = []
        with suppress(RequestRefused):
            sizes.extend(len(piece) for piece in decoder.feed(data))
        assert max(sizes, default=0) <= 512 * 1024, name
        assert sum(sizes) <= 4 * MIB, name


def test_window_above_eight_mebibytes_is_refused() -> None:
    for window in (LARGEST_WINDOW + 1, 17 << 3, 31 << 3):  # of 9 MiB, 128 MiB and 2 TiB
        data = zstd_frame(b"a", window)
        for chunks in ((data,), (data[:6], data[6:])):
            with pytest.raises(RequestRefused, match=r"^a corrupt zstd body, expected "):
                decoded("zstd", *chunks)


def test_members_are_bounded() -> None:
    for coding in ("gzip", "zstd"):
        member = ENCODERS[coding](b"a")
        assert len(decoded(coding, member * 1024)) == 1024
        with pytest.raises(RequestRefused, match=f"^a {coding} body of more than 1024 members"):
            decoded(coding, member * 1025)


async def test_both_forms_of_a_body_are_bounded() -> None:
    """A body that compression makes longer is bounded as it arrives."""
    plain = json.dumps({**CHAT, "user": random.Random(1).randbytes(300).hex()}).encode()  # noqa: S311
    for coding, encode in ENCODERS.items():
        data = encode(plain)
        for bound, status in ((len(plain), 502), (len(plain) - 1, 413), (len(data) - 1, 413)):
            async with opened(max_body_bytes=bound) as app:
                caller = await called(
                    app,
                    "/v1/chat/completions",
                    pieces=[data[:9], data[9:]],
                    headers=encoded(coding),
                )
            assert caller.status == status, coding


async def test_announced_length_is_that_of_what_arrives() -> None:
    data = gzip.compress(json.dumps(CHAT).encode())
    async with opened(max_body_bytes=len(data) - 1) as app:
        headers = [*encoded("gzip"), ("content-length", str(len(data)))]
        caller = await called(app, "/v1/chat/completions", data, headers=headers)
    refused(caller, 413)


# Other requests meanwhile


@every_coding
async def test_large_body_lets_other_tasks_run(coding: str) -> None:
    plain = json.dumps({**CHAT, "user": "x" * (8 * MIB)}).encode()
    data, turns = ENCODERS[coding](plain), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with opened() as app:
        other = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        caller = await called(app, "/v1/models", data, method="GET", headers=encoded(coding))
        other.cancel()
    assert caller.status == 502
    assert turns - before >= 8 * MIB // (512 * 1024)


def test_refusal_names_nothing_of_a_body() -> None:
    for coding in ENCODERS:
        data: Any = CANARY.encode()
        with pytest.raises(RequestRefused) as raised:
            decoded(coding, ENCODERS[coding](data) + data)
        assert CANARY not in str(raised.value)


class Old:
    """A decompressor of brotli 1.1."""

    def process(self, data: bytes) -> bytes:
        raise AssertionError


@pytest.mark.parametrize("module", [None, SimpleNamespace(Decompressor=Old)])
def test_br_needs_a_library_that_inflates_in_steps(
    monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.setitem(sys.modules, "brotli", module)
    assert list(encodings._codings()) == ["zstd", "gzip", "deflate"]
