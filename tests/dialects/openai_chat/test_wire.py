"""The fields of a chunk that are read, and those that are known."""

from __future__ import annotations

import json

import pytest
from support.openai_chat.chunks import DONE, chunk, content, decode, frame

from streamnorm import MessageStart, MessageStop
from streamnorm.dialects.openai_chat import wire

CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "gpt",
    "system_fingerprint": "fp",
    "choices": [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": "a"},
            "logprobs": None,
            "finish_reason": None,
        }
    ],
    "usage": None,
    "obfuscation": "xx",
}


def test_chunk_of_the_api_reference_is_read() -> None:
    read = wire.decode_chunk(json.dumps(CHUNK))
    assert (read.id, read.model) == ("chatcmpl-1", "gpt")
    assert read.choices is not None
    assert read.choices[0].delta == wire.Delta(content="a")


@pytest.mark.parametrize("name", sorted(wire.CHUNK_FIELDS))
def test_known_field_of_a_chunk_is_not_in_extra(name: str) -> None:
    known = {"id": "chatcmpl-1", "model": "gpt", "choices": [], "usage": {}, "error": None}
    value = known.get(name, "x")
    first = content("a", **({} if name in ("id", "model", "choices") else {name: value}))
    events = decode(first, chunk({}, "stop", new=1), DONE).events
    assert events[0] == MessageStart("chatcmpl-1", "gpt")
    assert events[-1] == MessageStop("end_turn", "stop", extra={"new": 1})


@pytest.mark.parametrize("name", sorted(wire.CHOICE_FIELDS - {"index", "delta", "finish_reason"}))
def test_known_field_of_a_choice_is_not_in_extra(name: str) -> None:
    value: object = {} if name in ("usage", "message") else "x"
    part = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop", name: value}
    assert decode(frame({"id": "1", "choices": [part]}), DONE).events[-1] == MessageStop(
        "end_turn", "stop"
    )


def test_pieces_are_the_fields_that_clients_join() -> None:
    joined = {"content", "reasoning_content", "reasoning", "refusal", "arguments", "input"}
    assert joined <= wire.PIECES
    assert not wire.PIECES & {"id", "name", "role", "usage", "error", "logprobs"}
