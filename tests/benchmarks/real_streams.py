"""Real streams, if `STREAMNORM_CORPUS` names a corpus.

Of delta frames the share that the delta run reads, with a bar; what an event costs, without one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from reads import ONE_EVENT, SEGMENTS, sized
from timing import Figure, Run, decode, decode_json, fastest, transcode
from workloads import DIALECTS, chat

from streamnorm import Event, UsageUpdate
from streamnorm._core.events import Delta
from streamnorm.codec import decoder

__all__ = ["report"]

_LEAST_EVENTS = 300
# Of the delta frames in streams of so many events: the largest share that is read in full.
_LEAST_COUNTED_EVENTS = 40
_READ_IN_FULL = {"openai_chat": 0.2, "anthropic": 0.25, "openai_responses": 0.3, "gemini": 0.3}
_FRAME = re.compile(rb".+?(?:\r\n\r\n|\n\n)|.+\Z", re.DOTALL)

_READS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    ONE_EVENT: list,
    SEGMENTS: sized(1400),
}
# Bars of the matrix in u and U, for comparison.
_USES = {"events": (2, 0.7), "transcoded": (2, 1.2)}


class _Stream(NamedTuple):
    name: str
    dialect: str
    frames: list[bytes]
    payloads: list[bytes]


def report(rounds: int) -> list[Figure]:
    """Print the share of delta frames on the delta run, and median and worst cost of an event.

    The costs are those of streams of 300 events and more.
    """
    if "STREAMNORM_CORPUS" not in os.environ:
        print("\nreal streams: STREAMNORM_CORPUS names no corpus")
        return []
    counted = _streams(_LEAST_COUNTED_EVENTS)
    print(f"\ndelta frames in real streams of {_LEAST_COUNTED_EVENTS} events and more")
    figures = [_count(dialect, counted) for dialect in DIALECTS]
    _measure(rounds)
    return figures


def _count(dialect: str, streams: list[_Stream]) -> Figure:
    """Print and return the share of a dialect's delta frames that is read in full."""
    counts = {stream.name: _count_deltas(stream) for stream in streams if stream.dialect == dialect}
    deltas = sum(of_stream for of_stream, _ in counts.values())
    on_run = sum(on_run for _, on_run in counts.values())
    worst = min(counts, key=lambda name: counts[name][1] / max(1, counts[name][0]), default="")
    share = on_run / max(1, deltas)
    print(
        f"{dialect:20}{len(counts):5} streams, {deltas:7,} delta frames, {share:6.1%} on the delta"
        f" run; worst {worst}"
    )
    name = f"{dialect}: share of delta frames in real streams that is read in full"
    return Figure(name, 1 - share, _READ_IN_FULL[dialect])


def _count_deltas(stream: _Stream) -> tuple[int, int]:
    """Return the number of delta frames in a stream, and of those that the delta run reads."""
    deltas = on_run = 0
    reader = decoder(stream.dialect)
    for frame in stream.frames:
        for raw in reader.split(frame):
            run = reader.run
            text = run.text_of(raw) if run is not None and isinstance(raw, bytes) else None
            if text is not None:
                on_run += 1
                deltas += 1
                continue
            deltas += _is_delta(reader.read_raw(raw))
    return deltas, on_run


def _is_delta(events: list[Event]) -> bool:
    """Return whether the events of a frame only extend a block, or report usage as well."""
    others = [event for event in events if not isinstance(event, UsageUpdate)]
    return len(others) == 1 and isinstance(others[0], Delta)


def _measure(rounds: int) -> None:
    """Print median and worst cost of an event in streams of 300 events and more, by dialect."""
    unit_payloads = chat.text(1000)
    runs: dict[tuple[str, ...], Run] = {("U",): decode_json(unit_payloads)}
    streams = _streams(_LEAST_EVENTS)
    for stream in streams:
        runs[stream.name, "u"] = decode_json(stream.payloads)
        other = "openai_chat" if stream.dialect != "openai_chat" else "anthropic"
        for name, cut in _READS.items():
            reads = cut(stream.frames)
            # Some of them end in an error, or early.
            runs[stream.name, name, "events"] = decode(reads, stream.dialect, completes=False)
            runs[stream.name, name, "transcoded"] = transcode(
                reads, stream.dialect, other, completes=False
            )
    best = fastest(runs, min(rounds, 10))
    unit = best["U",] / len(unit_payloads)
    for dialect in DIALECTS:
        _print(dialect, [stream for stream in streams if stream.dialect == dialect], best, unit)


def _streams(least_events: int) -> list[_Stream]:
    """Return the streams of the corpus that have so many events."""
    # The reader of the corpus is that of the tests.
    sys.path.append(str(Path(__file__).parent.parent))
    from support.streams.corpus import corpus, payloads

    streams: list[_Stream] = []
    for dialect in DIALECTS:
        for stream in corpus(dialect):
            frames = _FRAME.findall(stream.body)
            if len(frames) >= least_events:
                data = [each.encode() for each in payloads(stream.body) if each != "[DONE]"]
                streams.append(_Stream(stream.name, dialect, frames, data))
    return streams


class _Cost(NamedTuple):
    """Cost of one stream's events: relative to the bar, in U, and in the stream's own u."""

    of_bar: float
    in_common: float
    in_own: float
    name: str


def _print(
    dialect: str, streams: list[_Stream], best: dict[tuple[str, ...], float], unit: float
) -> None:
    print(f"\n{len(streams)} real streams of {dialect} with {_LEAST_EVENTS} events and more")
    if not streams:
        return
    titles = ("median U", "u", "of bar", "worst U", "u", "of bar")
    print(" " * 28 + "".join(f"{title:>10}" for title in titles))
    for reads in _READS:
        for use, (own, common) in _USES.items():
            costs: list[_Cost] = []
            for stream in streams:
                cost = best[stream.name, reads, use] / len(stream.frames) / unit
                u = best[stream.name, "u"] / len(stream.payloads) / unit
                costs.append(_Cost(cost / (own * u + common), cost, cost / u, stream.name))
            worst = max(costs)
            columns = [
                median(cost.in_common for cost in costs),
                median(cost.in_own for cost in costs),
                median(cost.of_bar for cost in costs),
                worst.in_common,
                worst.in_own,
                worst.of_bar,
            ]
            figures = "".join(f"{column:10.2f}" for column in columns)
            print(f"{reads:14}{use:14}{figures}  {worst.name}")
