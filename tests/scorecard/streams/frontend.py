"""Streams of front-end protocols: the UI message stream of the AI SDK, and AG-UI."""

from __future__ import annotations

import json
from typing import Any

from support.ui_message_stream.reader import FINISH, PM, START, STEP, delta, end, start, tool

from ..cases import Call, Case, Expected

__all__ = ["ag_ui_cases", "ui_cases"]

PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
A, B = Call("c_a", "weather", {"city": "Paris"}), Call("c_b", "time", {"tz": "Asia/Tokyo"})
HALF = Call("c_a", "weather", PARIS[:8])

Row = tuple[str, list[Any], Expected, str]


def _cases(source: str, rows: list[Row]) -> list[Case]:
    return [
        Case(name, source, tuple(map(_frame, chunks)), expected, why)
        for name, chunks, expected, why in rows
    ]


def _frame(chunk: Any) -> bytes:
    text = chunk if isinstance(chunk, str) else json.dumps(chunk)
    return f"data: {text}\n\n".encode()


# The UI message stream


def _call(kind: str, id: str, name: str, **fields: Any) -> dict[str, Any]:
    return {**tool(kind, id, **fields), "toolName": name}


def _args(id: str, *pieces: str) -> list[dict[str, Any]]:
    return [tool("input-delta", id, inputTextDelta=piece) for piece in pieces]


def _whole(id: str, name: str, input: Any) -> dict[str, Any]:
    return _call("input-available", id, name, input=input)


def _finish(reason: str) -> dict[str, Any]:
    counts = {"inputTokens": 20, "outputTokens": 7, "totalTokens": 27}
    return {"type": "finish", "finishReason": reason, "messageMetadata": {"usage": counts}}


def ui_cases() -> list[Case]:
    """Return the cases whose source is the UI message stream."""
    begin, done = [START, STEP], "[DONE]"
    open_a = _call("input-start", "c_a", "weather")
    open_b = _call("input-start", "c_b", "time")
    full_a, full_b = _whole("c_a", "weather", A.arguments), _whole("c_b", "time", B.arguments)
    called = [{"type": "finish-step"}, _finish("tool-calls"), done]
    stopped = [{"type": "finish-step"}, _finish("stop"), done]
    hi = [start("text"), delta("text", "Hi"), delta("text", " there"), end("text")]
    said = Expected(text="Hi there", stop="end_turn", usage=(20, 7))
    both = Expected(calls=(A, B), stop="tool_use", usage=(20, 7))
    rows: list[Row] = [
        ("text", [*begin, *hi, *stopped], said, "The AI SDK writes usage as metadata."),
        (
            "texts in turn",
            [
                *begin,
                start("text", "1"),
                start("text", "2"),
                delta("text", "Hi", "1"),
                delta("text", " th", "2"),
                end("text", "1"),
                delta("text", "ere", "2"),
                end("text", "2"),
                *stopped,
            ],
            said,
            "Parts are merged from several streams by the writer of the AI SDK.",
        ),
        (
            "calls in turn",
            [
                *begin,
                open_a,
                open_b,
                *_args("c_b", TOKYO[:5]),
                *_args("c_a", PARIS[:8]),
                *_args("c_b", TOKYO[5:]),
                *_args("c_a", PARIS[8:]),
                full_b,
                full_a,
                *called,
            ],
            both,
            "The AI SDK passes on what a server sends in turn.",
        ),
        (
            "calls without deltas",
            [*begin, full_a, full_b, *called],
            both,
            "A server that does not stream arguments.",
        ),
        (
            "call of an empty object",
            [*begin, _call("input-start", "c_n", "now"), _whole("c_n", "now", {}), *called],
            Expected(calls=(Call("c_n", "now", {}),), stop="tool_use", usage=(20, 7)),
            "A tool without parameters.",
        ),
        (
            "reasoning, signed in its end",
            [
                *begin,
                start("reasoning"),
                delta("reasoning", "Hm"),
                end("reasoning"),
                start("reasoning", "2"),
                end("reasoning", "2", providerMetadata=PM),
                *hi,
                *stopped,
            ],
            Expected(text="Hi there", reasoning="Hm", stop="end_turn", usage=(20, 7)),
            "The AI SDK writes Anthropic's signature as metadata.",
        ),
        (
            "numbered reasoning",
            [
                *begin,
                start("reasoning", "r:0"),
                delta("reasoning", "a", "r:0"),
                end("reasoning", "r:0"),
                start("reasoning", "r:1"),
                delta("reasoning", "b", "r:1"),
                end("reasoning", "r:1"),
                *hi,
                *stopped,
            ],
            Expected(text="Hi there", reasoning="a b", stop="end_turn", usage=(20, 7)),
            "The AI SDK numbers the parts of OpenAI's summaries.",
        ),
        (
            "id used again",
            [
                *begin,
                start("text"),
                delta("text", "Hi"),
                end("text"),
                start("text"),
                delta("text", " there"),
                end("text"),
                *stopped,
            ],
            said,
            "Servers that name each part 0.",
        ),
        (
            "data and unknown parts within text",
            [
                *begin,
                *hi[:2],
                {"type": "data-weather", "data": {"text": "x"}},
                {"type": "newer", "delta": "x"},
                *hi[2:],
                *stopped,
            ],
            said,
            "Applications write parts of their own between.",
        ),
        (
            "finish without a reason",
            [*begin, *hi, {"type": "finish"}, done],
            Expected(text="Hi there", stop="end_turn"),
            "The AI SDK 5 wrote no finish reason.",
        ),
        (
            "no [DONE]",
            [*begin, *hi, _finish("stop")],
            said,
            "Servers in other languages leave the last line out.",
        ),
        (
            "length within arguments",
            [*begin, open_a, *_args("c_a", PARIS[:8]), _finish("length"), done],
            Expected(calls=(HALF,), stop="max_tokens", usage=(20, 7)),
            "The model reaches its limit within the arguments of a call.",
        ),
        (
            "content filter",
            [*begin, *hi, _finish("content-filter"), done],
            Expected(text="Hi there", stop="refusal", usage=(20, 7)),
            "A provider's filter stops the answer.",
        ),
        (
            "error within text",
            [*begin, *hi[:2], {"type": "error", "errorText": "gone"}, done],
            Expected(text="Hi", outcome="failed"),
            "The AI SDK masks a provider's error.",
        ),
        (
            "aborted",
            [*begin, *hi[:2], {"type": "abort"}, done],
            Expected(text="Hi", outcome="failed"),
            "A user stops the answer.",
        ),
        (
            "cut within text",
            [*begin, *hi[:2]],
            Expected(text="Hi", outcome="truncated"),
            "The connection to the server is lost.",
        ),
        (
            "delta of an ended part",
            [*begin, *hi, delta("text", "!"), FINISH, done],
            Expected(text=None, outcome="failed"),
            "Two streams that are merged use one id.",
        ),
    ]
    return _cases("ui_message_stream", rows)


# AG-UI


def _text(type: str, id: str = "m", **fields: Any) -> dict[str, Any]:
    return {"type": f"TEXT_MESSAGE_{type}", "messageId": id, **fields}


def _tool(type: str, id: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"TOOL_CALL_{type}", "toolCallId": id, **fields}


def _reasoning(type: str, **fields: Any) -> dict[str, Any]:
    role = {"role": "reasoning"} if type == "START" else {}
    return {"type": f"REASONING_MESSAGE_{type}", "messageId": "q", **role, **fields}


def ag_ui_cases() -> list[Case]:
    """Return the cases whose source is AG-UI."""
    run = {"threadId": "t", "runId": "r"}
    begin, finish = {"type": "RUN_STARTED", **run}, {"type": "RUN_FINISHED", **run}
    open_a = _tool("START", "c_a", toolCallName="weather")
    open_b = _tool("START", "c_b", toolCallName="time")
    end_a, end_b = _tool("END", "c_a"), _tool("END", "c_b")
    hi = [_text("START", role="assistant"), _text("CONTENT", delta="Hi "), _text("END")]
    hi.insert(2, _text("CONTENT", delta="there"))
    said = Expected(text="Hi there", stop="end_turn")
    both = Expected(calls=(A, B), stop="tool_use")
    span = [{"type": "REASONING_START", "messageId": "s"}, _reasoning("START")]
    span += [_reasoning("CONTENT", delta="Hm"), _reasoning("END")]
    span_end = {"type": "REASONING_END", "messageId": "s"}
    rows: list[Row] = [
        ("text", [begin, *hi, finish], said, "An agent that answers."),
        (
            "calls in turn",
            [
                begin,
                open_a,
                open_b,
                _tool("ARGS", "c_b", delta=TOKYO[:5]),
                _tool("ARGS", "c_a", delta=PARIS),
                _tool("ARGS", "c_b", delta=TOKYO[5:]),
                end_b,
                end_a,
                finish,
            ],
            both,
            "Events have ids, so that agents in parallel mix them.",
        ),
        (
            "text and a call in turn",
            [
                begin,
                hi[0],
                open_a,
                hi[1],
                _tool("ARGS", "c_a", delta=PARIS[:8]),
                hi[2],
                _tool("ARGS", "c_a", delta=PARIS[8:]),
                hi[3],
                end_a,
                finish,
            ],
            Expected(text="Hi there", calls=(A,), stop="tool_use"),
            "Events have ids, so that agents in parallel mix them.",
        ),
        (
            "chunks",
            [
                begin,
                _text("CHUNK", delta="Hi "),
                {"type": "TEXT_MESSAGE_CHUNK", "delta": "there"},
                _tool("CHUNK", "c_a", toolCallName="weather", delta=PARIS[:8]),
                {"type": "TOOL_CALL_CHUNK", "delta": PARIS[8:]},
                finish,
            ],
            Expected(text="Hi there", calls=(A,), stop="tool_use"),
            "Agents write one event for start, content and end.",
        ),
        (
            "call without arguments",
            [begin, _tool("START", "c_n", toolCallName="now"), _tool("END", "c_n"), finish],
            Expected(calls=(Call("c_n", "now", {}),), stop="tool_use"),
            "A tool without parameters.",
        ),
        (
            "reasoning, then text",
            [begin, *span, span_end, *hi, finish],
            Expected(text="Hi there", reasoning="Hm", stop="end_turn"),
            "A model that reasons.",
        ),
        (
            "deprecated names of reasoning",
            [
                begin,
                {"type": "THINKING_START"},
                {"type": "THINKING_TEXT_MESSAGE_START"},
                {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm"},
                {"type": "THINKING_TEXT_MESSAGE_END"},
                {"type": "THINKING_END"},
                *hi,
                finish,
            ],
            Expected(text="Hi there", reasoning="Hm", stop="end_turn"),
            "Agents of 2025 write the older names.",
        ),
        (
            "state within text",
            [
                begin,
                *hi[:2],
                {"type": "STATE_DELTA", "delta": []},
                {"type": "RAW", "event": 1},
                {"type": "CUSTOM", "name": "x", "value": "x"},
                *hi[2:],
                finish,
            ],
            said,
            "Agents share their state while they speak.",
        ),
        (
            "error within text",
            [begin, *hi[:2], {"type": "RUN_ERROR", "message": "gone"}],
            Expected(text="Hi ", outcome="failed"),
            "An agent that fails.",
        ),
        (
            "cut within text",
            [begin, *hi[:2]],
            Expected(text="Hi ", outcome="truncated"),
            "The connection to the agent is lost.",
        ),
        (
            "cut behind a whole call",
            [begin, open_a, _tool("ARGS", "c_a", delta=PARIS), end_a],
            Expected(outcome="truncated"),
            "The connection to the agent is lost.",
        ),
        (
            "content of an ended message",
            [begin, *hi, _text("CONTENT", delta="!"), finish],
            Expected(text=None, outcome="failed"),
            "Agents in parallel use one id.",
        ),
        (
            "arguments of an ended call",
            [
                begin,
                open_a,
                _tool("ARGS", "c_a", delta=PARIS),
                end_a,
                _tool("ARGS", "c_a", delta="}"),
                finish,
            ],
            Expected(text=None, outcome="failed"),
            "Agents in parallel use one id.",
        ),
    ]
    return _cases("ag_ui", rows)
