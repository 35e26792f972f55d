"""What a decoder takes, every other one takes as its encoder wrote it: ids as long as allowed.

An encoder marks an id, or escapes its characters, and the bound on ids counts both.
"""

from __future__ import annotations

import json

import pytest
from support.streams.content import DIALECTS, decode, encode

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    JSONDelta,
    Limits,
    MessageStart,
    MessageStop,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
    decode_message,
    encode_message,
)
from streamnorm._registry import lookup

LONGEST = Limits().max_id_chars
IDS = [
    prefix + character * (LONGEST - len(prefix))
    for prefix in ("", "resp_", "msg_", "chatcmpl-")
    for character in "aé"
]
BODIES = [name for name in DIALECTS if lookup(name).codec is not None]


def answer(message: str = "m1", call: str = "c1", name: str = "f") -> list[Event]:
    """Return the events of a text and a call."""
    return [
        *(MessageStart(message, "m"), BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, ToolCall(call, name)), JSONDelta(1, "{}"), BlockStop(1)),
        MessageStop("tool_use"),
    ]


@pytest.mark.parametrize("where", ["message", "call", "name"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_with_the_longest_ids_is_read_again(dialect: str, where: str) -> None:
    for id in IDS:
        written, _ = encode(answer(**{where: id}), dialect)
        assert isinstance(decode([written], dialect).outcome, Completed)


@pytest.mark.parametrize("where", ["message", "call", "name"])
@pytest.mark.parametrize("dialect", BODIES)
def test_body_with_the_longest_ids_is_read_again(dialect: str, where: str) -> None:
    for id in IDS:
        body = encode_message(accumulate(answer(**{where: id})), dialect).body
        assert len(decode_message(json.dumps(body), dialect).blocks) == 2


def test_responses_of_the_longest_ids_differ() -> None:
    ids = {str(encode_message(accumulate(answer(id)), "openai_responses").body["id"]) for id in IDS}
    # `msg_` is left out, since it is another vendor's mark for the same.
    assert len(ids) == len(IDS)
    assert all(id.startswith("resp_") and len(id) <= LONGEST for id in ids)
