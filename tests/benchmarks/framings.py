"""Cost of Bedrock's chunk framing, compared to server-sent events."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec
from reads import HALVES, READS
from timing import Figure, Run, decode_json, fastest
from workloads import anthropic, chat

from streamnorm import Transcoder
from streamnorm.codec import INVOKE_CHUNKS, SSE, Decoder, Framing, decoder
from streamnorm.eventstream import encode_message

__all__ = ["report"]

_DELTAS = 2000
_BAR = 2.0  # U an event; twice that where each event is cut in two
# A little more than the figure, since both sides of a difference are measured.
_NOISE = 0.4
_HEADERS = {
    ":event-type": "chunk",
    ":content-type": "application/json",
    ":message-type": "event",
}
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

_USES: dict[str, Callable[[Framing], Decoder | Transcoder]] = {
    "events": lambda framing: decoder("anthropic", framing=framing),
    "→ openai_chat": lambda framing: Transcoder("anthropic", "openai_chat", framing=framing),
    "verbatim": lambda framing: Transcoder(
        "anthropic", "anthropic", framing=framing, to_framing=framing
    ),
}


def report(rounds: int) -> list[Figure]:
    """Print and return the added cost of an event in a chunk."""
    payloads = anthropic.text(_DELTAS)
    frames = {SSE: anthropic.frames(payloads), INVOKE_CHUNKS: list(map(_chunk, _padded(payloads)))}
    runs: dict[tuple[str, str, Framing], Run] = {
        (size, use, framing): _run(make, framing, cut(frames[framing]))
        for size, cut in READS.items()
        for use, make in _USES.items()
        for framing in frames
    }
    chunks = chat.text(_DELTAS)
    unit = fastest({"U": decode_json(chunks)}, rounds)["U"] / len(chunks)
    best = fastest(runs, rounds)
    print(f"\nan event in a chunk of Bedrock, more than over SSE, in U = {unit * 1e6:.2f} µs")
    figures: list[Figure] = []
    for size in READS:
        bar = (2 * _BAR if size == HALVES else _BAR) + _NOISE
        for use in _USES:
            more = best[size, use, INVOKE_CHUNKS] - best[size, use, SSE]
            figure = Figure(f"chunks, {size}, {use}", more / len(payloads) / unit, bar)
            print(f"{size:20}{use:16}{figure.value:8.2f}{figure.mark}")
            figures.append(figure)
    return figures


def _padded(payloads: list[bytes]) -> list[tuple[bytes, str]]:
    """Add Bedrock's padding, whose length varies from event to event."""
    return [(data, _PADDING[: 2 + 7 * place % 60]) for place, data in enumerate(payloads)]


def _chunk(event: tuple[bytes, str]) -> bytes:
    data, padding = event
    payload = {"bytes": base64.b64encode(data).decode(), "p": padding}
    return encode_message(_HEADERS, msgspec.json.encode(payload))


def _run(
    make: Callable[[Framing], Decoder | Transcoder], framing: Framing, reads: list[bytes]
) -> Run:
    def run() -> None:
        consumer = make(framing)
        for read in reads:
            consumer.feed(read)
        consumer.close()
        assert consumer.outcome is not None

    return run
