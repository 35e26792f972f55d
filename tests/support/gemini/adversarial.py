"""Adversarial Gemini streams, and what every client must read.

The truth is written by hand.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from support.gemini.frames import candidate, chunk, frame, function_call, parts, text, thought

__all__ = ["BROKEN", "CLEAN", "UNFINISHED", "Truth"]


class Truth(Struct):
    """What every client must read.

    Attributes:
        stop: The stop reason.
        text: All text of the answer.
        thoughts: All reasoning.
        calls: Name and arguments of each finished call.
        unfinished: Number of calls whose arguments never ended.
        usage: Input and output tokens; None for none.
    """

    stop: str
    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, dict[str, Any]]] = []
    unfinished: int = 0
    usage: tuple[int, int] | None = None


def piece(*entries: dict[str, Any], **fields: Any) -> bytes:
    """Return a fragment of an unfinished call."""
    return function_call(partialArgs=list(entries), willContinue=True, **fields)


def string(path: str, value: str, *, goes_on: bool = False) -> dict[str, Any]:
    entry = {"jsonPath": path, "stringValue": value}
    return {**entry, "willContinue": True} if goes_on else entry


def named(id: str, *parts: dict[str, Any], **fields: Any) -> bytes:
    return frame({"candidates": [candidate(*parts, **fields)], "responseId": id})


PARIS = {"id": "c1", "name": "get_weather", "args": {"city": "Paris"}}
TOKYO = {"id": "c2", "name": "get_time", "args": {"tz": "Asia/Tokyo"}}
ONE = [("get_weather", {"city": "Paris"})]
TWO = [*ONE, ("get_time", {"tz": "Asia/Tokyo"})]
CODE = {"executableCode": {"language": "PYTHON", "code": "6*7"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}

STOP = parts(finishReason="STOP")
END = function_call()
WEATHER = function_call(id="c1", name="get_weather", willContinue=True)
TIME = function_call(id="c2", name="get_time", willContinue=True)
HALF = piece(string("$.city", "Par", goes_on=True))
REST = piece(string("$.city", "is"))
DELETE = piece(string("$.path", "/", goes_on=True), id="d1", name="delete")

CLEAN: dict[str, tuple[list[bytes], Truth]] = {
    "two calls in one chunk": (
        [parts({"functionCall": PARIS}, {"functionCall": TOKYO}), STOP],
        Truth("tool_use", calls=TWO),
    ),
    "arguments in fragments": ([WEATHER, HALF, REST, END, STOP], Truth("tool_use", calls=ONE)),
    "fragments that repeat id and name": (
        [
            piece(string("$.city", "Par", goes_on=True), id="c1", name="get_weather"),
            piece(string("$.city", "is"), id="c1", name="get_weather"),
            function_call(id="c1", name="get_weather", willContinue=False),
            STOP,
        ],
        Truth("tool_use", calls=ONE),
    ),
    "fragments that repeat the name": (
        [
            piece(string("$.city", "Par", goes_on=True), name="get_weather"),
            piece(string("$.city", "is"), name="get_weather"),
            *(END, STOP),
        ],
        Truth("tool_use", calls=ONE),
    ),
    "two calls of one name without ids": (
        [
            *(function_call(name="get_weather", willContinue=True), HALF, REST, END),
            *(function_call(name="get_weather", willContinue=True), HALF, REST, END, STOP),
        ],
        Truth("tool_use", calls=ONE * 2),
    ),
    "fragments that end in the chunk of the finish": (
        [
            WEATHER,
            parts(
                {"functionCall": {"partialArgs": [string("$.city", "Paris")]}},
                {"functionCall": TOKYO},
                finishReason="STOP",
            ),
        ],
        Truth("tool_use", calls=TWO),
    ),
    "call repeated after the finish": (
        [function_call(**PARIS), STOP, function_call(**PARIS)],
        Truth("tool_use", calls=ONE),
    ),
    "end of a call repeated": (
        [WEATHER, HALF, REST, END, END, STOP],
        Truth("tool_use", calls=ONE),
    ),
    "finish in every chunk": (
        [text("a", "STOP"), text("b", "STOP"), text("c", "STOP")],
        Truth("end_turn", "abc"),
    ),
    "finish beside code": (
        [text("a"), parts(CODE, finishReason="STOP"), parts(RESULT), text("b", "STOP")],
        Truth("end_turn", "ab"),
    ),
    "finish that says nothing, then one": (
        [
            text("a", "FINISH_REASON_UNSPECIFIED"),
            parts({"functionCall": PARIS}, finishReason="FINISH_REASON_UNSPECIFIED"),
            STOP,
        ],
        Truth("tool_use", "a", calls=ONE),
    ),
    "unknown finish beside a call": (
        [function_call(**PARIS), parts(finishReason="TOOLS_PENDING")],
        Truth("tool_use", calls=ONE),
    ),
    "finish taken back for another": (
        [text("a"), STOP, text("b"), parts(finishReason="MAX_TOKENS")],
        Truth("max_tokens", "ab"),
    ),
    "finish taken back by a call": (
        [text("a", "STOP"), WEATHER, HALF, REST, END, STOP],
        Truth("tool_use", "a", calls=ONE),
    ),
    "block reason that says nothing": (
        [
            frame({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}),
            text("a", "STOP"),
        ],
        Truth("end_turn", "a"),
    ),
    "response id that comes late": (
        [named("", {"text": "a"}), named("r1", {"text": "b"}), named("", finishReason="STOP")],
        Truth("end_turn", "ab"),
    ),
    "counts of two snapshots": (
        [
            chunk(
                candidate({"text": "a"}),
                usageMetadata={
                    "promptTokenCount": 87,
                    "candidatesTokenCount": 21,
                    "totalTokenCount": 108,
                },
            ),
            chunk(
                candidate(finishReason="STOP"),
                usageMetadata={
                    "promptTokenCount": 87,
                    "thoughtsTokenCount": 78,
                    "totalTokenCount": 165,
                },
            ),
        ],
        Truth("end_turn", "a", usage=(87, 78)),
    ),
    "finish as a number": ([text("a", None), parts(finishReason=2)], Truth("max_tokens", "a")),
    "signature behind the finish": (
        [thought("hm"), text("ok"), STOP, text("", thoughtSignature="QQ==")],
        Truth("end_turn", "ok", "hm"),
    ),
    "second candidate between": (
        [
            chunk(candidate({"text": "a"}), candidate({"text": "x"}, index=1)),
            parts({"text": "y"}, index=1, finishReason="STOP"),
            frame({"candidates": [{"content": {"parts": [{"text": "b"}]}}]}),
            STOP,
        ],
        Truth("end_turn", "ab"),
    ),
    "empty text beside a call": (
        [parts({"text": "", "functionCall": PARIS}, finishReason="STOP")],
        Truth("tool_use", calls=ONE),
    ),
}

UNFINISHED: dict[str, tuple[list[bytes], Truth]] = {
    "string open at the finish": ([WEATHER, HALF, STOP], Truth("tool_use", unfinished=1)),
    "string open at the end of its call": (
        [WEATHER, HALF, END, STOP],
        Truth("tool_use", unfinished=1),
    ),
    "call that goes on for ever": ([WEATHER, HALF, REST, STOP], Truth("tool_use", unfinished=1)),
    "call that never got arguments": ([WEATHER, STOP], Truth("tool_use", unfinished=1)),
    "call cut by the next": (
        [WEATHER, HALF, function_call(**TOKYO), STOP],
        Truth("tool_use", calls=TWO[1:], unfinished=1),
    ),
    "call cut by text": (
        [WEATHER, HALF, text("so", "STOP")],
        Truth("tool_use", "so", unfinished=1),
    ),
    "arguments as half a text": (
        [function_call(id="c1", name="get_weather", args='{"city":"Par'), STOP],
        Truth("tool_use", unfinished=1),
    ),
    "length within a string": (
        [function_call(**TOKYO), WEATHER, HALF, parts(finishReason="MAX_TOKENS")],
        Truth("max_tokens", calls=TWO[1:], unfinished=1),
    ),
}

BROKEN: dict[str, list[bytes]] = {
    "cut after text that takes a finish back": [text("a", "STOP"), text("b")],
    "cut after half a call that takes a finish back": [text("a"), STOP, DELETE],
    "cut after the fragment of a call that had finished": [WEATHER, HALF, STOP, REST],
    "fragment of the first call within the second": [
        *(WEATHER, HALF, TIME, piece(string("$.city", "is"), id="c1"), END, STOP),
    ],
    "named fragment of the first call within the second": [
        *(WEATHER, HALF, TIME, piece(string("$.city", "is"), id="c1", name="get_weather")),
        *(END, STOP),
    ],
    "fragment that names another tool": [
        *(WEATHER, HALF, piece(string("$.city", "is"), id="c1", name="get_time"), END, STOP),
    ],
    "fragment of no call": [text("a"), REST, END, STOP],
    "fragment of a call that was cut by text": [WEATHER, HALF, text("a"), REST, END, STOP],
    "whole arguments for a call in fragments": [WEATHER, HALF, function_call(**PARIS), STOP],
    "whole arguments beside fragments": [
        function_call(**{**PARIS, "partialArgs": [string("$.city", "Oslo")]}),
        STOP,
    ],
    "value within a string": [WEATHER, HALF, piece(string("$.unit", "C")), END, STOP],
    "end of a string repeated": [WEATHER, HALF, REST, REST, END, STOP],
    "number that is none": [WEATHER, piece({"jsonPath": "$.n", "numberValue": "NaN"}), END, STOP],
    "one id for two calls": [function_call(**PARIS), function_call(**{**TOKYO, "id": "c1"}), STOP],
    "one id for two arguments": [
        function_call(**PARIS),
        function_call(**{**PARIS, "args": {"city": "Oslo"}}),
        STOP,
    ],
    "text and call in one part": [parts({"text": "a", "functionCall": PARIS}), STOP],
    "two candidates without an index": [
        frame({"candidates": [{"content": {"parts": [{"text": t}]}} for t in "ab"]}),
        STOP,
    ],
    "candidate with an index that is none": [parts({"text": "a"}, index="1"), STOP],
    "second answer spliced in": [
        named("r1", {"text": "a"}),
        named("r2", {"functionCall": PARIS}, finishReason="STOP"),
    ],
    "finish beside code at the end": [text("a"), parts(CODE, finishReason="STOP")],
    "finish that says nothing at the end": [text("a", "FINISH_REASON_UNSPECIFIED")],
    "block reason that says nothing at the end": [
        frame({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}),
    ],
    "candidate without a finish": [
        chunk(candidate({"text": "a"}), candidate({"text": "b"}, index=1)),
        STOP,
    ],
    "error after the finish": [
        text("a", "STOP"),
        frame({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}),
    ],
    "result of one of two codes": [parts(CODE, CODE), parts(RESULT), STOP],
}
