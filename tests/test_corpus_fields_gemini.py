"""Fields of the corpus that the Gemini decoder drops: those that it neither reads nor keeps.

A chunk that only continues a text is read fast, for its text and its counts; what else it
says of the message is dropped.  Of other chunks, fields nobody knows are kept.  A new
field shows up here, to be read or to be listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from support.streams.corpus import corpus, needs_corpus, payloads, recordings

from streamnorm.dialects.gemini import wire

REVIEWED = {
    "chunk.createTime": "repeated",
    "chunk.modelVersion": "repeated",
    "chunk.responseId": "repeated",
    "content.role": "constant",
}

READ = {"candidates", "usageMetadata"}


@needs_corpus
def test_every_dropped_field_is_reviewed() -> None:
    bodies = [stream.body for stream in corpus("gemini")]
    assert {field for body in bodies for field, _ in dropped(body)} == REVIEWED.keys()


@needs_corpus
def test_dropped_fields_repeat_known_values() -> None:
    """Why they may be dropped: each was said before, and kept."""
    for stream in corpus("gemini"):
        assert {field for field, is_new in dropped(stream.body) if is_new} == set(), stream.name


def test_recordings_drop_no_other_field() -> None:
    bodies = [recording.body for recording in recordings("gemini")]
    assert {field for body in bodies for field, _ in dropped(body)} <= REVIEWED.keys()


def test_only_plain_text_chunks_are_on_the_run() -> None:
    """Below a chunk, the fast reader drops nothing."""
    plain = chunk({"text": "Hi", "thought": True})
    assert is_fast(plain)
    assert not is_fast(chunk({"text": "Hi", "thoughtSignature": "c2ln"}))
    for at in (plain["candidates"][0], plain["candidates"][0]["content"]):
        at["odd"] = 1
        assert not is_fast(plain)
        del at["odd"]


def chunk(part: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def dropped(body: bytes) -> Iterator[tuple[str, bool]]:
    """Yield each field that is dropped, and whether its value is another than was kept."""
    kept: dict[str, Any] = {}
    for number, value in enumerate(chunks(body)):
        if not number or not is_fast(value):
            kept |= value
        else:
            for key in value.keys() - READ:
                yield f"chunk.{key}", kept.get(key) != value[key]
        for candidate in value.get("candidates", ()):
            content = candidate.get("content") or {}
            yield from (
                (f"content.{key}", content[key] != "model") for key in content.keys() - {"parts"}
            )


def is_fast(value: dict[str, Any]) -> bool:
    try:
        wire.decode_text(json.dumps(value))
    except msgspec.MsgspecError:
        return False
    return True


def chunks(body: bytes) -> Iterator[dict[str, Any]]:
    if body.startswith(b"["):
        yield from json.loads(body)
        return
    for payload in payloads(body):
        try:
            value = json.loads(payload)
        except ValueError:
            continue
        yield value
