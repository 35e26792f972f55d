"""Ways in which an upstream answers the first turn of a task, and what becomes of the task."""

from __future__ import annotations

from typing import Any, NamedTuple

from acceptance.frameworks import ANSWER, CALLS
from msgspec import structs

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm.recording.faults.fault import Fault
from streamnorm.recording.format import Playback
from streamnorm.testing import faults

__all__ = ["VARIANTS", "Variant"]


class Variant(NamedTuple):
    """A way to answer.

    Attributes:
        script: The answers.
        requests: Requests until the task has ended.
        fails: Whether the client must raise an exception; else it completes the task.
        upstreams: Dialects that can be written so; none for all.
    """

    script: list[Any]
    requests: int = 2
    fails: bool = False
    upstreams: tuple[str, ...] = ()


class _Bytewise(Fault, frozen=True):
    """Each byte is a chunk."""

    def __call__(self, playback: Playback) -> Playback:
        steps = (structs.replace(playback.steps[0], data=bytes([c])) for c in playback.body)
        return structs.replace(playback, steps=tuple(steps))


_INTERLEAVED: list[Event] = [
    MessageStart(),
    BlockStart(0, Text()),
    TextDelta(0, "One "),
    BlockStart(1, ToolCall("call_1", "get_weather")),
    JSONDelta(1, '{"city":'),
    BlockStart(2, ToolCall("call_2", "get_weather")),
    JSONDelta(2, '{"city": "R'),
    TextDelta(0, "moment."),
    JSONDelta(1, ' "Oslo"}'),
    JSONDelta(2, 'ome"}'),
    BlockStop(2),
    BlockStop(0),
    BlockStop(1),
    MessageStop("tool_use"),
]

VARIANTS = {
    "interleaved": Variant([_INTERLEAVED, ANSWER]),
    "crlf": Variant([[*CALLS, faults.crlf()], ANSWER]),
    "bytewise": Variant([[*CALLS, _Bytewise()], ANSWER]),
    # Its finish reason has said that the message is complete.
    "no [DONE]": Variant([[*CALLS, faults.drop_terminal()], ANSWER], upstreams=("openai_chat",)),
    # The SDKs repeat a request after these statuses, the gateway does not.
    "429 first": Variant([faults.http(429), CALLS, ANSWER], requests=3),
    "529 first": Variant([faults.http(529), CALLS, ANSWER], requests=3),
    # No SDK repeats a stream that has begun, and no tool is run although both calls are complete.
    "cut": Variant([[*CALLS, StreamError("transport", "")]], requests=1, fails=True),
    "end without terminal": Variant([[*CALLS, StreamError("truncated", "")]], 1, fails=True),
    "error in the middle": Variant(
        [[*CALLS, StreamError("upstream", "too much", "overloaded_error", 529)]], 1, fails=True
    ),
    "silent": Variant([[*CALLS, StreamError("stalled", "")]], requests=1, fails=True),
}
