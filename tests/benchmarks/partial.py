"""Cost of reading an open call's arguments after each fragment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from timing import Figure

import streamnorm
from streamnorm import BlockStart, JSONDelta, ToolCall

SIZE = 1_000_000
FRAGMENT = 50

SHAPES: dict[str, Callable[[int], object]] = {
    "objects in an array": lambda size: {
        "rows": [{"id": n, "name": f"row {n}", "ok": True} for n in range(size // 44)]
    },
    "numbers in an array": lambda size: {"numbers": [*range(size // 8)]},
    "members of an object": lambda size: {f"key {n}": n for n in range(size // 18)},
    "long strings": lambda size: {"edits": ["a line of text\n" * 60] * (size // 965)},
    "one string": lambda size: {"text": "x" * size},
}

Read = Callable[[streamnorm.Accumulator], object]

READS: dict[str, Read] = {
    "not asked": lambda accumulator: None,
    "partial_input": lambda accumulator: accumulator.partial_input(0),
    "input_deltas": lambda accumulator: accumulator.input_deltas(0),
}


def seconds(arguments: str, read: Read) -> float:
    """Return the CPU seconds of reading a call's arguments after each fragment."""
    fragments = [arguments[n : n + FRAGMENT] for n in range(0, len(arguments), FRAGMENT)]
    events = [JSONDelta(0, fragment) for fragment in fragments]
    accumulator = streamnorm.Accumulator()
    accumulator.push(BlockStart(0, ToolCall("call", "tool")))
    last = None
    start = time.process_time()
    for event in events:
        accumulator.push(event)
        last = read(accumulator)
    taken = time.process_time() - start
    del last
    assert accumulator.partial_input(0) == json.loads(arguments)
    return taken


def report(rounds: int) -> list[Figure]:
    """Print the seconds for a 1 MB call, and the factor for a call of twice the size."""
    print(f"\n{'1 MB call, 20,000 deltas':24}{'s':>16}{'2 x size':>16}")
    for shape, make in SHAPES.items():
        small, large = json.dumps(make(SIZE)), json.dumps(make(2 * SIZE))
        for name, read in READS.items():
            one = min(seconds(small, read) for _ in range(min(rounds, 2)))
            two = min(seconds(large, read) for _ in range(min(rounds, 2)))
            print(f"{shape:24}{name:>14}{one:8.3f}{two / one:10.2f} x")
    return []
