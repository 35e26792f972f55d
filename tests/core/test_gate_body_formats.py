"""The gate lets through what is a stream, though it comes as a JSON array."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.mutations import chunked

from streamnorm import Limits, StreamError
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.gate import Gate
from streamnorm.codec import decoder

CHUNK = {"candidates": [{"content": {"parts": [{"text": "a]"}]}}]}
TOLD = {"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}}
QUOTA = StreamError("upstream", "Quota.", "RESOURCE_EXHAUSTED", 429, True)


def array(*elements: Any) -> bytes:
    return b"[" + b",\r\n".join([json.dumps(element, indent=2).encode() for element in elements])


def gate(dialect: str | None, status: int | None = 200, **limits: int) -> Gate:
    bounds = Limits(**limits)
    reader = decoder(dialect, limits=bounds)
    return Gate(
        status,
        "application/json; charset=UTF-8",
        judge_body=reader.judge_body,
        sniffer=reader.sniffer,
        limits=bounds,
    )


def run(door: Gate, chunks: list[bytes]) -> bytes:
    passed = b"".join([door.feed(chunk) for chunk in chunks if door.error is None])
    if door.error is None:
        door.close()
    return passed


each_name = pytest.mark.parametrize("dialect", ["gemini", None])
each_size = pytest.mark.parametrize("size", [1, 7, 1 << 20])


@each_name
@each_size
@pytest.mark.parametrize("before", [b"", b"\n", b"\xef\xbb\xbf \r\n"])
def test_array_of_chunks_passes_unchanged(dialect: str | None, size: int, before: bytes) -> None:
    body = before + array(CHUNK, CHUNK) + b"]"
    door = gate(dialect)
    assert run(door, chunked(body, size)) == body
    assert door.open
    assert door.error is None


@each_name
def test_gate_opens_at_the_end_of_the_first_array_element(dialect: str | None) -> None:
    door, body = gate(dialect), array(CHUNK)
    assert door.feed(body[:-1]) == b""
    assert not door.open
    assert door.feed(body[-1:]) == body
    assert door.feed(b",") == b","


@each_name
@each_size
@pytest.mark.parametrize("end", [b"]", b"\n]\n"])
def test_array_that_holds_an_error_is_the_providers_error(
    dialect: str | None, size: int, end: bytes
) -> None:
    for status in (200, 429):
        door = gate(dialect, status)
        assert run(door, chunked(array(TOLD) + end, size)) == b""
        assert door.error == QUOTA


@each_name
@each_size
def test_array_with_an_error_status_is_no_stream(dialect: str | None, size: int) -> None:
    door = gate(dialect, 500)
    assert run(door, chunked(array(CHUNK) + b"]", size)) == b""
    assert door.error == StreamError(
        "upstream", "HTTP 500 with a JSON body", status_hint=500, retryable=True
    )


@each_name
@each_size
@pytest.mark.parametrize("body", [b"[]", b"[1,2]", b'[{"a":1}]', b'["', b"{}", b'[{"choices":[]}]'])
def test_json_that_is_no_array_of_chunks_is_no_stream(
    dialect: str | None, size: int, body: bytes
) -> None:
    door = gate(dialect)
    assert run(door, chunked(body, size)) == b""
    if body == b'["':  # which may be anything yet
        assert door.open
    else:
        assert door.error is not None
        assert door.error.code == NOT_A_STREAM


@each_size
def test_array_is_refused_for_a_dialect_without_arrays(size: int) -> None:
    door = gate("openai_chat")
    assert run(door, chunked(array(CHUNK) + b"]", size)) == b""
    assert door.error is not None
    assert door.error.code == NOT_A_STREAM


@each_name
def test_broken_array_is_left_to_the_decoder(dialect: str | None) -> None:
    for end in ("close", "abort"):
        door = gate(dialect)
        assert door.feed(array(CHUNK)[:30]) == b""
        getattr(door, end)()
        assert door.open
        assert door.error is None


@each_name
@each_size
def test_first_array_element_may_exceed_the_error_body_bound(
    dialect: str | None, size: int
) -> None:
    body = array(CHUNK) + b"]"
    door = gate(dialect, max_error_body_bytes=20)
    assert run(door, chunked(body, size)) == body
    large = gate(dialect, max_error_body_bytes=20, max_event_bytes=60)
    assert run(large, chunked(body, size)).startswith(body[:60])
    assert large.open  # and the decoder tells that it is too large
    other = gate(dialect, max_error_body_bytes=20)
    run(other, chunked(b'[{"a":"' + b"x" * 50 + b'"}]', size))
    assert other.error is not None
    assert other.error.message.startswith("a JSON body, expected an event stream")
