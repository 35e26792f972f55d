"""Costs of real streams, if `STREAMNORM_CORPUS` names a corpus; reported, without a bar."""

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

__all__ = ["report"]

_LEAST_EVENTS = 300
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
    """Print median and worst cost of an event in streams of 300 events and more, by dialect."""
    if "STREAMNORM_CORPUS" not in os.environ:
        print("\nreal streams: STREAMNORM_CORPUS names no corpus")
        return []
    unit_payloads = chat.text(1000)
    runs: dict[tuple[str, ...], Run] = {("U",): decode_json(unit_payloads)}
    streams = _streams()
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
    return []


def _streams() -> list[_Stream]:
    # The reader of the corpus is that of the tests.
    sys.path.append(str(Path(__file__).parent.parent))
    from support.streams.corpus import corpus, payloads

    streams: list[_Stream] = []
    for dialect in DIALECTS:
        for stream in corpus(dialect):
            frames = _FRAME.findall(stream.body)
            if len(frames) >= _LEAST_EVENTS:
                data = [each.encode() for each in payloads(stream.body) if each != "[DONE]"]
                streams.append(_Stream(stream.name, dialect, frames, data))
    return streams


class _Cost(NamedTuple):
    """Cost of an event of one stream: as a share of the bar, in U, and in its own u."""

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
