"""Endless streams of Converse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from support.bedrock_converse.frames import (
    START as _START,
)
from support.bedrock_converse.frames import (
    delta,
    end,
    event,
    start,
    stop,
    text,
    tool,
    tool_input,
)

__all__ = ["START", "STREAMS"]

START = [_START]


def texts(piece: str) -> Iterator[bytes]:
    yield from repeat(text(0, piece))


def white_space(piece: str) -> Iterator[bytes]:
    yield from repeat(text(0, " " * len(piece)))


def thoughts(piece: str) -> Iterator[bytes]:
    yield from repeat(delta(0, reasoningContent={"text": piece}))


def signatures(piece: str) -> Iterator[bytes]:
    for number in count():
        yield delta(0, reasoningContent={"signature": f"{piece}{number}"})


def redacted_pieces(piece: str) -> Iterator[bytes]:
    yield from repeat(delta(0, reasoningContent={"redactedContent": "AAAA" * len(piece)}))


def arguments(piece: str) -> Iterator[bytes]:
    yield tool(0)
    yield tool_input(0, '{"a":"')
    yield from repeat(tool_input(0, piece))


def server_arguments(piece: str) -> Iterator[bytes]:
    yield tool(0, type="server_tool_use")
    yield tool_input(0, '{"a":"')
    yield from repeat(tool_input(0, piece))


def results(piece: str) -> Iterator[bytes]:
    yield start(0, toolResult={"toolUseId": "c"})
    yield from repeat(delta(0, toolResult=[{"text": piece}]))


def images(piece: str) -> Iterator[bytes]:
    yield start(0, image={"format": "png"})
    yield from repeat(delta(0, image={"source": {"bytes": "AAAA" * len(piece)}}))


def unknown_blocks(piece: str) -> Iterator[bytes]:
    for number in count():
        yield start(number, newer=piece)


def empty_starts(piece: str) -> Iterator[bytes]:
    for number in count():
        yield event("contentBlockStart", contentBlockIndex=number, start={}, x=piece)


def blocks(piece: str) -> Iterator[bytes]:
    for number in count():
        yield text(number, piece) + stop(number)


def extra_stops(piece: str) -> Iterator[bytes]:
    for number in count():
        yield event("contentBlockStop", contentBlockIndex=number, x=piece)


def citations(piece: str) -> Iterator[bytes]:
    yield text(0, "a")
    for number in count():
        location = {"web": {"url": f"https://{number}"}}
        yield delta(0, citation={"title": piece, "location": location})


def unknown_deltas(piece: str) -> Iterator[bytes]:
    yield text(0, "a")
    yield from repeat(delta(0, newer=piece))


def unknown_events(piece: str) -> Iterator[bytes]:
    for number in count():
        yield event(f"new{number}", x=piece)


def metadata_before_the_stop(piece: str) -> Iterator[bytes]:
    for number in count():
        yield event("metadata", **{f"x{number}": piece})


def after_the_end(piece: str) -> Iterator[bytes]:
    yield end()
    yield from repeat(text(0, piece))


STREAMS = (
    *(texts, white_space, thoughts, signatures, redacted_pieces, arguments, server_arguments),
    *(results, images, unknown_blocks, empty_starts, blocks, extra_stops, citations),
    *(unknown_deltas, unknown_events, metadata_before_the_stop, after_the_end),
)
