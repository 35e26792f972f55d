"""Quirks of servers."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Note,
    StreamError,
    Text,
    ToolCall,
    accumulate,
)
from streamnorm.dialects.openai_chat.quirks import Quirks, quirks_of

END = chunk({}, "tool_calls") + DONE
GROWING = [calls(call(0, "x", "f", text)) for text in ('{"', '{"a":"', '{"a":"x"}', '{"a":"x"}')]


def test_cumulative_arguments_are_emitted_once_for_a_server_with_the_quirk() -> None:
    decoded = decode(*GROWING, END, server="qianfan")
    assert decoded.events[1:6] == [
        *(BlockStart(0, ToolCall("x", "f")), JSONDelta(0, '{"'), JSONDelta(0, 'a":"')),
        *(JSONDelta(0, 'x"}'), BlockStop(0)),
    ]
    assert decoded.notes == (Note("cumulative_arguments", "tool call", 3),)


@pytest.mark.parametrize("server", [None, "openai"])
def test_fragment_that_begins_alike_is_appended_without_the_quirk(server: str | None) -> None:
    decoded = decode(*GROWING[:2], END, server=server)
    (tool,) = accumulate(decoded.events).tool_calls
    assert tool.arguments == '{"{"a":"'


def test_cumulative_call_still_stops_when_it_is_complete() -> None:
    decoded = decode(*GROWING, content("hi"), END, server="qianfan")
    assert decoded.events[5:7] == [BlockStop(0), BlockStart(1, Text())]


def test_cumulative_arguments_after_the_stop_are_malformed() -> None:
    late = calls(call(0, "x", None, '{"a":"x"}y'))
    decoded = decode(*GROWING, content("hi"), late, END, server="qianfan")
    assert decoded.events[-1] == StreamError(
        "malformed", "arguments of a tool call that has stopped"
    )


def test_cumulative_arguments_may_begin_with_a_placeholder() -> None:
    frames = [calls(call(0, "x", "f", text)) for text in ("{}", '{"a"', '{"a":1}')]
    (tool,) = accumulate(decode(*frames, END, server="qianfan").events).tool_calls
    assert tool.arguments == '{"a":1}'


def test_unknown_server_has_no_quirks() -> None:
    assert quirks_of(None) == quirks_of("unheard of") == Quirks()
    assert quirks_of("qianfan") == Quirks(cumulative_arguments=True)
