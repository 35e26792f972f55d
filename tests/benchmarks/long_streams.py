"""Cost of length: start and end of a 64 MiB stream, and texts and calls of a megabyte."""

from __future__ import annotations

from collections.abc import Callable

from reads import ONE_EVENT, SEGMENTS, sized
from timing import Figure, fastest, seconds, transcode
from workloads import anthropic, chat

import streamnorm

__all__ = ["report"]

_STREAM_BYTES = 64 * 1024 * 1024
_CYCLE_EVENTS = 2000
_BAR = 1.3
# Deltas of some six characters each.
_MEGABYTE_EVENTS = 170_000

_Consumer = streamnorm.codec.Decoder | streamnorm.Transcoder

_USES: dict[str, Callable[[], _Consumer]] = {
    "events": lambda: streamnorm.codec.decoder("openai_chat"),
    "→ anthropic": lambda: streamnorm.Transcoder("openai_chat", "anthropic"),
    "verbatim": lambda: streamnorm.Transcoder("openai_chat", "openai_chat"),
}


def report(rounds: int) -> list[Figure]:
    """Print and return the cost of the last events of a long stream, relative to the first."""
    print(f"\nthe last {_CYCLE_EVENTS:,} events of 64 MiB of Chat text, to the first (bar {_BAR})")
    opening, *deltas = chat.frames(chat.text(_CYCLE_EVENTS))[: _CYCLE_EVENTS + 1]
    figures: list[Figure] = []
    for name, reads in ((ONE_EVENT, deltas), (SEGMENTS, sized(1400)(deltas))):
        for use, make in _USES.items():
            passes = [_ends(make(), opening, reads) for _ in range(min(rounds, 3))]
            first, last = (min(each) for each in zip(*passes, strict=True))
            figure = Figure(f"64 MiB, {name}, {use}: last events, to first", last / first, _BAR)
            costs = f"{first * 1e6:.2f} µs, then {last * 1e6:.2f} µs"
            print(f"{name:20}{use:14}{figure.value:8.2f}{figure.mark} ({costs})")
            figures.append(figure)
    _report_tenfold(rounds)
    return figures


def _ends(consumer: _Consumer, opening: bytes, reads: list[bytes]) -> tuple[float, float]:
    """Return the CPU seconds of an event at a stream's start and at its end.

    The same reads are fed again and again, so that the stream is never in memory.
    """

    def cycle() -> None:
        feed = consumer.feed
        for read in reads:
            feed(read)

    consumer.feed(opening)
    first = seconds(cycle)
    for _ in range(_STREAM_BYTES // sum(map(len, reads)) - 2):
        cycle()
    last = seconds(cycle)
    assert consumer.outcome is None
    return first / _CYCLE_EVENTS, last / _CYCLE_EVENTS


def _report_tenfold(rounds: int) -> None:
    """Print the cost of an event in a stream of ten times the length."""
    for what, source, target, frames in (
        ("text", "openai_chat", "anthropic", _text),
        ("a call", "anthropic", "openai_chat", _call),
    ):
        short, long = frames(_MEGABYTE_EVENTS // 10), frames(_MEGABYTE_EVENTS)
        runs = {
            "short": transcode(short, source, target),
            "long": transcode(long, source, target),
        }
        best = fastest(runs, min(rounds, 3))
        ratio = best["long"] / len(long) / (best["short"] / len(short))
        print(f"an event of 1 MB of {what}, to one of 100 kB: {ratio:.2f}")


def _text(events: int) -> list[bytes]:
    return chat.frames(chat.text(events))


def _call(events: int) -> list[bytes]:
    return anthropic.frames(anthropic.call(events))
