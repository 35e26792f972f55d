"""Chat Completions streams."""

from __future__ import annotations

import json
from typing import Any

from support.openai_chat import adversarial
from support.openai_chat.chunks import DONE, calls, content, frame
from test_adversarial import CLEAN, PARIS, STOPPED, A, in_turn

from ..cases import Call, Case, Expected
from .chat_servers import complete, server_rows
from .reasons_chat import REASONS

__all__ = ["cases"]

_IDS = {"get_weather": "call_a", "get_time": "call_b", "now": "call_n", "rm": "call_z"}
_OTHER_IDS: dict[str, dict[str, str | None]] = {
    "no id, two calls of one tool": {"f": None},
    "surrogate pair in two fragments, under another call": {"f": "call_a", "get_time": "call_b"},
}
_CUT = {
    "finish, text, cut",
    "finish, half a call, cut",
    "finish, start of a call, cut",
    "finish, reasoning, cut",
    "finish of one choice of two, cut",
}
"""Streams of `BROKEN` that end too early; all others contradict themselves."""


def cases() -> list[Case]:
    """Return the cases whose source is Chat Completions."""
    return [
        *(_of_row(name, *row) for name, row in CLEAN.items()),
        *_numbered(),
        *(_of_truth(name, *row) for name, row in adversarial.CLEAN.items()),
        *(_of_truth(name, *row) for name, row in adversarial.UNFINISHED.items()),
        *(_broken(name, frames) for name, frames in adversarial.BROKEN.items()),
        *(_case(name, frames, wanted, why) for name, frames, wanted, why in server_rows()),
    ]


def _case(name: str, frames: list[bytes], expected: Expected, why: str | None = None) -> Case:
    sent = tuple(map(complete, frames))
    return Case(name, "openai_chat", sent, expected, why or REASONS[name])


def _of_row(name: str, frames: list[bytes], blocks: list[dict[str, str]], stop: str) -> Case:
    expected = Expected(
        text="".join(block.get("text", "") for block in blocks),
        reasoning="".join(block.get("thinking", "") for block in blocks),
        calls=tuple(
            Call(block["id"], block["name"], _value(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        stop=stop,
        usage=(20, 7),
    )
    return _case(name, frames, expected)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _numbered() -> list[Case]:
    error = frame({"error": {"message": "overloaded", "type": "overloaded_error"}})
    cut = Expected(text="hi", outcome="truncated")
    return [
        _case(
            "17 no usage chunk",
            [content("hi"), STOPPED, DONE],
            Expected(text="hi", stop="end_turn"),
        ),
        _case("19 cut after text", [content("hi")], cut),
        _case(
            "19 cut after a whole call",
            [calls(A), *in_turn((0, PARIS))],
            Expected(
                calls=(Call("call_a", "get_weather", {"city": "Paris"}),), outcome="truncated"
            ),
        ),
        _case("19 cut within the frame of the finish", [content("hi"), STOPPED[:-20]], cut),
        _case(
            "20 error in the middle",
            [content("hi"), calls(A), *in_turn((0, PARIS[:5])), error, DONE],
            Expected(text="hi", outcome="failed"),
        ),
    ]


def _of_truth(name: str, frames: list[bytes], truth: adversarial.Truth) -> Case:
    ids = _OTHER_IDS.get(name, _IDS)
    whole = tuple(Call(ids[tool], tool, arguments) for tool, arguments in truth.calls)
    unfinished = tuple(Call(ids[tool], tool, _UNFINISHED_TEXT) for tool in truth.unfinished)
    expected = Expected(
        text=truth.text,
        reasoning=truth.thoughts,
        calls=(*whole, *unfinished),
        stop=truth.stop,
        usage=(20, 7) if any(b'"prompt_tokens"' in frame for frame in frames) else None,
    )
    return _case(name, frames, expected)


# Any text that is not whole JSON: the case is about the call's not being run.
_UNFINISHED_TEXT = ""


def _broken(name: str, frames: list[bytes]) -> Case:
    if name in _CUT:
        return _case(name, frames, Expected(text=None, outcome="truncated"))
    return _case(name, frames, Expected(text=None, outcome="failed"))
