"""Memory of an open stream, excluding its text."""

from __future__ import annotations

import gc
import tracemalloc
from typing import NamedTuple

from timing import Figure
from workloads import anthropic, chat, gemini, interactions, responses

import streamnorm

__all__ = ["report"]

_STREAMS = 1000
_OTHER_STREAMS = 100
_EVENTS = 1000
_KB = 1000
_START_BAR = 16.0
_CALLS_BAR = 32.0


class Phase(NamedTuple):
    """A point in a stream at which memory is measured.

    Attributes:
        name: Its name in the report.
        frames: The frames since the previous phase.
        bar: Largest accepted memory besides the text, in KB.
    """

    name: str
    frames: list[bytes]
    bar: float


def report(rounds: int) -> list[Figure]:
    """Print and return the memory of one of many open transcoders, in KB."""
    del rounds  # memory is the same each time
    print(
        f"\nKB of an open stream besides its text, mean of {_STREAMS:,} from Chat to Anthropic,"
        f" of {_OTHER_STREAMS} others"
    )
    figures: list[Figure] = []
    for source, target, frames in (
        ("openai_chat", "anthropic", chat.frames(chat.text(_EVENTS))),
        ("openai_chat", "openai_chat", chat.frames(chat.text(_EVENTS))),
        ("anthropic", "openai_chat", anthropic.frames(anthropic.text(_EVENTS))),
        ("openai_responses", "anthropic", responses.frames(responses.text(_EVENTS))),
        ("gemini", "openai_chat", gemini.frames(gemini.text(_EVENTS))),
        ("gemini_interactions", "openai_chat", interactions.frames(interactions.text(_EVENTS))),
        ("openai_chat", "gemini_interactions", chat.frames(chat.text(_EVENTS))),
    ):
        frames = _ascii(frames)
        start = _first_text(source, target, frames)
        phases = [
            Phase("at the start", frames[:start], _START_BAR),
            Phase(f"after {_EVENTS:,} events", frames[start:_EVENTS], _START_BAR),
        ]
        figures += _measure(source, target, phases)
    # 250 fragments of each call; none of the calls is complete.
    calls = _ascii(chat.frames(chat.calls(_EVENTS + 80, interleaved=True)))[: _EVENTS + 4]
    figures += _measure("openai_chat", "anthropic", [Phase("four calls open", calls, _CALLS_BAR)])
    return figures


def _ascii(frames: list[bytes]) -> list[bytes]:
    """Return frames with ASCII text, whose characters take one byte.

    One emoji makes CPython store every character of a text in four bytes.
    """
    return [frame.decode().encode("ascii", "replace") for frame in frames]


def _first_text(source: str, target: str, frames: list[bytes]) -> int:
    """Return the number of frames up to the first with text."""
    transcoder = streamnorm.Transcoder(source, target)
    for number, frame in enumerate(frames, 1):
        transcoder.feed(frame)
        if transcoder.message.text:
            return number
    raise AssertionError("no text")


def _measure(source: str, target: str, phases: list[Phase]) -> list[Figure]:
    """Feed many transcoders; return the mean memory of one after each phase."""
    pair = f"{source} → {target}"
    streams = _STREAMS if (source, target) == ("openai_chat", "anthropic") else _OTHER_STREAMS
    text_bytes: list[int] = []
    warm = streamnorm.Transcoder(source, target)
    for phase in phases:
        _feed([warm], phase.frames)
        text_bytes.append(_text_bytes(warm.message))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    transcoders = [streamnorm.Transcoder(source, target) for _ in range(streams)]
    figures: list[Figure] = []
    for phase, text in zip(phases, text_bytes, strict=True):
        _feed(transcoders, phase.frames)
        gc.collect()
        held = (tracemalloc.get_traced_memory()[0] - before) / streams
        figure = Figure(f"KB, {pair}, {phase.name}", (held - text) / _KB, phase.bar)
        print(
            f"{pair:34}{phase.name:20}{figure.value:8.1f}{figure.mark} (bar {phase.bar:.0f},"
            f" text {text / _KB:.1f})"
        )
        figures.append(figure)
    tracemalloc.stop()
    return figures


def _feed(transcoders: list[streamnorm.Transcoder], frames: list[bytes]) -> None:
    for transcoder in transcoders:
        for frame in frames:
            transcoder.feed(frame)


def _text_bytes(message: streamnorm.Message) -> int:
    calls = message.tool_calls
    return len((message.text + "".join(call.arguments for call in calls)).encode())
