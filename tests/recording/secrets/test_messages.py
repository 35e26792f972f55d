"""Secrets in the messages of an event stream, in base64 and beside it."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked
from support.streams.corpus import needs_corpus

from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.eventstream import EventStreamDecoder, encode_message
from streamnorm.recording import secrets as messages
from streamnorm.recording.format import WireRequest
from streamnorm.recording.secrets import Secrets

KEY = "sk-ant-api03-0123456789abcdefABCDEF"
X = "x" * len(KEY)
CANARY = "Zq7+Kw/é9TmX2vBn4RsL8"


def text(value: str) -> dict[str, object]:
    delta = {"type": "text_delta", "text": value}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def secrets() -> Secrets:
    known = Secrets()
    known.scrub_request(WireRequest("POST", "https://a.example/", (("x-api-key", CANARY),)))
    return known


def scrub(body: bytes, known: Secrets | None = None) -> bytes:
    return (known or Secrets()).scrub(body, INVOKE_CHUNKS)


def test_secret_in_a_chunk_is_replaced_and_the_stream_still_read() -> None:
    body = b"".join(map(chunk, (*EVENTS[:2], text(f"the key is {KEY}."), *EVENTS[2:])))
    found, known = scrub(body, known := Secrets()), known
    assert len(found) == len(body)
    assert invoked(found).events == [*EVENTS[:2], text(f"the key is {X}."), *EVENTS[2:]]
    assert known.count == 1


@pytest.mark.parametrize("shift", range(3))
def test_known_value_is_replaced_at_each_position_in_base64(shift: int) -> None:
    known = secrets()
    found = scrub(chunk(text("." * shift + CANARY)), known)
    hidden = "x" * (len("\\u00e9") + len(CANARY) - 1)
    assert invoked(found).events == [text("." * shift + hidden)]


def test_secret_in_an_exception_is_replaced() -> None:
    found = scrub(chunk(EVENTS[0]) + exception("validationException", message=f"bad {KEY}"))
    assert invoked(found).exceptions == [("validationException", {"message": f"bad {X}"})]


def test_stream_without_secrets_stays_as_it_is() -> None:
    body = b"".join(map(chunk, EVENTS)) + exception("throttlingException", message="slow")
    assert scrub(body, known := secrets()) == body
    assert known.count == 0


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_result_does_not_depend_on_the_chunks(size: int) -> None:
    body = (
        b"".join(chunk(text(f"{KEY} {n} {CANARY}")) for n in range(5)) + b"\0\0\1 " + KEY.encode()
    )
    scrubber = secrets().open_scrubber(INVOKE_CHUNKS)
    pieces = [scrubber.feed(body[at : at + size]) for at in range(0, len(body), size)]
    found = b"".join([*pieces, scrubber.close()])
    assert found == scrub(body, secrets())
    assert len(found) == len(body)
    assert found.endswith(b"\0\0\1 " + X.encode())


def test_pattern_matches_within_one_text() -> None:
    known = Secrets([re.compile(r"ACCT-\d+"), re.compile(r"\}.*\{", re.DOTALL)])
    found = scrub(b"".join(map(chunk, (text("ACCT-77"), text("b")))), known)
    assert invoked(found).events == [text("xxxxxxx"), text("b")]


@pytest.mark.parametrize("before", [b"", chunk(EVENTS[0]), b"\xff" * 12])
def test_secret_in_what_is_no_whole_message_is_replaced(before: bytes) -> None:
    half = chunk(text(f"{KEY} {'.' * 60}"))[:-70]
    found = scrub(before + half)
    assert len(found) == len(before + half)
    assert KEY[:20].encode() not in found
    start = b64encode(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta",')
    assert start in found
    assert not any(b64encode(KEY[at:].encode())[:12] in found for at in range(3))


def test_what_is_no_message_is_searched_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base64 of any length has no known end there, nor has a secret that it cuts in two."""
    monkeypatch.setattr(messages, "_MAX_REST_BYTES", 400)
    monkeypatch.setattr(messages, "_MAX_SECRET_BYTES", 100)
    scrubber = Secrets().open_scrubber(INVOKE_CHUNKS)
    wrong = b"\xff" * 20 + KEY.encode() + b'{"bytes":"' + b64encode(b"." * 400 + KEY.encode() * 9)
    assert scrubber.feed(wrong[:400]) == b""
    found = scrubber.feed(wrong[400:600])
    assert found == (wrong[:300].replace(KEY.encode(), X.encode())) + b"x" * 300
    assert scrubber.feed(wrong[600:]) == b"x" * (len(wrong) - 600)
    assert scrubber.close() == b""


@pytest.mark.parametrize("shift", range(3))
def test_secret_in_base64_for_urls_is_replaced(shift: int) -> None:
    """Node reads it; botocore's users, and we, do not."""
    event = json.dumps(text("?>" * 3 + "." * shift + KEY), separators=(",", ":")).encode()
    payload = b'{"bytes":"%b","p":"ab"}' % urlsafe_b64encode(event)
    body = encode_message({":message-type": "event", ":event-type": "chunk"}, payload)
    assert b"-" in payload or b"_" in payload
    found = scrub(body)
    (message,) = EventStreamDecoder().feed(found)
    hidden = urlsafe_b64decode(json.loads(message.payload)["bytes"])
    assert json.loads(hidden) == text("?>" * 3 + "." * shift + X)


@needs_corpus
def test_word_in_real_streams_is_replaced_and_botocore_reads_them() -> None:
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "bedrock"
    replaced = 0
    for path in sorted(folder.glob("invoke-stream__*.eventstream")):
        body = path.read_bytes()
        assert scrub(body) == body  # they hold no secrets
        found = scrub(body, Secrets(["the"]))
        assert len(found) == len(body)
        expected = [payload.replace(b"the", b"xxx") for payload in invoked(body).payloads]
        assert invoked(found).payloads == expected, path.name
        replaced += found != body
    assert replaced >= 20
