"""Comparison of streams read with and without the delta run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from hypothesis import settings
from msgspec import Struct
from msgspec.structs import asdict

from streamnorm import LimitExceeded, Limits, Loss, LossyEncoding, Note, Outcome, Transcoder
from streamnorm._core.codec import Decoder
from streamnorm.codec import decoder
from support.streams.content import DIALECTS, ENCODER_OPTIONS, PAGES, transcode
from support.streams.delta_pieces import DeltaStream

__all__ = [
    "Reading",
    "Route",
    "assert_same_without_run",
    "every_frame_in_full",
    "plain_routes",
    "read",
    "routes",
    "seeded_choice",
    "seeded_sample",
    "stream_routes",
    "transcode_each_way",
]

T = TypeVar("T")

_USUAL_EXAMPLES = 100


class Route(Struct, frozen=True):
    """Dialects and options with which a stream is read and written.

    Attributes:
        source: Dialect to read; None to detect it.
        target: Dialect to write; None to read events.
        options: Options of the decoder or of the transcoder.
        asks: Whether message, usage, notes and losses are read after each chunk.
        pings: Whether a ping is written after each chunk.
        failure: Exception of the source at its end; None if it ends cleanly.
    """

    source: str | None
    target: str | None
    options: dict[str, Any] = {}
    asks: bool = False
    pings: bool = False
    failure: Exception | None = None

    def __str__(self) -> str:
        options = {name: _shown(value) for name, value in self.options.items()}
        return f"{self.source} to {self.target or 'events'} {options or ''}"


def _shown(value: Any) -> Any:
    """Return an option for display, limits without defaults."""
    if not isinstance(value, Limits):
        return value
    usual = asdict(Limits())
    return {name: bound for name, bound in asdict(value).items() if bound != usual[name]}


class Reading(NamedTuple):
    """Observed result of reading a stream.

    Attributes:
        outputs: Events or bytes that each chunk produced, and those of the end.
        states: State at the end; before it, if `Route.asks`, that after each chunk.
        reported: Notes and losses, each when it was reported, with the number of the chunk.
        raised: The exception that ended the writing.
    """

    outputs: list[list[Any]]
    states: list[dict[str, Any]]
    reported: list[tuple[int, Note | Loss]]
    raised: str | None

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended."""
        outcome: Outcome | None = self.states[-1]["outcome"]
        return outcome

    @property
    def joined(self) -> Any:
        """All events, or all bytes with normalized line ends.

        A CR ends its line, and so its event, before the LF is known.
        """
        items = [item for outputs in self.outputs for item in outputs]
        if not items or not isinstance(items[0], bytes):
            return items
        return b"".join(items).replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    @property
    def whole(self) -> tuple[Any, ...]:
        """The part of the result that is independent of the chunking."""
        # Of a stream that fails, more frames are counted the more there are in one chunk.
        state = {name: value for name, value in self.states[-1].items() if name != "frames"}
        notes = [each for _, each in self.reported if isinstance(each, Note)]
        losses = [each for _, each in self.reported if isinstance(each, Loss)]
        return self.joined, state, notes, losses


@contextmanager
def every_frame_in_full() -> Iterator[None]:
    """Disable the delta run within the context."""
    before = Decoder.offers_run
    Decoder.offers_run = False
    try:
        yield
    finally:
        Decoder.offers_run = before


def read(chunks: Sequence[bytes], route: Route) -> Reading:
    """Read a stream to its end, or to the first loss of a strict route."""
    outputs: list[Any] = []
    states: list[Any] = []
    reported: list[tuple[int, Note | Loss]] = []

    def report(each: Note | Loss) -> None:
        reported.append((len(outputs), each))

    reader: Decoder | Transcoder
    if route.target is None:
        reader = decoder(route.source, on_note=report, **route.options)
    else:
        reader = Transcoder(
            route.source, route.target, on_note=report, on_loss=report, **route.options
        )
    raised: str | None = None
    try:
        for chunk in chunks:
            outputs.append(reader.feed(chunk))
            if route.asks:
                states.append(_state(reader))
            if route.pings and isinstance(reader, Transcoder):
                outputs[-1].append(reader.ping())
        outputs.append(reader.close() if route.failure is None else reader.abort(route.failure))
    except LossyEncoding as exc:
        raised = f"{exc} in chunk {len(outputs)}"
    states.append(_state(reader))
    return Reading(outputs, states, reported, raised)


def _state(reader: Decoder | Transcoder) -> dict[str, Any]:
    state: dict[str, Any] = {
        "outcome": reader.outcome,
        "notes": reader.notes,
        "frames": reader.frames,
        "dialect": reader.dialect,
    }
    if isinstance(reader, Transcoder):
        state |= {"losses": reader.losses, "untouched": reader.untouched}
        for name in ("usage", "message"):
            try:
                state[name] = getattr(reader, name)
            except LimitExceeded as exc:
                state[name] = f"{exc.limit}: {exc}"
    return state


def assert_same_without_run(chunks: Sequence[bytes], route: Route) -> Reading:
    """Assert that a stream reads the same without the delta run; return the reading."""
    fast = read(chunks, route)
    with every_frame_in_full():
        slow = read(chunks, route)
    assert fast == slow, f"{route}: {_difference(fast, slow)}"
    return fast


def _difference(fast: Reading, slow: Reading) -> str:
    """Return the first difference of two readings."""
    for name, one, other in zip(Reading._fields, fast, slow, strict=True):
        if isinstance(one, list) and isinstance(other, list):
            for at, pair in enumerate(zip_longest(one, other)):
                if pair[0] != pair[1]:
                    return f"{name}[{at}] is {pair[0]!r}, expected {pair[1]!r}"
        elif one != other:
            return f"{name} is {one!r}, expected {other!r}"
    return "nothing that compares"


def transcode_each_way(
    frames: list[bytes], source: str | None, target: str, **options: Any
) -> tuple[bytes, Transcoder]:
    """Transcode a stream event by event; assert equal output in other ways of reading."""
    out, run = transcode(frames, source, target, **options)
    with every_frame_in_full():
        others = [transcode(frames, source, target, **options)]
    others += [
        transcode([b"".join(frames)], source, target, **options),
        transcode(
            [b"".join(frames[at : at + 2]) for at in range(0, len(frames), 2)],
            source,
            target,
            **options,
        ),
        transcode([half for f in frames for half in (f[:30], f[30:])], source, target, **options),
    ]
    for other, done in others:
        assert other == out
        assert (done.message, done.notes, done.losses) == (run.message, run.notes, run.losses)
        assert type(done.outcome) is type(run.outcome)
    return out, run


def plain_routes(dialect: str, **options: Any) -> list[Route]:
    """Return all routes of a dialect without further options.

    Args:
        dialect: Dialect to read.
        options: Options of the decoder.
    """
    return [
        Route(source, target, {**options, "verbatim": verbatim} if target else options)
        for source in (dialect, None)
        for target in (None, *DIALECTS, *PAGES)
        for verbatim in ((True, False) if target == dialect else (False,))
    ]


def stream_routes(stream: DeltaStream) -> list[Route]:
    """Return a stream's plain routes, with the options that it needs."""
    return plain_routes(stream.dialect, **stream.options)


def routes(dialect: str, **options: Any) -> list[Route]:
    """Return a dialect's routes, including those with options that change the output."""
    changes: tuple[dict[str, Any], ...]
    changes = ({"ordering": "interleaved"}, {"strict": True}, {"model": "m"}, {"think_tags": True})
    changed = [
        Route(dialect, target, {**options, "verbatim": False, **change})
        for target in (*DIALECTS, *PAGES)
        for change in (*ENCODER_OPTIONS[target], *changes)
        if change
    ]
    return [*plain_routes(dialect, **options), *changed]


def seeded_sample(options: Sequence[T], seed: str, count: int) -> list[T]:
    """Return a deterministic sample, larger in profiles with more examples."""
    count *= max(1, settings().max_examples // _USUAL_EXAMPLES)
    if len(options) <= count:
        return list(options)
    return random.Random(seed).sample(options, count)  # noqa: S311 - a seed is the point


def seeded_choice(options: Sequence[T], seed: str) -> T:
    """Return a deterministic choice of the options."""
    return random.Random(seed).choice(options)  # noqa: S311 - a seed is the point
