"""Delta runs: a stream reads the same in full, by templates, and by the kernel in C.

Streams of deltas, whole ones and recordings, with some events damaged, are read in random pieces
and written in random dialects with random options.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from support.draws import Draws
from support.kernels import COMPILED, kernel_of
from support.streams.chunkings import CHUNKINGS, events_of
from support.streams.corpus import recordings
from support.streams.delta_mutations import damaged_bytes, other_payloads, other_spellings
from support.streams.delta_streams import DELTA_STREAMS, delta_stream
from support.streams.mutations import damaged
from support.streams.run_comparison import Route, assert_same_without_run, routes

MAX_BYTES = 8  # of a seed
_DAMAGE_BYTES = 64
_MAX_DELTAS = 80
_MAX_STREAM_BYTES = 20_000


def samples() -> list[bytes]:
    """Return no inputs: any bytes are a seed."""
    return []


def check(data: bytes) -> None:
    """Read a stream in each of the ways."""
    d = random.Random(data)  # noqa: S311 - no secret
    body, known = d.choice((_make_deltas, _pick_recording))(d)
    if d.randrange(2):
        body = damaged(Draws(d.randbytes(_DAMAGE_BYTES)), body)
    events = events_of(body)
    route, cut = d.choice(known), d.choice(list(CHUNKINGS))
    chunks = CHUNKINGS[cut](events)
    with kernel_of(None):
        by_twins = assert_same_without_run(chunks, route)
    with kernel_of(COMPILED):
        by_kernel = assert_same_without_run(chunks, route)
    assert by_kernel == by_twins, f"{route}, {cut}: otherwise by the kernel"


def _make_deltas(d: random.Random) -> tuple[bytes, list[Route]]:
    """Return a stream whose middle delta may be another one."""
    stream = delta_stream(d.choice(list(DELTA_STREAMS)), 1 + d.randrange(_MAX_DELTAS))
    deltas, at = list(stream.deltas), stream.middle
    mutate = d.choice((None, damaged_bytes, other_payloads, other_spellings))
    if mutate is not None:
        _, deltas[at : at + 1] = d.choice([*mutate(deltas[at])])
    body = b"".join([*stream.opening, *deltas, *stream.closing])
    return body, _routes(stream.dialect, **stream.options)


def _pick_recording(d: random.Random) -> tuple[bytes, list[Route]]:
    dialect, body = d.choice(_recordings())
    return body, _routes(dialect)


@cache
def _routes(dialect: str, **options: Any) -> list[Route]:
    return routes(dialect, **options)


@cache
def _recordings() -> list[tuple[str, bytes]]:
    names = sorted({delta_stream(name).dialect for name in DELTA_STREAMS})
    found = [(name, each.body) for name in names for each in recordings(name)]
    return [(name, body) for name, body in found if len(body) <= _MAX_STREAM_BYTES]
