"""Limits of a stream, at n-1, n and n+1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.anthropic.frames import STOP, block, call, decode, delta, end, event, start, stop, text
from support.bodies.json_texts import nested
from support.openai_chat.chunks import frame

from streamnorm import Completed, Failed, Limits, StreamError, Transcoder
from streamnorm._core.codec import Decoder
from streamnorm.codec import decoder

BOUND = 40


def whole(*frames: bytes) -> list[bytes]:
    return [start(), *frames, end(), STOP]


def server_call(index: int, **fields: Any) -> bytes:
    named = {"id": f"m{index}", "name": "f", "input": {}, **fields}
    return block(index, "mcp_tool_use", **named) + stop(index)


def event_bytes(size: int) -> list[bytes]:
    plain = event("news", padding="")
    padded = event("news", padding="x" * (size - len(plain) + 1))
    assert padded.index(b"\n\n") + 1 == size
    return whole(padded)


def delta_bytes(size: int) -> list[bytes]:
    """Return a stream whose last text delta, which is on the delta run, has `size` bytes."""
    plain = delta(0, "text_delta", text="")
    deltas = [delta(0, "text_delta", text=t) for t in ("a", "b", "x" * (size - len(plain) + 1))]
    return whole(block(0, "text", text=""), *deltas, stop(0))


def unknown_fields(size: int) -> list[bytes]:
    # A name of one byte and a number are 51, a name and a string 51 more than its text.
    filler = "x" * (size - 102)
    return [start(), end(a=1), end(b="replaced"), end(b=filler), STOP]


def arguments(text: str, index: int = 0) -> list[bytes]:
    """Return a call whose arguments come in two deltas."""
    pieces = [
        delta(index, "input_json_delta", partial_json=piece) for piece in (text[:1], text[1:])
    ]
    opened = block(index, "tool_use", id=f"c{index}", name="f", input={})
    return [opened, *pieces, stop(index)]


def without_start(number: int) -> bytes:
    """Return a delta of text or thinking, in turn, at the index of a call."""
    if number % 2:
        return delta(0, "thinking_delta", thinking="a")
    return delta(0, "text_delta", text="a")


Make = Callable[[int], list[bytes]]
DECODED: dict[str, tuple[str, int, Make]] = {
    "an event": ("max_event_bytes", 300, event_bytes),
    "a text delta": ("max_event_bytes", 300, delta_bytes),
    "depth of the message": ("max_json_depth", 12, lambda n: [start(x=nested(n - 2)), end(), STOP]),
    "depth of a block": ("max_json_depth", 12, lambda n: whole(call(0, x=nested(n - 2)))),
    "depth of an input": ("max_json_depth", 12, lambda n: whole(call(0, input=nested(n - 2)))),
    "depth of an unknown event": ("max_json_depth", 12, lambda n: whole(frame(nested(n)))),
    "depth of usage": ("max_json_depth", 12, lambda n: whole(end(usage=nested(n - 1)))),
    "depth of a citation": (
        "max_json_depth",
        12,
        lambda n: whole(
            block(0, "text", text=""),
            delta(0, "citations_delta", citation={"type": "k", "x": nested(n - 3)}),
            stop(0),
        ),
    ),
    "blocks": ("max_blocks", BOUND, lambda n: whole(*(text(i, "a") for i in range(n)))),
    "blocks without an index": (
        "max_blocks",
        BOUND,
        lambda n: whole(*[block(None, "text", text="a") + stop(None)] * n),
    ),
    "blocks in the message": (
        "max_blocks",
        BOUND,
        lambda n: [start(content=[{"type": "text", "text": "a"}] * n), end(), STOP],
    ),
    "blocks without a start": (
        "max_blocks",
        BOUND,
        lambda n: whole(call(0)[: -len(stop(0))], *map(without_start, range(n - 1)), stop(0)),
    ),
    "blocks after signatures": (
        "max_blocks",
        BOUND,
        lambda n: whole(
            block(0, "thinking", thinking="a"),
            *(delta(0, "signature_delta", signature=f"s{i}") for i in range(n)),
            stop(0),
        ),
    ),
    "tool calls": ("max_tool_calls", BOUND, lambda n: whole(*map(call, range(n)))),
    "server tool calls": (
        "max_tool_calls",
        BOUND,
        lambda n: whole(*(server_call(i) for i in range(n))),
    ),
    "message id": ("max_id_chars", BOUND, lambda n: [start(id="é" * n), end(), STOP]),
    "model": ("max_id_chars", BOUND, lambda n: [start(model="é" * n), end(), STOP]),
    "tool id": ("max_id_chars", BOUND, lambda n: whole(call(0, id="é" * n))),
    "tool name": ("max_id_chars", BOUND, lambda n: whole(call(0, name="é" * n))),
    "server tool name": ("max_id_chars", BOUND, lambda n: whole(server_call(0, name="é" * n))),
    "unknown fields": ("max_accumulated_bytes", 400, unknown_fields),
    "arguments": ("max_accumulated_bytes", BOUND, lambda n: whole(*arguments("é" + "x" * (n - 2)))),
    "arguments of calls in turn": (
        "max_accumulated_bytes",
        BOUND,
        lambda n: whole(*arguments("x" * n), *arguments("x" * n, 1)),
    ),
}


@pytest.mark.parametrize(("limit", "bound", "make"), DECODED.values(), ids=DECODED)
def test_decoder_completes_up_to_the_bound(limit: str, bound: int, make: Make) -> None:
    for size in (bound - 1, bound):
        outcome = decode(*make(size), limits=Limits(**{limit: bound})).outcome
        assert isinstance(outcome, Completed)


@pytest.mark.parametrize(("limit", "bound", "make"), DECODED.values(), ids=DECODED)
def test_decoder_fails_beyond_the_bound(limit: str, bound: int, make: Make) -> None:
    events, outcome, _ = decode(*make(bound + 1), limits=Limits(**{limit: bound}))
    error = StreamError("too_large", f"{limit} of {bound} passed", code=limit)
    assert events[-1] == error
    assert outcome == Failed(error)


@pytest.mark.parametrize("offers_run", [True, False])
def test_arguments_that_never_end_pass_the_bound_within_two_batches(
    monkeypatch: pytest.MonkeyPatch, *, offers_run: bool
) -> None:
    """Sixty-four fragments are one batch, and so is a long one."""
    monkeypatch.setattr(Decoder, "offers_run", offers_run)
    opened = block(0, "tool_use", id="c", name="f", input={})
    for fragment, most in (("x", 100 + 2 * 65), ("x" * 300, 1)):
        run = decoder("anthropic", limits=Limits(max_accumulated_bytes=100))
        run.feed(start() + opened)
        fragments = 0
        while run.outcome is None:
            run.feed(delta(0, "input_json_delta", partial_json=fragment))
            fragments += 1
        assert isinstance(run.outcome, Failed)
        assert run.outcome.error.code == "max_accumulated_bytes"
        assert fragments <= most + 1


def held(size: int) -> list[bytes]:
    """Return a stream in which `size` bytes are held behind the first text."""
    rest = size - len('{"type":"text"}') - 2
    return [
        *(start(), block(0, "text", text="a"), block(1, "text", text="")),
        *(delta(1, "text_delta", text=piece) for piece in ("é", "x" * rest)),
        *(stop(0), stop(1), end(), STOP),
    ]


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(("over", "kind"), [(-1, Completed), (0, Completed), (1, Failed)])
def test_held_bytes_of_a_later_block_are_bounded(target: str, over: int, kind: type) -> None:
    body = held(60 + over)
    for pieces in (body, [b"".join(body)]):
        limits = Limits(max_held_bytes=60)
        run = Transcoder("anthropic", target, verbatim=False, limits=limits)
        out = b"".join([data for piece in pieces for data in run.feed(piece)] + run.close())
        assert isinstance(run.outcome, kind)
        assert (b'"too_large"' in out or b"event: error" in out) == (kind is Failed)
