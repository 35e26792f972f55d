"""A stream whose deltas change their shape costs little more than reading every frame in full.

No template of one delta fits the next one, and many are refused by the delta run.  The cost is
counted in function calls, which do not depend on the machine.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.draws import Draws
from support.operation_counts import operations
from support.streams.delta_streams import DELTA_STREAMS, delta_stream
from support.streams.run_comparison import (
    assert_same_without_run,
    every_frame_in_full,
    read,
    stream_routes,
)

DELTAS = 80
MOST = 1.2  # times the cost with every frame read in full
_DRAWN_BYTES = 8000

_SEPARATORS = [(",", ":"), (", ", ": "), (",", ": "), (" ,", " :")]


def changed(d: Draws, value: Any, number: int) -> Any:
    """Return a JSON value whose objects have another order of members, or one member more."""
    if isinstance(value, list):
        return [changed(d, item, number) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(key, changed(d, item, number)) for key, item in value.items()]
    members = d.shuffled(members) if d.flag() else members
    if d.flag(4):
        name = d.pick(["obfuscation", "p", "new", "usage_note"])
        members.insert(d.below(len(members) + 1), (name, d.pick(["", "x" * number, number, None])))
    return dict(members)


def respelt(d: Draws, event: bytes, number: int) -> bytes:
    """Return an event whose payload has the same meaning in another shape."""
    start, end = event.index(b"{"), event.rindex(b"}") + 1
    payload = changed(d, json.loads(event[start:end]), number)
    text = json.dumps(payload, separators=d.pick(_SEPARATORS), ensure_ascii=d.flag(3))
    return event[:start] + text.encode("utf-8", "surrogatepass") + event[end:]


@pytest.mark.parametrize("name", DELTA_STREAMS)
@settings(max_examples=max(1, settings().max_examples // 50))
@given(seed=st.integers(0, 2**32))
def test_deltas_that_change_their_shape_cost_little_more_than_in_full(name: str, seed: int) -> None:
    d = Draws(random.Random(seed).randbytes(_DRAWN_BYTES))  # noqa: S311 - a seed is the point
    stream = delta_stream(name, DELTAS)
    deltas = [respelt(d, event, number) for number, event in enumerate(stream.deltas)]
    events = stream._replace(deltas=deltas).events
    route = d.pick(stream_routes(stream))
    assert_same_without_run(events, route)
    fast = operations(lambda: read(events, route))
    with every_frame_in_full():
        in_full = operations(lambda: read(events, route))
    assert fast <= MOST * in_full, str(route)
