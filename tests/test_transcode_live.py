"""Pieces that only continue a block: the short way gives what the long way gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic_frames as wire
import pytest
from chat import DONE, call, calls, chunk, content, reasoning
from streams import DIRECTIONS, transcode

from streamnorm import Completed, Failed, Limits, ToolCall, Transcoder, Truncated

each_direction = pytest.mark.parametrize(("source", "target"), DIRECTIONS)

PIECES = [*"abcd", 'e"\\', "é😀", "", "\n\n", "x" * 300, "y"]


def chat_body(kind: str, pieces: list[str]) -> list[bytes]:
    make: dict[str, Callable[[str], bytes]] = {
        "text": content,
        "thinking": reasoning,
        "tool": lambda piece: calls(call(0, arguments=piece)),
    }
    opening = [calls(call(0, "t", "f"))] if kind == "tool" else []
    return [*opening, *map(make[kind], pieces), chunk({}, "stop"), DONE]


def anthropic_body(kind: str, pieces: list[str]) -> list[bytes]:
    delta, field, opening = {
        "text": ("text_delta", "text", wire.block(0, "text", text="")),
        "thinking": ("thinking_delta", "thinking", wire.block(0, "thinking", thinking="")),
        "tool": ("input_json_delta", "partial_json", wire.block(0, "tool_use", id="t", name="f")),
    }[kind]
    deltas = [wire.delta(0, delta, **{field: piece}) for piece in pieces]
    return [wire.start(), opening, *deltas, wire.stop(0), wire.end(), wire.STOP]


BODIES = {"openai_chat": chat_body, "anthropic": anthropic_body}


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("kind", ["text", "thinking", "tool"])
@each_direction
def test_pieces_one_by_one_are_those_of_the_whole(
    source: str, target: str, kind: str, *, verbatim: bool
) -> None:
    frames = BODIES[source](kind, PIECES)
    whole, run = transcode([b"".join(frames)], source, target, verbatim=verbatim)
    out, other = transcode(frames, source, target, verbatim=verbatim)
    assert out == whole
    assert (other.message, other.outcome, other.frames) == (run.message, run.outcome, run.frames)
    (made,) = other.message.blocks
    said = made.arguments if isinstance(made, ToolCall) else getattr(made, "text", "")
    assert said == "".join(PIECES)
    assert isinstance(other.outcome, Completed)


@pytest.mark.parametrize("kind", ["text", "thinking", "tool"])
@each_direction
def test_each_piece_goes_out_at_once(source: str, target: str, kind: str) -> None:
    run = Transcoder(source, target, verbatim=False)
    frames = BODIES[source](kind, ["a"] * 9)
    out = [run.feed(piece) for piece in frames]
    assert sum(b'"a"' in b"".join(parts) for parts in out) == 9
    assert all(len(parts) <= 1 for parts in out)


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("kind", ["text", "thinking", "tool"])
@each_direction
def test_bound_of_the_message_holds_for_them_too(
    source: str, target: str, kind: str, *, verbatim: bool
) -> None:
    limits = Limits(max_accumulated_bytes=900)
    for size in (300, 900, 901, 2000):
        frames = BODIES[source](kind, ["x"] * size)
        _, run = transcode(frames, source, target, verbatim=verbatim, limits=limits)
        _, whole = transcode([b"".join(frames)], source, target, verbatim=verbatim, limits=limits)
        assert isinstance(run.outcome, Completed if size < 800 else Failed)
        assert type(run.outcome) is type(whole.outcome)


@each_direction
def test_blocks_beyond_those_that_are_remembered_are_written_too(source: str, target: str) -> None:
    """Each of a hundred calls gets its arguments in turn."""
    count = 100
    turns = [(index, piece) for piece in ("[", "1", "]") for index in range(count)]
    if source == "openai_chat":
        body = [calls(call(index, f"t{index}", "f")) for index in range(count)]
        body += [calls(call(index, arguments=piece)) for index, piece in turns]
        body += [chunk({}, "tool_calls"), DONE]
    else:
        body = [wire.start()]
        body += [wire.block(n, "tool_use", id=f"t{n}", name="f", input={}) for n in range(count)]
        body += [wire.delta(n, "input_json_delta", partial_json=piece) for n, piece in turns]
        body += [*map(wire.stop, range(count)), wire.end("tool_use"), wire.STOP]
    options: dict[str, Any] = {"verbatim": False}
    for ordering in ("sequential", "interleaved"):
        out, run = transcode(body, source, target, ordering=ordering, **options)
        assert isinstance(run.outcome, Completed)
        _, back = transcode([out], target, target, **options)
        assert [made.arguments for made in back.message.tool_calls] == ["[1]"] * count


@pytest.mark.parametrize("source", BODIES)
def test_arguments_wait_where_they_go_out_whole(source: str) -> None:
    pieces = ['{"a": "', *PIECES[:4], "\u2028", "", '", "b"', ":\n", "1", "}"]
    frames = BODIES[source]("tool", pieces)
    whole, run = transcode([b"".join(frames)], source, "gemini")
    out, other = transcode(frames, source, "gemini")
    assert out == whole
    assert out.count(b"functionCall") == 1
    assert other.message == run.message
    assert other.message.tool_calls[0].arguments == "".join(pieces)
    _, back = transcode([out], "gemini", "gemini")
    assert back.message.tool_calls[0].input() == {"a": "abcd\u2028", "b": 1}


@pytest.mark.parametrize("source", BODIES)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_arguments_that_break_off_are_no_call_where_they_go_out_whole(
    source: str, count: int
) -> None:
    pieces = ['{"a": "', *["x"] * 9]
    frames = BODIES[source]("tool", pieces)[: count + 2]
    out, run = transcode(frames, source, "gemini")
    assert isinstance(run.outcome, Truncated)
    assert b"functionCall" not in out
    assert [(loss.feature, loss.detail) for loss in run.losses] == [
        ("broken_arguments", "call dropped")
    ]
