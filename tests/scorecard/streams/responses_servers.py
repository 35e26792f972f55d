"""Responses streams with what the vendor and compatible servers send of themselves."""

from __future__ import annotations

import json
from typing import Any

from support.openai_responses.adversarial import (
    PARIS,
    START,
    USAGE,
    A,
    Event,
    added,
    args,
    call,
    done,
    end,
    event,
    message,
    numbered,
    text,
    text_done,
)

from ..cases import Call, Case, Expected

__all__ = ["server_cases"]

SAID = Expected(text="Hi", stop="end_turn", usage=(20, 7))
ONE = Expected(
    calls=(Call("call_0", "get_weather", {"city": "Paris"}),), stop="tool_use", usage=(20, 7)
)
WHOLE = message("Hi", status="completed")
PART = {"type": "output_text", "text": "", "annotations": []}
OPENED = [added(0, message()), event("content_part.added", 0, "msg", content_index=0, part=PART)]
HI = [*OPENED, *text(0, "msg", "H", "i"), text_done(0, "msg", "Hi"), done(0, WHOLE)]
CUT = "The connection to the provider is lost."


def _reasoning(*parts: str, **fields: Any) -> Event:
    summary = [{"type": "summary_text", "text": part} for part in parts]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, **fields}


def _summary(*parts: str) -> list[Event]:
    """Return a reasoning item at index 0 with one summary part for each text."""
    events = [added(0, _reasoning())]
    for number, part in enumerate(parts):
        where: dict[str, Any] = {"at": 0, "id": "rs_1", "summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        events.append(event("reasoning_summary_part.added", part=empty, **where))
        events.append(event("reasoning_summary_text.delta", delta=part, **where))
        events.append(event("reasoning_summary_text.done", text=part, **where))
    return [*events, done(0, _reasoning(*parts, encrypted_content="gAAA"))]


def _at_one(events: list[Event]) -> list[Event]:
    return [{**each, "output_index": 1} for each in events]


def server_cases() -> list[Case]:
    """Return the cases."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    limit = {"incomplete_details": {"reason": "max_output_tokens"}}
    refusal = {"type": "refusal", "refusal": ""}
    refused = message(content=[{**refusal, "refusal": "No."}])
    error = {"type": "error", "code": "server_error", "message": "gone", "param": None}
    failed = end(name="failed", error={"code": "server_error", "message": "gone"})
    rows: list[tuple[str, list[Event], Expected, str]] = [
        ("text", numbered(START, HI, end(WHOLE)), SAID, "OpenAI answers."),
        (
            "empty output in the last event",
            numbered(START, A, args(0, "fc_0", PARIS), done(0, call(0, PARIS)), end()),
            ONE,
            "The back end of Codex leaves the output of the last event empty.",
        ),
        (
            "parts of a summary",
            numbered(
                START, _summary("Hm.", "So."), _at_one(HI), end(_reasoning("Hm.", "So."), WHOLE)
            ),
            Expected(text="Hi", reasoning="Hm. So.", stop="end_turn", usage=(20, 7)),
            "OpenAI summarises reasoning in parts.",
        ),
        (
            "reasoning as text",
            numbered(
                *(START, added(0, _reasoning(content=[]))),
                event("reasoning_text.delta", 0, "rs_1", content_index=0, delta="Hm"),
                event("reasoning_text.done", 0, "rs_1", content_index=0, text="Hm"),
                done(0, _reasoning(content=[{"type": "reasoning_text", "text": "Hm"}])),
                *(_at_one(HI), end()),
            ),
            Expected(text="Hi", reasoning="Hm", stop="end_turn", usage=(20, 7)),
            "vLLM, xAI and Bedrock Mantle send reasoning as text.",
        ),
        (
            "refusal",
            numbered(
                *(START, added(0, message())),
                event("content_part.added", 0, "msg", content_index=0, part=refusal),
                event("refusal.delta", 0, "msg", content_index=0, delta="No."),
                event("refusal.done", 0, "msg", content_index=0, refusal="No."),
                *(done(0, refused), end(refused)),
            ),
            Expected(text="No.", stop="refusal", usage=(20, 7)),
            "OpenAI refuses.",
        ),
        (
            "limit within text",
            numbered(START, HI[:-2], end(message("Hi"), name="incomplete", **limit)),
            Expected(text="Hi", stop="max_tokens", usage=(20, 7)),
            "The model reaches its limit.",
        ),
        (
            "limit within arguments",
            numbered(START, A, args(0, "fc_0", PARIS[:8]), end(name="incomplete", **limit)),
            Expected(
                calls=(Call("call_0", "get_weather", PARIS[:8]),), stop="max_tokens", usage=(20, 7)
            ),
            "The model reaches its limit within the arguments of a call.",
        ),
        (
            "content filter",
            numbered(
                *(START, HI),
                end(WHOLE, name="incomplete", incomplete_details={"reason": "content_filter"}),
            ),
            Expected(text="Hi", stop="refusal", usage=(20, 7)),
            "Azure stops an answer by its filter.",
        ),
        (
            "search of the server",
            numbered(
                *(START, added(0, {**search, "status": "in_progress"})),
                event("web_search_call.in_progress", 0, "ws_1"),
                event("web_search_call.completed", 0, "ws_1"),
                *(done(0, search), _at_one(HI), end(search, WHOLE)),
            ),
            SAID,
            "A server tool is no call of the client.",
        ),
        (
            "unknown events and items",
            numbered(
                *(START, event("keepalive"), added(0, {"type": "newer", "id": "n"})),
                *(event("newer.delta", 0, "n", delta="x"), done(0, {"type": "newer", "id": "n"})),
                *(_at_one(HI), end()),
            ),
            SAID,
            "OpenAI adds events and items without notice.",
        ),
        (
            "tokens of the cache",
            numbered(
                *(START, HI),
                end(WHOLE, usage={**USAGE, "input_tokens_details": {"cached_tokens": 8}}),
            ),
            SAID,
            "OpenAI's input_tokens hold those of the cache.",
        ),
        (
            "queued first",
            numbered(
                event("queued", response={"id": "resp_1", "status": "queued"}), START, HI, end()
            ),
            SAID,
            "Background responses begin in a queue.",
        ),
        (
            "error, then a failed response",
            numbered(START, HI[:3], error, failed),
            Expected(text="H", outcome="failed"),
            "OpenAI fails within a stream.",
        ),
        (
            "failed response alone",
            numbered(START[0], failed),
            Expected(outcome="failed"),
            "OpenAI fails before it answers.",
        ),
        ("cut within text", numbered(START, HI[:3]), Expected(text="H", outcome="truncated"), CUT),
        (
            "cut behind a whole call",
            numbered(START, A, args(0, "fc_0", PARIS), done(0, call(0, PARIS))),
            Expected(outcome="truncated"),
            CUT,
        ),
    ]
    cases = [
        Case(name, "openai_responses", tuple(map(_frame, events)), wanted, why)
        for name, events, wanted, why in rows
    ]
    unnamed = tuple(_frame(each).partition(b"\n")[2] for each in rows[0][1])
    windows = tuple(_frame(each).replace(b"\n", b"\r\n") for each in rows[0][1])
    return [
        *cases,
        Case(
            "no names of events, and [DONE]",
            "openai_responses",
            (b": OPENROUTER PROCESSING\n\n", *unnamed, b"data: [DONE]\n\n"),
            SAID,
            "OpenRouter sends data without names, comments, and [DONE].",
        ),
        Case("CRLF", "openai_responses", windows, SAID, "Proxies write CRLF."),
    ]


def _frame(event: Event) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
