"""What validation finds in the messages of an event stream."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from support.bedrock.chunks import EVENTS, chunk, exception
from support.streams.corpus import needs_corpus

from streamnorm import Limits
from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.eventstream import encode_message
from streamnorm.sse import Frame
from streamnorm.validation import Violation, validate

JSON = {":content-type": "application/json"}
CHUNK = {":event-type": "chunk", **JSON, ":message-type": "event"}
MESSAGES = [chunk(event) for event in EVENTS]
STREAM = b"".join(MESSAGES)


def violations(body: bytes, dialect: str = "anthropic", **options: Any) -> list[tuple[int, str]]:
    framing = INVOKE_CHUNKS if dialect == "anthropic" else None
    found = validate(body, dialect, framing=framing, **options)
    return [(each.position, each.message) for each in found]


def event(payload: bytes, **headers: str) -> bytes:
    return encode_message(
        {**CHUNK, **{f":{k.replace('_', '-')}": v for k, v in headers.items()}}, payload
    )


def of_base64(data: bytes) -> bytes:
    return event(b'{"bytes":"%b"}' % b64encode(data))


def test_stream_as_bedrock_sends_it_has_no_violations() -> None:
    assert violations(STREAM) == []
    failed = MESSAGES[0] + exception("throttlingException", message="slow")
    assert violations(failed) == []
    assert violations(failed[: len(MESSAGES[0])]) != []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (of_base64(b"\xff"), "chunk that is no event, expected JSON with its type"),
        (of_base64(b'{"kind":1}'), "chunk that is no event, expected JSON with its type"),
        (
            of_base64(b'{"type":"ping","a":"\xff"}'),
            "byte 20 of the payload is no UTF-8, expected JSON",
        ),
        (event(b'{"bytes":"a"}'), "chunk without bytes, expected an event in base64"),
        (event(b"{}"), "chunk without bytes, expected an event in base64"),
        (event(b""), "chunk without bytes, expected an event in base64"),
        (event(b"{}", event_type="text"), "event of an unknown :event-type, expected chunk"),
        (
            event(b"{}", message_type="note"),
            "message without a known :message-type, expected event, exception or error",
        ),
        (
            encode_message({}, b"{}"),
            "message without a known :message-type, expected event, exception or error",
        ),
    ],
)
def test_message_that_is_no_chunk_is_a_violation(message: bytes, told: str) -> None:
    body = b"".join([*MESSAGES[:3], message, *MESSAGES[3:]])
    assert violations(body) == [(3, told)]


def test_event_without_its_content_type_is_a_violation() -> None:
    payload = b'{"bytes":"%b"}' % b64encode(b'{"type":"ping"}')
    headers = {":event-type": "chunk", ":message-type": "event"}
    body = MESSAGES[0] + encode_message(headers, payload) + b"".join(MESSAGES[1:])
    assert violations(body) == [(1, "event without :content-type, expected application/json")]


def test_error_in_a_chunk_is_a_violation() -> None:
    error = chunk({"type": "error", "error": {"type": "overloaded_error", "message": "slow"}})
    told = "error event in a chunk, expected an exception"
    assert violations(MESSAGES[0] + error) == [(1, told)]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            exception("morseException", message="slow"),
            "exception of an unknown type, expected internalServerException, "
            "modelStreamErrorException, modelTimeoutException, serviceUnavailableException, "
            "throttlingException, validationException",
        ),
        (
            exception("throttlingException", text="slow"),
            "exception without a message, expected JSON with one",
        ),
        (
            encode_message({":message-type": "error"}, b""),
            "error without :error-code, expected one",
        ),
    ],
)
def test_wrong_error_is_a_violation_and_ends_the_stream(message: bytes, told: str) -> None:
    assert violations(MESSAGES[0] + message) == [(1, told)]
    behind = "message after an error, expected the end"
    assert violations(MESSAGES[0] + message + MESSAGES[1]) == [(1, told), (2, behind)]


def test_error_of_no_known_exception_is_legal() -> None:
    headers = {":message-type": "error", ":error-code": "500", ":error-message": "no"}
    assert violations(MESSAGES[0] + encode_message(headers, b"")) == []


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (3, "lengths that do not match their checksum"),
        (30, "bytes that do not match their checksum"),
        (-1, "bytes that do not match their checksum"),
    ],
)
def test_wrong_length_or_checksum_is_the_last_violation(at: int, told: str) -> None:
    wrong = bytearray(MESSAGES[1])
    wrong[at] ^= 1
    body = MESSAGES[0] + wrong + b"".join(MESSAGES[2:])
    where = f"in the message at byte {len(MESSAGES[0])}, expected a message"
    assert violations(body) == [(1, f"{told}, {where}")]
    validated = violations(body + body)
    assert validated == violations(body)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (b"\x01a\x0a", "a header of type 10"),
        (b"\x00\x00", "an empty or repeated name of a header"),
        (b"\x01a\x00\x01a\x00", "an empty or repeated name of a header"),
        (b"\x01a\x07\x00\x09b", "a header that is cut off or no UTF-8"),
    ],
)
def test_wrong_header_is_the_last_violation(headers: bytes, told: str) -> None:
    lengths = pack(">II", len(headers) + 16, len(headers))
    data = lengths + pack(">I", crc32(lengths)) + headers
    found = violations(MESSAGES[0] + data + pack(">I", crc32(data)) + MESSAGES[1])
    where = f"in the message at byte {len(MESSAGES[0])}, expected a message"
    assert found == [(1, f"{told}, {where}")]


def test_header_of_another_type_than_text_is_none() -> None:
    # The name `:message-type`, and its value as bytes (type 6).
    headers = b"\x0d:message-type\x06\x00\x05event"
    lengths = pack(">II", len(headers) + 16, len(headers))
    data = lengths + pack(">I", crc32(lengths)) + headers
    (found, *_) = violations(data + pack(">I", crc32(data)))
    assert found[1].startswith("message without a known :message-type")


def test_message_above_the_bound_is_a_violation() -> None:
    size = len(MESSAGES[0])
    found = violations(STREAM, limits=Limits(max_event_bytes=size - 1))
    assert found == [(0, f"a message of {size} bytes, expected at most {size - 1}")]


def test_half_a_message_at_the_end_is_a_violation() -> None:
    found = violations(STREAM + MESSAGES[0][:20])
    assert found == [(6, "20 bytes of a message without its end, expected a whole message")]


def conversed(name: str, payload: bytes, kind: str = "event") -> bytes:
    return encode_message({f":{kind}-type": name, **JSON, ":message-type": kind}, payload)


def test_events_and_exceptions_of_a_dialect_are_judged_by_its_checker() -> None:
    start = conversed("messageStart", b'{"role":"assistant"}')
    failed = start + conversed("throttlingException", b'{"message":"slow"}', "exception")
    assert violations(failed, "bedrock_converse") == []
    assert violations(failed + start, "bedrock_converse") == [
        (2, "frame after an exception, expected nothing")
    ]


# The exceptions of `ConverseStreamOutput` (botocore 1.44.5); `modelTimeoutException` is none.
CONVERSE_EXCEPTIONS = (
    "internalServerException, modelStreamErrorException, serviceUnavailableException, "
    "throttlingException, validationException"
)


@pytest.mark.parametrize("name", ["", "morseException", "modelTimeoutException", "messageStop"])
def test_exception_that_is_none_of_the_operation_ends_the_stream(name: str) -> None:
    start = conversed("messageStart", b'{"role":"assistant"}')
    stop = conversed(name, b'{"stopReason":"end_turn"}', "exception")
    told = (1, f"exception of an unknown type, expected {CONVERSE_EXCEPTIONS}")
    assert violations(start + stop, "bedrock_converse") == [told]
    usage = b'{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}'
    metadata = conversed("metadata", usage, "exception")
    assert violations(start + stop + metadata, "bedrock_converse") == [
        told,
        (2, "message after an error, expected the end"),
    ]


def test_event_named_as_an_exception_is_a_violation() -> None:
    start = conversed("messageStart", b'{"role":"assistant"}')
    failed = conversed("throttlingException", b'{"message":"slow"}')
    told = "event named as an exception, expected a message of type exception"
    assert violations(start + failed, "bedrock_converse") == [(1, told)]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (conversed("", b'{"role":"assistant"}'), "event without :event-type, expected one"),
        (conversed("a", b'"\xff"'), "byte 1 of the payload is no UTF-8, expected JSON"),
        (conversed("a", b""), "event without a payload, expected JSON"),
    ],
)
def test_wrong_event_is_a_violation(message: bytes, told: str) -> None:
    assert (0, told) in violations(message, "bedrock_converse")


def test_violations_do_not_depend_on_the_reads() -> None:
    reader = INVOKE_CHUNKS.layout.strict_reader
    assert reader is not None
    strict = reader(1 << 20)
    found = [item for byte in STREAM for item in strict.feed(bytes([byte]))]
    names = [str(each["type"]) for each in EVENTS]
    assert [item.event for item in found if isinstance(item, Frame)] == names
    assert list(strict.close()) == []


@needs_corpus
def test_violations_of_real_streams_are_those_of_the_index() -> None:
    """The index was made with botocore's parser, by rules of its own."""
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "bedrock"
    entries = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text().splitlines()]
    checked = 0
    for entry in entries:
        converse = entry["operation"] == "converse-stream"
        if not converse and (entry["operation"], entry["family"]) != ("invoke-stream", "anthropic"):
            continue
        body = (folder / entry["file"]).read_bytes()
        found: list[Violation] = (
            validate(body, "bedrock_converse")
            if converse
            else validate(body, "anthropic", framing=INVOKE_CHUNKS)
        )
        # An inner error and an unknown event are legal for botocore, which reads neither.
        judged = entry["file"] not in (
            "made__unknown-event.eventstream",
            "made__invoke-inner-error.eventstream",
        )
        assert bool(found) is bool(entry["violations"]) or not judged, entry["file"]
        checked += 1
    assert checked >= 100
