"""Deltas of an open block: what goes out is the same in any reads, and goes out at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.anthropic import frames as wire
from support.gemini import frames as gemini
from support.gemini_interactions import frames as interactions
from support.openai_chat.chunks import DONE, call, calls, chunk, content, reasoning
from support.openai_responses import frames as responses
from support.streams.content import DIALECTS, DIRECTIONS, transcode

from streamnorm import Completed, Failed, Limits, Reasoning, ToolCall, Transcoder, Truncated, Usage

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


def responses_body(kind: str, pieces: list[str]) -> list[bytes]:
    item: dict[str, Any] = {
        "text": {"type": "message", "id": "msg_1"},
        "thinking": {"type": "reasoning", "id": "rs_1"},
        "tool": {"type": "function_call", **responses.call()},
    }[kind]
    place = {"summary_index": 0} if kind == "thinking" else {"content_index": 0}
    name = {"thinking": "reasoning_summary_text", "tool": "function_call_arguments"}
    deltas = [responses.delta(name.get(kind, "output_text"), piece, **place) for piece in pieces]
    return [responses.START, responses.added(0, **item), *deltas, responses.completed()]


def gemini_body(kind: str, pieces: list[str]) -> list[bytes]:
    make = gemini.thought if kind == "thinking" else gemini.text
    return [*map(make, pieces), gemini.text("", finish="STOP")]


def interactions_body(kind: str, pieces: list[str]) -> list[bytes]:
    delta = interactions.delta
    opening, make = {
        "text": (
            interactions.start(0, "model_output"),
            lambda piece: delta(0, "text", text=piece),
        ),
        "thinking": (
            interactions.start(0, "thought"),
            lambda piece: delta(0, "thought_summary", content={"type": "text", "text": piece}),
        ),
        "tool": (
            interactions.start(0, "function_call", id="t", name="f", arguments={}),
            lambda piece: delta(0, "arguments_delta", arguments=piece),
        ),
    }[kind]
    closing = [interactions.stop(0), interactions.completed()]
    return [interactions.CREATED, opening, *map(make, pieces), *closing]


BODIES = {
    "openai_chat": chat_body,
    "anthropic": anthropic_body,
    "openai_responses": responses_body,
    "gemini": gemini_body,
    "gemini_interactions": interactions_body,
}

IN_PIECES = [name for name in BODIES if name != "gemini"]
"""The dialects that send arguments in pieces of their text."""

each_kind = pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        (*direction, kind)
        for direction in DIRECTIONS
        for kind in ("text", "thinking", "tool")
        if kind != "tool" or "gemini" not in direction
    ],
)


@pytest.mark.parametrize("verbatim", [False, True])
@each_kind
def test_deltas_one_by_one_are_written_like_the_whole_stream(
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


@each_kind
def test_each_delta_is_written_at_once(source: str, target: str, kind: str) -> None:
    run = Transcoder(source, target, verbatim=False)
    frames = BODIES[source](kind, ["a"] * 9)
    out = [run.feed(piece) for piece in frames]
    assert sum(b'"a"' in b"".join(parts) for parts in out) == 9
    assert all(len(parts) <= 1 for parts in out)


@pytest.mark.parametrize("verbatim", [False, True])
@each_kind
def test_message_is_bounded_in_any_chunking(
    source: str, target: str, kind: str, *, verbatim: bool
) -> None:
    limits = Limits(max_accumulated_bytes=900)
    for size in (300, 901):
        frames = BODIES[source](kind, ["x"] * size)
        _, run = transcode(frames, source, target, verbatim=verbatim, limits=limits)
        _, whole = transcode([b"".join(frames)], source, target, verbatim=verbatim, limits=limits)
        assert isinstance(run.outcome, Completed if size < 800 else Failed)
        assert type(run.outcome) is type(whole.outcome)


@pytest.mark.parametrize(
    ("source", "target"), [(source, to) for source, to in DIRECTIONS if source in IN_PIECES]
)
def test_a_hundred_interleaved_calls_are_written_whole(source: str, target: str) -> None:
    count = 100
    turns = [(index, piece) for piece in ('{"a":', "1", "}") for index in range(count)]
    if source == "openai_responses":
        calls_of = [responses.call(id=f"fc_{n}", call_id=f"t{n}") for n in range(count)]
        body = [responses.START]
        body += [responses.added(n, "function_call", **of) for n, of in enumerate(calls_of)]
        body += [responses.args(piece, n) for n, piece in turns]
        body += [responses.completed()]
    elif source == "openai_chat":
        body = [calls(call(index, f"t{index}", "f")) for index in range(count)]
        body += [calls(call(index, arguments=piece)) for index, piece in turns]
        body += [chunk({}, "tool_calls"), DONE]
    elif source == "gemini_interactions":
        opened = [{"id": f"t{n}", "name": "f", "arguments": {}} for n in range(count)]
        body = [interactions.CREATED]
        body += [interactions.start(n, "function_call", **each) for n, each in enumerate(opened)]
        body += [interactions.delta(n, "arguments_delta", arguments=piece) for n, piece in turns]
        body += [*map(interactions.stop, range(count)), interactions.completed("requires_action")]
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
        assert [made.arguments for made in back.message.tool_calls] == ['{"a":1}'] * count


@pytest.mark.parametrize("target", BODIES)
def test_summaries_one_by_one_are_written_like_the_whole_stream(target: str) -> None:
    parts = [*[0] * 4, *[1] * 4, *[0] * 3, *[2] * 4]
    deltas = [
        responses.delta("reasoning_summary_text", f"{number}.", summary_index=part, item_id="rs_1")
        for number, part in enumerate(parts)
    ]
    item = responses.added(0, "reasoning", id="rs_1")
    body = [responses.START, item, *deltas, responses.completed()]
    pieces = Transcoder("openai_responses", target, verbatim=False)
    whole = Transcoder("openai_responses", target, verbatim=False)
    written = [out for piece in body for out in pieces.feed(piece)]
    assert b"".join([*written, *pieces.close()]) == b"".join(
        [*whole.feed(b"".join(body)), *whole.close()]
    )
    assert pieces.message == whole.message
    (thought,) = pieces.message.blocks
    assert thought == Reasoning(("0.1.2.3.8.9.10.", "4.5.6.7.", "11.12.13.14."))


@pytest.mark.parametrize("source", IN_PIECES)
def test_arguments_are_held_if_the_target_needs_them_whole(source: str) -> None:
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


@pytest.mark.parametrize("source", IN_PIECES)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_cut_arguments_write_no_call_if_the_target_needs_them_whole(
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


READ_USAGE: dict[str, Callable[[Transcoder], Usage]] = {
    "usage": lambda run: run.usage,
    "message": lambda run: run.message.usage,
}


@pytest.mark.parametrize("read", READ_USAGE.values(), ids=READ_USAGE)
@pytest.mark.parametrize("target", DIALECTS)
def test_tokens_that_each_chunk_reports_are_known_at_once(
    target: str, read: Callable[[Transcoder], Usage]
) -> None:
    run = Transcoder("openai_chat", target)
    for count in range(1, 6):
        run.feed(content("a", usage={"prompt_tokens": 9, "completion_tokens": count}))
        assert read(run) == Usage(9, count)


@pytest.mark.parametrize("target", DIALECTS)
def test_tokens_that_a_chunk_has_reported_are_kept_by_the_chunks_that_report_none(
    target: str,
) -> None:
    run = Transcoder("openai_chat", target)
    for count in range(1, 6):
        run.feed(content("a", usage={"prompt_tokens": 9, "completion_tokens": count}))
    run.feed(chunk({}, "stop") + DONE)
    run.close()
    assert (run.usage, run.message.usage) == (Usage(9, 5), Usage(9, 5))


def test_tokens_that_the_source_counts_at_its_start_are_written_with_the_start() -> None:
    run = Transcoder("anthropic", "anthropic", verbatim=False)
    (written,) = run.feed(wire.start(usage={"input_tokens": 9, "output_tokens": 1}))
    message = json.loads(written.split(b"data: ")[1])["message"]
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (9, 1)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_limit_that_a_single_event_passes_is_told_behind_its_original_bytes(dialect: str) -> None:
    limits = Limits(max_accumulated_bytes=5000)
    run = Transcoder(dialect, dialect, limits=limits)
    outs = [b"".join(run.feed(event)) for event in BODIES[dialect]("text", ["x" * 300] * 20)]
    (last,) = (out for out in outs if b"expected at most 5000" in out)
    assert b"x" * 300 in last
    assert isinstance(run.outcome, Failed)


@pytest.mark.parametrize("target", DIALECTS)
def test_tokens_that_deltas_alone_report_are_written(target: str) -> None:
    counted = [
        content("a", usage={"prompt_tokens": 9, "completion_tokens": count})
        for count in range(1, 6)
    ]
    out, _ = transcode([*counted, chunk({}, "stop"), DONE], "openai_chat", target, verbatim=False)
    _, back = transcode([out], target, "openai_chat")
    assert (back.usage.input_tokens, back.usage.output_tokens) == (9, 5)


@pytest.mark.parametrize("target", DIALECTS)
def test_tokens_are_those_before_the_event_that_passes_a_limit(target: str) -> None:
    run = Transcoder("openai_chat", target, limits=Limits(max_accumulated_bytes=5000))
    count = 0
    while run.outcome is None:
        count += 1
        run.feed(content("x" * 300, usage={"prompt_tokens": 9, "completion_tokens": count}))
    assert isinstance(run.outcome, Failed)
    assert run.usage == Usage(9, count - 1)


def test_think_tags_are_text_unless_asked_for() -> None:
    _, run = transcode(
        [content("<think>a</think>b"), chunk({}, "stop"), DONE], "openai_chat", "gemini"
    )
    assert run.message.text == "<think>a</think>b"
