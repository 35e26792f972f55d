"""An independent, strict Chat Completions client.

Written from the vendor's reference: the role, and id and name of a call,
come once; indexes of calls are dense; nothing of a choice follows its finish reason, and
nothing follows `[DONE]` or an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Read", "chunks", "read"]

_HEAD = ("id", "object", "created", "model")
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_OTHERS = ("audio", "executed_tools", "images")


@dataclass
class Answer:
    """One choice as accumulated by a client.

    Attributes:
        texts: The joined text of each text field.
        calls: The tool calls, fields joined.
        details: The reasoning details by index, fields joined.
        annotations: The annotations.
        finish: The finish reason; None before it.
        stop: The stop sequence.
        others: Other fields of its deltas and chunks, in wire order.
    """

    texts: dict[str, str] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    details: dict[int, dict[str, str]] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    finish: str | None = None
    stop: str | None = None
    others: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Read:
    """A stream as accumulated by a client.

    Attributes:
        answers: The choices.
        head: The fields that all chunks share; empty without a chunk.
        usage: The usage; None without one.
        error: The payload of the error that ended the stream.
        sides: The fields beside the choices, in wire order.
        frames: The frames that are no chunk.
    """

    answers: dict[int, Answer] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    sides: list[dict[str, Any]] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)


def chunks(data: bytes) -> Iterator[Any]:
    """Yield the payloads of a stream, None for `[DONE]`; assert that the framing is the API's."""
    assert data.endswith(b"\n\n") or not data
    for frame in data.decode().split("\n\n")[:-1]:
        assert "\n" not in frame
        if frame.startswith(":"):
            continue
        assert frame.startswith("data: ")
        yield None if frame == "data: [DONE]" else json.loads(frame[6:])


def read(data: bytes, *, extras: bool = False) -> Read:
    """Read a stream; assert everything that a client depends on.

    Args:
        data: The stream.
        extras: Whether chunks may have fields that the API reference does not name.
    """
    got = Read()
    ended = False
    for chunk in chunks(data):
        assert not ended
        if chunk is None:
            assert got.answers
            assert all(answer.finish for answer in got.answers.values())
            ended = True
        elif not isinstance(chunk, dict):
            got.frames.append(chunk)
        elif chunk.get("error"):
            got.error = chunk["error"]
            fields = {"message", "type", "param", "code"}
            assert got.error.keys() >= fields if extras else got.error.keys() == fields
            assert isinstance(got.error["message"], str)
            assert isinstance(got.error["type"], str)
            ended = True
        elif "choices" not in chunk:
            got.frames.append(chunk)
        else:
            _add_chunk(got, chunk, extras=extras)
    assert ended
    return got


def _add_chunk(got: Read, chunk: dict[str, Any], *, extras: bool) -> None:
    head = {key: chunk[key] for key in _HEAD}
    assert head["object"] == "chat.completion.chunk"
    assert got.head in ({}, head)
    assert got.usage is None  # accumulators use the last usage, so nothing follows it
    got.head = head
    rest = {key: value for key, value in chunk.items() if key not in (*_HEAD, "choices")}
    rest.pop("service_tier", None)
    if "usage" in rest:
        assert chunk["choices"] == []
        assert all(answer.finish for answer in got.answers.values())
        got.usage = rest.pop("usage")
    if rest:
        # Fields beside the choices come with a choice without content.
        assert extras or chunk["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
        got.sides.append(rest)
    assert len(chunk["choices"]) <= 1
    for choice in chunk["choices"]:
        _add_choice(got, choice, extras=extras)


def _add_choice(got: Read, choice: dict[str, Any], *, extras: bool) -> None:
    delta, rest = choice["delta"], dict(choice)
    known = choice["index"] in got.answers
    answer = got.answers.setdefault(choice["index"], Answer())
    assert answer.finish is None
    for key in ("index", "delta", "finish_reason"):
        del rest[key]
    answer.finish = choice["finish_reason"]
    if answer.finish is not None:
        assert answer.finish in ("stop", "length", "tool_calls", "content_filter")
        assert delta == {} or extras
        answer.stop = rest.pop("stop_reason", None)
    if rest:
        answer.others.append(rest)
    if not known:
        assert delta == {"role": "assistant", "content": None}
        return
    for key, value in delta.items():
        _add_field(answer, key, value)


def _add_field(answer: Answer, key: str, value: Any) -> None:
    if key in _TEXTS:
        assert isinstance(value, str)
        assert value
        value.encode()
        answer.texts[key] = answer.texts.get(key, "") + value
    elif key == "tool_calls":
        (piece,) = value
        _add_call(answer.calls, piece)
    elif key == "reasoning_details":
        (piece,) = value
        _add_detail(answer.details, piece)
    elif key == "annotations":
        assert not answer.annotations  # a second list breaks the accumulator
        answer.annotations = value
    else:
        assert key in _OTHERS
        answer.others.append({key: value})


def _add_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        kind = piece["type"]
        owner, text = ("function", "arguments") if kind == "function" else ("custom", "input")
        assert kind in ("function", "custom")
        assert piece.keys() == {"index", "id", "type", owner}
        assert piece[owner].keys() == {"name", text}
        assert piece["id"]
        assert piece[owner]["name"]
        assert piece[owner][text] == ""
        calls.append({"id": piece["id"], "type": kind, **piece[owner]})
        return
    call = calls[piece["index"]]
    owner, text = ("function", "arguments") if "arguments" in call else ("custom", "input")
    if "extra_content" in piece:
        call["extra_content"] = piece.pop("extra_content")
    assert piece.keys() == {"index", owner}
    assert piece[owner].keys() == {text}
    piece[owner][text].encode()
    call[text] += piece[owner][text]


def _add_detail(details: dict[int, dict[str, str]], piece: dict[str, Any]) -> None:
    index = piece.pop("index")
    assert 0 <= index <= len(details)
    assert all(isinstance(value, str) for value in piece.values())
    detail = details.setdefault(index, {})
    for key, value in piece.items():
        # Some clients join unknown fields, which doubles a field sent twice.
        assert key not in detail or key in ("type", "text")
        detail[key] = detail.get(key, "") + value if key == "text" else value
