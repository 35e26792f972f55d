"""Compressed bodies at the door of a gateway."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Iterator

import pytest
from support.gateway.calls import (
    CANARY,
    CHAT,
    JSON,
    MESSAGES,
    POSTS,
    assert_refused,
    called,
    every_dialect,
    opened,
    scripted,
)
from support.http.content_codings import ENCODERS, MIB, bombs, every_coding

pytestmark = pytest.mark.anyio


def encoded(coding: str) -> tuple[tuple[str, str], ...]:
    return (*JSON, ("content-encoding", coding))


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
    assert assert_refused(caller, 415, client).startswith(found)
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
            assert assert_refused(caller, 400, client) == found


# What is too large


async def test_bomb_is_refused_before_it_is_inflated() -> None:
    async with opened(max_body_bytes=MIB) as app:
        for name, (header, data) in bombs().items():
            caller = await called(app, "/v1/messages", data, headers=encoded(header))
            status = 400 if name == "inner" else 413
            assert_refused(caller, status, "anthropic")


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
    assert_refused(caller, 413)


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
