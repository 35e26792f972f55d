"""Hypothesis strategies of blocks, messages and legal streams of unified events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

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
from support.draws import Draws, draws

__all__ = [
    "block_runs",
    "coalesced",
    "event_streams",
    "interleaved",
    "make_message",
    "make_stream",
    "make_usage",
    "messages",
]

_ISSUERS = (None, "anthropic", "google", "openai")
_DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
_RESPONSES = "openai_responses"
_REASONS: tuple[StopReason, ...] = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause", "other"),
)

_SPOKEN = (Text, Reasoning, RedactedReasoning, Refusal, ToolCall)


def _name(d: Draws) -> str:
    return d.text(1, 3, "abc")


def _extra(d: Draws) -> dict[str, Any] | None:
    return {_name(d): d.below(9)} if d.flag() else None


def _citation(d: Draws) -> Citation:
    """Return a citation of some dialect, or a unified one."""
    words: dict[str, Any] = {"title": d.pick((None, "T")), "cited_text": d.pick((None, "é"))}
    options = (
        Citation(
            "url_citation", "https://u", start=d.pick((None, 0)), end=d.pick((None, 2)), **words
        ),
        Citation(
            "web_search_result_location", "https://w", extra={"encrypted_index": "i"}, **words
        ),
        Citation("char_location", extra={"document_index": d.below(9)}, **words),
        Citation(_name(d), cited_text=d.pick((None, "é")), extra=_extra(d)),
        Citation("file_citation", extra={"file_id": "f", "index": d.below(9)}),
        Citation("web", "https://g", d.pick((None, "T")), start=0, end=d.pick((None, 2))),
        Citation("citation", "https://r", start=0, end=1, extra={"license": "mit"}),
    )
    return d.pick(options)


def make_usage(d: Draws) -> Usage:
    """Return consistent token counts: no part exceeds its total."""
    whole, out = (d.pick((None, 0, 7, 50)) for _ in range(2))
    read, write = (d.pick((None, 0, (whole or 0) // 2)) for _ in range(2))
    return Usage(whole, out, read, write, d.pick((None, 0, (out or 0) // 2)), extra=_extra(d))


def _signed(d: Draws) -> dict[str, Any]:
    return {"signature": d.text(), "issuer": d.pick(_ISSUERS)} if d.flag() else {}


def _namespace(d: Draws) -> dict[str, Any]:
    return {"namespace": "n"} if d.flag(5) else {}


def _block(d: Draws) -> Block:
    """Return a block to which a stream can accumulate."""
    parts = [d.text(0, 3) for _ in range(d.below(4))]
    while parts and not parts[-1]:  # nothing in a stream tells of an empty last part
        parts.pop()
    citations = tuple(d.some(2, lambda: _citation(d)))
    arguments = d.pick(("", "{}", "null", '{"a":"é"}'))
    kind: Any = d.pick(("function", "custom"))
    options: tuple[Block, ...] = (
        Text(d.text(0, 4), citations, **_signed(d)),
        Reasoning(tuple(parts), **_signed(d)),
        ToolCall(_name(d), _name(d), arguments, kind, **_signed(d), **_namespace(d)),
        ToolCall(_name(d), _name(d), "*** Beg", "custom", is_unfinished=d.flag()),
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


def make_message(d: Draws) -> Message:
    """Return a message, complete or not."""
    stop: dict[str, Any] = {}
    if d.flag():
        stop = {
            "stop_reason": d.pick(_REASONS),
            "raw_stop_reason": d.pick((None, "stop")),
            "stop_sequence": d.pick((None, "END")),
            "stop_extra": _extra(d),
        }
    blocks = tuple(d.some(4, lambda: _block(d)))
    extras = tuple(_extra(d) for _ in blocks)
    return Message(
        _name(d),
        _name(d),
        blocks,
        usage=d.pick((Usage(), make_usage(d))),
        extra=_extra(d),
        block_extras=extras if any(extras) else (),
        **stop,
    )


def messages() -> st.SearchStrategy[Message]:
    """Return a strategy of messages, complete or not."""
    return draws(100).map(make_message)


def _arguments(d: Draws) -> list[str]:
    """Return a call's arguments in pieces, sometimes truncated."""
    value: Any = {d.text(0, 3): d.pick((d.text(0, 6), 1, None, [d.text(), {}])) for _ in range(2)}
    text = json.dumps(d.pick((value, {}, {"a": [{}]}, [d.text()])), ensure_ascii=d.flag())
    if d.flag(5):
        text = text[: 1 + d.below(len(text))]
    return d.pick((d.cut(text, 5), d.cut(text, 5), [], ["null"]))


def block_run(d: Draws, index: int, choice: int = 0) -> list[Event]:
    """Return the events of one block."""
    pieces = d.some(4, d.text)
    kinds = ("text", "text", "reasoning", "function", "function", "custom", "refusal", "server")
    kind = d.pick((*kinds, "whole"))
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
            block, run = _whole(d, index), []
        case "server":
            block, texts = _server_call(d, index)
            run = [JSONDelta(index, text) for text in texts]
        case "custom":
            block = ToolCall(f"call-{index}", "f", kind="custom", **_namespace(d))
            run = [JSONDelta(index, text) for text in pieces]
        case _:
            # Other ids than these have no place in Anthropic, or look as if we had made them.
            id = d.pick((f"call_{index}", f"functions.f:{index}", f"snid_{index}"))
            block = ToolCall(id, "f", **_namespace(d))
            run = [JSONDelta(index, text) for text in _arguments(d)]
    if kind in ("text", "reasoning", "function", "custom") and d.flag(3):
        # That of a call whose arguments are complete would come too late where calls overlap.
        at = 0 if isinstance(block, ToolCall) else len(run)
        signature, issuer = d.text(), d.pick(_ISSUERS)
        id = d.text(1, 4) if kind == "reasoning" and issuer == "openai" and d.flag() else None
        run.insert(at, SignatureDelta(index, signature, issuer, id))
    if kind == "text" and d.flag(3):
        run.append(CitationDelta(index, _citation(d)))
    if kind == "text" and d.flag(6):
        run.insert(d.below(len(run) + 1), Opaque(_RESPONSES, "logprobs", '[{"token":"a"}]', index))
    if d.flag(4):
        run.insert(d.below(len(run) + 1), _opaque(d, index))
    return [BlockStart(index, block, choice, _extra(d)), *run, BlockStop(index)]


def _server_call(d: Draws, index: int) -> tuple[Block, list[str]]:
    """Return a server tool call, and its arguments in its decoder's fragments."""
    id = f"s_{index}"
    options = (
        ("f", "", None),
        ("f", "mcp_tool_use", None),
        ("f", "server_tool_use", None),
        ("web_search_call", "web_search_call", '{"action":{"type":"search","query":"é"}}'),
        ("f", "mcp_call", '{"server_label":"m","name":"f","arguments":"{}","output":"ok"}'),
        ("code_execution", "executableCode", f'{{"code": "1", "id": "{id}"}}'),
        ("SEARCH", "toolCall", f'{{"id":"{id}","toolType":"SEARCH","args":{{"q":"é"}}}}'),
    )
    name, kind, text = d.pick(options)
    return ServerToolCall(id, name, kind=kind), _arguments(d) if text is None else d.cut(text, 4)


def _whole(d: Draws, index: int) -> Block:
    id = f"s_{index}"
    item = {"type": "shell_call_output", "call_id": id, "output": []}
    options: tuple[Block, ...] = (
        RedactedReasoning("x", d.pick(_ISSUERS)),
        ServerToolResult("s", d.pick(("k", "web_search_tool_result")), _extra(d)),
        Image(url="u"),
        Image("image/png", "AAAA"),
        Document("text/plain", "é"),
        ServerToolResult(id, "shell_call_output", item),
        ServerToolResult(id, "codeExecutionResult", {"outcome": "OUTCOME_OK", "id": id}),
        OpaqueBlock(d.pick(_DIALECTS), "k", '{"type":"k","n":[1]}'),
    )
    return d.pick(options)


def _opaque(d: Draws, index: int) -> Opaque:
    """Return opaque data of a dialect, named as by its decoder."""
    options = (
        Opaque("anthropic", "extra", '{"type":"extra"}', index),
        Opaque("openai_chat", "logprobs", '{"content":[]}', index),
        Opaque("openai_chat", "audio", '{"id":"a"}', index),
        Opaque("openai_chat", "citations", f'["u{index}"]', index),
        Opaque("openai_chat", "vendor.frame", '{"object":"vendor.frame"}', index),
        Opaque(_RESPONSES, "vendor:note", '{"type":"vendor:note","n":1}', index),
        Opaque("gemini", "partMetadata", '{"k":1}', index),
        Opaque("gemini", "groundingMetadata", f'{{"webSearchQueries":["q{index}"]}}', index),
        Opaque("gemini", "frame", '{"note":1}', index),
    )
    return d.pick(options)


def block_runs(d: Draws) -> list[list[Event]]:
    """Return the events of some blocks of one choice."""
    return [block_run(d, index) for index in range(d.below(5))]


def interleaved(d: Draws, runs: list[list[Event]], *, calls_only: bool = False) -> list[Event]:
    """Return the runs' events interleaved; each run and the starts stay in order.

    Args:
        d: Draws.
        runs: The events of each block.
        calls_only: Whether nothing but calls may be open when a block of its choice starts.
    """
    left = [list(run) for run in runs]
    heads = [run[0] for run in runs]
    merged: list[Event] = []
    started = 0

    def may_go(number: int) -> bool:
        if number < started or not calls_only:
            return number <= started
        alone = [n for n in range(number) if left[n] and not _overlaps(heads[n], heads[number])]
        return number == started and not alone

    while any(left):
        number = d.pick([n for n, run in enumerate(left) if run and may_go(n)])
        started += number == started
        merged.append(left[number].pop(0))
    return merged


def _overlaps(head: Event, other: Event) -> bool:
    assert isinstance(head, BlockStart)
    assert isinstance(other, BlockStart)
    return head.choice != other.choice or isinstance(head.block, ToolCall | ServerToolCall)


def make_stream(
    d: Draws,
    choices: int = 1,
    *,
    failing: bool = False,
    calls_only: bool = False,
    spoken: bool = False,
) -> list[Event]:
    """Return a legal stream.

    Args:
        d: Draws.
        choices: Largest number of choices.
        failing: Whether it may end in an error.
        calls_only: Whether nothing but calls may overlap.
        spoken: Whether it has only what every client understands: no opaque data and no
            server tool call.
    """
    owners = d.some(4, lambda: d.below(choices))
    runs: list[list[Event]] = []
    for owner in owners:
        run = block_run(d, len(runs), owner)
        if not spoken:
            runs.append(run)
        elif isinstance(run[0], BlockStart) and isinstance(run[0].block, _SPOKEN):
            runs.append([event for event in run if not _is_own(event)])
    body = interleaved(d, runs, calls_only=calls_only)
    for _ in range(d.below(3)):
        extras: tuple[Event, ...] = (Ping(), UsageUpdate(make_usage(d)))
        body.insert(d.below(len(body) + 1), d.pick(extras))
    events: list[Event] = [MessageStart("m", "gpt", _extra(d)), *body]
    if failing and d.flag():
        return [*events[: d.below(len(events) + 1)], StreamError("truncated", "cut")]
    events += [_stop(d, body, choice) for choice in d.shuffled(sorted({0, *owners}))]
    return [Ping(), *events] if d.flag() else events


def _is_own(event: Event) -> bool:
    """Return whether an event has a meaning in only one dialect."""
    if isinstance(event, CitationDelta):
        return event.citation.kind != "url_citation"
    return isinstance(event, Opaque)


def _stop(d: Draws, body: list[Event], choice: int) -> MessageStop:
    """Return a choice's stop with a reason that its blocks allow."""
    starts = [event for event in body if isinstance(event, BlockStart) and event.choice == choice]
    kinds = {type(event.block) for event in starts}
    reason = "refusal" if Refusal in kinds else d.pick(_REASONS)
    if reason in ("end_turn", "tool_use"):
        reason = "tool_use" if ToolCall in kinds else "end_turn"
    if reason != "stop_sequence":
        return MessageStop(reason, choice=choice, extra=_extra(d))
    return MessageStop(reason, stop_sequence=d.pick((None, "END")), choice=choice)


def event_streams(
    choices: int = 1, *, failing: bool = False, calls_only: bool = False
) -> st.SearchStrategy[list[Event]]:
    """Return a strategy of legal streams."""
    return draws().map(lambda d: make_stream(d, choices, failing=failing, calls_only=calls_only))


def _kind(event: Event) -> tuple[object, ...]:
    if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta | JSONDelta):
        return type(event), event.index, getattr(event, "part", 0)
    return (id(event),)


def coalesced(events: Iterable[Event]) -> list[Event]:
    """Return events with adjacent deltas of one kind joined."""
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
