"""The shape of a chunk: which fields are read, and which are worth keeping."""

from __future__ import annotations

import json

import msgspec
import pytest
from chat import DONE, chunk, content, decode, frame

from streamnorm import MessageStart, MessageStop
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.more import (
    more_arguments,
    reasoning_of,
    text_of,
)

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


def test_chunk_of_openai_is_read_as_its_reference_has_it() -> None:
    read = wire.decode_chunk(json.dumps(CHUNK))
    assert (read.id, read.model) == ("chatcmpl-1", "gpt")
    assert read.choices is not None
    assert read.choices[0].delta == wire.Delta(content="a")


@pytest.mark.parametrize("name", sorted(wire.CHUNK_FIELDS))
def test_field_that_is_read_is_not_kept_as_unknown(name: str) -> None:
    known = {"id": "chatcmpl-1", "model": "gpt", "choices": [], "usage": {}, "error": None}
    value = known.get(name, "x")
    first = content("a", **({} if name in ("id", "model", "choices") else {name: value}))
    events = decode(first, chunk({}, "stop", new=1), DONE).events
    assert events[0] == MessageStart("chatcmpl-1", "gpt")
    assert events[-1] == MessageStop("end_turn", "stop", extra={"new": 1})


@pytest.mark.parametrize("name", sorted(wire.CHOICE_FIELDS - {"index", "delta", "finish_reason"}))
def test_field_of_a_choice_that_is_read_is_not_kept_as_unknown(name: str) -> None:
    value: object = {} if name in ("usage", "message") else "x"
    part = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop", name: value}
    assert decode(frame({"id": "1", "choices": [part]}), DONE).events[-1] == MessageStop(
        "end_turn", "stop"
    )


MORE_TEXT = {"choices": [{"index": 0, "delta": {"content": "b"}, "finish_reason": None}]}
MORE_REASONING = {"choices": [{"delta": {"reasoning_content": "b"}}]}
MORE_ARGUMENTS = {
    "choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}}]
}
SHAPES = [
    (text_of, MORE_TEXT),
    (reasoning_of, MORE_REASONING),
    (more_arguments, MORE_ARGUMENTS),
]


@pytest.mark.parametrize(("decode_more", "plain"), SHAPES)
def test_shape_of_more_takes_the_plain_chunk(decode_more: object, plain: object) -> None:
    assert callable(decode_more)
    decode_more(json.dumps(plain))


def declared(kind: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


# What a shape does not refuse it silently drops, so it must refuse all that is read.
@pytest.mark.parametrize(("decode_more", "plain"), SHAPES)
@pytest.mark.parametrize(
    "name",
    [
        *(f"chunk.{name}" for name in sorted(declared(wire.Chunk) - {"choices", "id", "model"})),
        *(f"choice.{name}" for name in sorted(declared(wire.Choice) - {"delta", "message"})),
        *(f"delta.{name}" for name in sorted(declared(wire.Delta))),
    ],
)
def test_shape_of_more_refuses_whatever_else_a_chunk_may_say(
    decode_more: object, plain: dict[str, object], name: str
) -> None:
    assert callable(decode_more)
    payload = json.loads(json.dumps(plain))
    where, _, field = name.partition(".")
    owner = {
        "chunk": payload,
        "choice": payload["choices"][0],
        "delta": payload["choices"][0]["delta"],
    }[where]
    odd = {"a": 1} if not isinstance(owner.get(field), list) else [*owner[field], *owner[field]]
    owner[field] = odd if field != "index" else 1
    with pytest.raises(msgspec.ValidationError):
        decode_more(json.dumps(payload))


def test_shape_of_more_arguments_refuses_whatever_names_a_call() -> None:
    for extra in ({"id": "x"}, {"id": ""}, {"custom": {"input": "x"}}, {"extra_content": {"a": 1}}):
        piece = {"index": 0, "function": {"arguments": "1"}, **extra}
        with pytest.raises(msgspec.ValidationError):
            more_arguments(json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}))
    named = {"index": 0, "function": {"arguments": "1", "name": "f"}}
    with pytest.raises(msgspec.ValidationError):
        more_arguments(json.dumps({"choices": [{"delta": {"tool_calls": [named]}}]}))


def test_pieces_are_the_fields_that_are_joined() -> None:
    joined = {"content", "reasoning_content", "reasoning", "refusal", "arguments", "input"}
    assert joined <= wire.PIECES
    assert not wire.PIECES & {"id", "name", "role", "usage", "error", "logprobs"}
