"""Stress test: event loop stalls and memory of a gateway with one large body.

    python tests/stress/loop_gaps.py [--only TEXT] [--source DIALECT] [--target DIALECT]

Bodies of 32 MB that are made to be slow, histories of agents of 8 and 24 MB, answers of 15 MB and
streams with an event of 13 MB go through a gateway in a process of its own, in which a task ticks
every millisecond.  Each goes from each dialect to each; counts of tokens, compactions and requests
whose answer is stored are sent, too.

Two ticks may be 50 ms apart, by the CPU time of the process: what else runs on the machine takes
none of that.  A history may take five times its size of memory, any other body 400 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.bodies.large import (
    HOSTILE,
    PATHS,
    history,
    large_answers,
    large_events,
    small_answer,
    small_request,
    stream_request,
)
from support.gateway.loop_gaps import Measured, measured_gateway

_MAX_GAP_MS = 50.0
_MAX_TIMES = 5
_MAX_BYTES = 400_000_000
_MB = 1_000_000
_OTHER_PATHS = {
    "anthropic": {"count": "/v1/messages/count_tokens"},
    "openai_chat": {},
    "openai_responses": {
        "count": "/v1/responses/input_tokens",
        "compact": "/v1/responses/compact",
    },
    "gemini": {"count": "/v1beta/models/m:countTokens"},
    "gemini_interactions": {},
}


class Case(NamedTuple):
    """A request to measure.

    Attributes:
        name: What is large in it.
        path: Its path.
        body: Its body.
        answer: The answer of the upstream; None for a small one.
        state: Where the gateway stores answers.
        max_bytes: Bound on the memory that it takes.
        content_type: The kind of the answer.
    """

    name: str
    path: str
    body: bytes
    answer: bytes | None = None
    state: str | None = None
    max_bytes: int = _MAX_BYTES
    content_type: str = "application/json"


def cases(source: str, target: str, only: str) -> Iterator[Case]:
    path = PATHS[source]
    for name, make in HOSTILE.items():
        if only in name:
            yield Case(name, path, make(source))
    for size in (8, 24):
        name = f"a history of {size} MB"
        body = history(source, size * _MB)
        histories = [Case(name, path, body, max_bytes=_MAX_TIMES * len(body))]
        if source == "openai_responses":
            histories.append(Case(f"{name}, stored", path, body, state="memory:"))
        for kind, other in _OTHER_PATHS[source].items():
            histories.append(Case(f"{name}, {kind}", other, body))
        yield from (case for case in histories if only in case.name)
    for name, answer in large_answers(target).items():
        if only in name:
            yield Case(name, path, small_request(source), answer)
    for name, answer in large_events(target).items():
        if only in name:
            yield Case(name, *stream_request(source), answer, content_type="text/event-stream")


async def measure(case: Case, source: str, target: str) -> Measured:
    settings = {} if case.state is None else {"state": case.state}
    async with measured_gateway(target, **settings) as gateway:
        gateway.upstream.body = small_answer(target)
        await gateway.post(case.path, small_request(source))  # what is imported at first use
        await gateway.post(PATHS[source], history(source, 300_000))
        if case.answer is not None:
            gateway.upstream.body, gateway.upstream.content_type = case.answer, case.content_type
        return await gateway.post(case.path, case.body)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--source", choices=PATHS)
    parser.add_argument("--target", choices=PATHS)
    options = parser.parse_args()
    is_over = False
    print(f"{'':76}{'size':>8}{'status':>7}{'gap, ms: wall':>14}{'CPU':>6}{'memory':>8}  times")
    for source in (options.source,) if options.source else PATHS:
        for target in (options.target,) if options.target else PATHS:
            for case in cases(source, target, options.only):
                measured = asyncio.run(measure(case, source, target))
                size = len(case.body if case.answer is None else case.answer)
                over = measured.cpu_ms > _MAX_GAP_MS or measured.peak_bytes > case.max_bytes
                is_over |= over
                print(
                    f"{f'{case.name}, {source} to {target}':76}{size / _MB:8.1f}"
                    f"{measured.status:7}{measured.wall_ms:14.1f}{measured.cpu_ms:6.1f}"
                    f"{measured.peak_bytes / _MB:8.0f}{measured.peak_bytes / size:7.1f}"
                    f"{' !' if over else ''}",
                    flush=True,
                )
    return is_over


if __name__ == "__main__":
    raise SystemExit(main())
