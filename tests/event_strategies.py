"""Blocks, messages and legal streams of unified events, for hypothesis."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dice import Dice, dice
from hypothesis import strategies as st

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Event,
    Image,
    JSONDelta,
    Message,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageUpdate,
)

__all__ = ["block_runs", "coalesced", "event_streams", "interleaved", "make_stream", "messages"]

_ISSUERS = (None, "anthropic", "google")
_DIALECTS = ("anthropic", "openai_chat")
_REASONS: tuple[StopReason, ...] = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause", "other"),
)


def _name(d: Dice) -> str:
    return d.text(1, 3, "abc")


def _extra(d: Dice) -> dict[str, Any] | None:
    return {_name(d): d.below(9)} if d.flag() else None


def _citation(d: Dice) -> Citation:
    return Citation(_name(d), cited_text=d.pick((None, "é")), extra=_extra(d))


def _usage(d: Dice) -> Usage:
    counts = [d.pick((None, 0, 7, 50)) for _ in range(5)]
    return Usage(*counts, extra=_extra(d))


def _signed(d: Dice) -> dict[str, Any]:
    return {"signature": d.text(), "issuer": d.pick(_ISSUERS)} if d.flag() else {}


def _block(d: Dice) -> Block:
    """Return a block as a stream can add up to it."""
    parts = [d.text(0, 3) for _ in range(d.below(4))]
    while parts and not parts[-1]:  # nothing in a stream tells of an empty last part
        parts.pop()
    citations = tuple(d.some(2, lambda: _citation(d)))
    arguments = d.pick(("", "{}", "null", '{"a":"é"}'))
    kind: Any = d.pick(("function", "custom"))
    options: tuple[Block, ...] = (
        Text(d.text(0, 4), citations, **_signed(d)),
        Reasoning(tuple(parts), **_signed(d)),
        ToolCall(_name(d), _name(d), arguments, kind, **_signed(d)),
        RedactedReasoning("x", d.pick(_ISSUERS)),
        Refusal(d.text(0, 4)),
        ServerToolCall("s", "f", arguments),
        ServerToolResult("s", "k", _extra(d)),
        Image(url="u"),
        Document(title="t"),
        ToolResult("c", (Text("ok"),)),
        OpaqueBlock(d.pick(_DIALECTS), "k", '{"type":"k"}'),
    )
    return d.pick(options)


def _message(d: Dice) -> Message:
    stop: dict[str, Any] = {}
    if d.flag():
        stop = {
            "stop_reason": d.pick(_REASONS),
            "raw_stop_reason": d.pick((None, "stop")),
            "stop_sequence": d.pick((None, "END")),
            "stop_extra": _extra(d),
        }
    return Message(
        _name(d),
        _name(d),
        tuple(d.some(4, lambda: _block(d))),
        usage=d.pick((Usage(), _usage(d))),
        extra=_extra(d),
        **stop,
    )


def messages() -> st.SearchStrategy[Message]:
    """Return a strategy of messages, complete or not."""
    return dice(100).map(_message)


def block_run(d: Dice, index: int, choice: int = 0) -> list[Event]:
    """Return the events of one block."""
    pieces = d.some(4, d.text)
    kind = d.pick(("text", "reasoning", "function", "custom", "refusal", "server", "whole"))
    block: Block
    run: list[Event]
    match kind:
        case "text":
            block, run = Text(), [TextDelta(index, text) for text in pieces]
        case "reasoning":
            parts = sorted(d.below(2) for _ in pieces)
            block = Reasoning()
            run = [ReasoningDelta(index, *pair) for pair in zip(pieces, parts, strict=True)]
        case "refusal":
            block, run = Refusal(), [RefusalDelta(index, text) for text in pieces]
        case "whole":
            block, run = RedactedReasoning("x"), []
        case "server":
            block, run = ServerToolCall("s", "f"), [JSONDelta(index, text) for text in pieces]
        case "custom":
            block = ToolCall("c", "f", kind="custom")
            run = [JSONDelta(index, text) for text in pieces]
        case _:
            block, run = ToolCall("c", "f"), [JSONDelta(index, text) for text in pieces]
    if kind in ("text", "reasoning", "function", "custom") and d.flag(3):
        run.append(SignatureDelta(index, d.text(), d.pick(_ISSUERS)))
    if kind == "text" and d.flag(3):
        run.append(CitationDelta(index, _citation(d)))
    if d.flag(4):
        run.insert(d.below(len(run) + 1), Opaque(d.pick(_DIALECTS), "extra", "{}", index))
    return [BlockStart(index, block, choice), *run, BlockStop(index)]


def block_runs(d: Dice) -> list[list[Event]]:
    """Return the events of some blocks of one choice."""
    return [block_run(d, index) for index in range(d.below(5))]


def interleaved(d: Dice, runs: list[list[Event]]) -> list[Event]:
    """Return runs' events in some order that keeps the order in each, and of the starts."""
    left = [list(run) for run in runs]
    merged: list[Event] = []
    started = 0
    while any(left):
        number = d.pick([n for n, run in enumerate(left) if run and n <= started])
        started += number == started
        merged.append(left[number].pop(0))
    return merged


def make_stream(d: Dice, choices: int = 1, *, failing: bool = False) -> list[Event]:
    """Return a legal stream, complete or, if it may fail, ended by an error."""
    owners = d.some(4, lambda: d.below(choices))
    body = interleaved(d, [block_run(d, *owner) for owner in enumerate(owners)])
    for _ in range(d.below(3)):
        extra: Event = d.pick((Ping(), UsageUpdate(_usage(d))))
        body.insert(d.below(len(body) + 1), extra)
    events: list[Event] = [MessageStart("m", "gpt", _extra(d)), *body]
    if failing and d.flag():
        return [*events[: d.below(len(events) + 1)], StreamError("truncated", "cut")]
    order = d.shuffled(sorted({0, *owners}))
    events += [MessageStop(d.pick(_REASONS), choice=choice) for choice in order]
    return [Ping(), *events] if d.flag() else events


def event_streams(choices: int = 1, *, failing: bool = False) -> st.SearchStrategy[list[Event]]:
    """Return a strategy of legal streams."""
    return dice().map(lambda d: make_stream(d, choices, failing=failing))


def _kind(event: Event) -> tuple[object, ...]:
    if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta | JSONDelta):
        return type(event), event.index, getattr(event, "part", 0)
    return (id(event),)


def coalesced(events: Iterable[Event]) -> list[Event]:
    """Return events with neighbouring deltas of one kind joined."""
    joined: list[Event] = []
    for _, group in groupby(events, _kind):
        run: list[Any] = list(group)
        match run[0]:
            case TextDelta(index) | RefusalDelta(index):
                joined.append(type(run[0])(index, "".join(delta.text for delta in run)))
            case ReasoningDelta(index, _, part):
                joined.append(ReasoningDelta(index, "".join(d.text for d in run), part))
            case JSONDelta(index):
                joined.append(JSONDelta(index, "".join(delta.partial_json for delta in run)))
            case _:
                joined += run
    return joined
